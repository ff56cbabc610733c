import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { AddressRefused, createOutbound, type Outbound } from '../../src/upstream/http/outbound.ts';
import { http, legacyConnection } from '../support/upstream.ts';

// Where connections may lead (MT-8). The names of this test are known to nobody else: it says what they resolve to.
const names = vi.hoisted(() => new Map<string, string[][]>());
const lookups = vi.hoisted(() => [] as string[]);
vi.mock('node:dns', async (original) => {
  const dns = await original<typeof import('node:dns')>();
  type Lookup = (host: string, options: object, callback: (error: null, found: unknown) => void) => void;
  const lookup: Lookup = (host, options, callback) => {
    const answers = names.get(host);
    if (answers === undefined) return (dns.lookup as Lookup)(host, options, callback);
    lookups.push(host);
    // Each question gets the next answer, as from a server that changes its mind; the last one stays.
    const answer = (answers.length > 1 ? answers.shift() : answers[0]) ?? [];
    callback(
      null,
      answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  };
  return { ...dns, lookup, default: { ...dns, lookup } };
});

const ends: (() => Promise<void>)[] = [];
let requests: string[];
beforeEach(() => {
  requests = [];
  lookups.length = 0;
  names.clear();
});
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

/** A server on loopback; resolves with its port. */
async function serve(handle: (request: IncomingMessage, response: ServerResponse) => void): Promise<number> {
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.headers.host}${request.url}`);
    handle(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(async () => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

function outbound(writtenBy: 'operator' | 'discovered', allowLoopback = false): Outbound {
  const made = createOutbound({ rules: { writtenBy, allowLoopback }, connectTimeoutMs: 2_000 });
  ends.push(() => made.close());
  return made;
}

const json = (_request: IncomingMessage, response: ServerResponse): void =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end('{"a":"ü"}');

describe('a URL that the operator wrote', () => {
  test('may lead to this machine, by name or address', async () => {
    const port = await serve(json);
    names.set('tools.test', [['127.0.0.1']]);
    for (const host of ['127.0.0.1', 'localhost', 'tools.test']) {
      const response = await outbound('operator').fetch(`http://${host}:${port}/x`);
      expect(await response.json()).toEqual({ a: 'ü' });
      expect(response.headers.get('content-type')).toBe('application/json');
    }
  });

  test.each([
    'http://169.254.169.254/',
    'http://2852039166/',
    'http://0251.0376.0251.0376/',
    'http://[::ffff:169.254.169.254]/',
    'http://[fe80::1]/',
    'http://[fd00:ec2::254]/',
    'http://100.100.100.200/',
    'http://metadata.google.internal/',
    'http://imds.test/',
  ])('leads nowhere where machines get credentials: %s', async (url) => {
    names.set('imds.test', [['169.254.169.254', 'fe80::1%2']]);
    await expect(outbound('operator').fetch(url)).rejects.toThrow(AddressRefused);
  });
});

describe('a URL that the operator did not write', () => {
  test.each([
    'https://127.0.0.1/',
    'https://localhost/',
    'https://10.0.0.1/',
    'https://[::1]/',
    'https://0/',
    'https://inner.test/',
    'http://open.test/',
    'ftp://open.test/',
  ])('is refused: %s', async (url) => {
    names.set('inner.test', [['192.168.1.1', '::ffff:10.0.0.1', '127.0.0.1']]);
    names.set('open.test', [['8.8.8.8']]);
    await expect(outbound('discovered').fetch(url)).rejects.toThrow(AddressRefused);
  });

  test('may be one of this machine where the operator named one, and no foreign name may lead there', async () => {
    const port = await serve(json);
    names.set('elsewhere.test', [['127.0.0.1']]);
    const response = await outbound('discovered', true).fetch(`http://localhost:${port}/`);
    expect(response.status).toBe(200);
    await expect(outbound('discovered', true).fetch(`https://elsewhere.test:${port}/`)).rejects.toThrow(
      AddressRefused,
    );
    expect(requests).toHaveLength(1);
  });
});

test('a name is looked up once, and the connection goes to what was found then (DNS rebinding)', async () => {
  const port = await serve(json);
  // At the second question the name would lead to an address that was never looked at.
  names.set('rebinds.test', [['127.0.0.1'], ['169.254.169.254']]);
  const response = await outbound('operator').fetch(`http://rebinds.test:${port}/`);
  expect(response.status).toBe(200);
  expect(lookups).toEqual(['rebinds.test']);
});

test('of several addresses only those count that are allowed', async () => {
  const port = await serve(json);
  names.set('mixed.test', [['169.254.169.254', '127.0.0.1']]);
  const response = await outbound('operator').fetch(`http://mixed.test:${port}/`);
  expect(response.status).toBe(200);
});

describe('a request for metadata or a token', () => {
  test('sends a form, and gets whatever status there is', async () => {
    let sent = '';
    const port = await serve((request, response) => {
      request.on('data', (chunk) => {
        sent += chunk;
      });
      request.on('end', () => void response.writeHead(400).end('{"error":"invalid_grant"}'));
    });
    const response = await outbound('operator').fetch(`http://127.0.0.1:${port}/token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'client_credentials' }),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({ error: 'invalid_grant' });
    expect(sent).toBe('grant_type=client_credentials');
  });

  test.each([301, 302, 307, 308])('follows no redirect (%i)', async (status) => {
    const port = await serve(
      (_request, response) => void response.writeHead(status, { location: '/x' }).end(),
    );
    const response = await outbound('operator').fetch(`http://127.0.0.1:${port}/`);
    expect(response.status).toBe(status);
    expect(requests).toHaveLength(1);
  });

  test('reads no more than 64 KB', async () => {
    const port = await serve((_request, response) => void response.end('x'.repeat(65_537)));
    await expect(outbound('operator').fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow('larger than');
  });

  test('ends with its signal, and when nothing is said for too long', async () => {
    const port = await serve(() => {});
    const signal = AbortSignal.timeout(50);
    await expect(outbound('operator').fetch(`http://127.0.0.1:${port}/`, { signal })).rejects.toThrow();
  });
});

test.each(['http', 'sse'] as const)('the rules hold for servers too (%s)', async (kind) => {
  names.set('imds.test', [['169.254.169.254']]);
  const transport = { ...http('http://imds.test/mcp'), kind } as ReturnType<typeof http>;
  const connection = legacyConnection(transport);
  expect(await connection.open()).toMatchObject({
    stage: 'connect',
    reason: 'its host leads to an address that callgate does not connect to',
  });
  await connection.close();
});
