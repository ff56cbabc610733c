import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  createTestService,
  functionCall,
  type TestRequest,
  type TestService,
  tool,
} from '../../support/service.ts';

const mayAll: TestRequest = { scopes: ['tools:lab:*'] };
const good = JSON.stringify(functionCall('c', 'lab__ping'));
const goodTurn = JSON.stringify([functionCall('c', 'lab__ping')]);
const json = { 'content-type': 'application/json' };

let service: TestService;
beforeEach(() => {
  service = createTestService({
    servers: [{ alias: 'lab', tools: [tool('ping')] }],
    service: { limits: { bodyBytesMax: 4_096, turnBytesMax: 8_192, intentsMax: 64, waitMaxMs: 55_000 } },
  });
});

// Whatever came before, the next request works.
afterEach(async () => {
  const { status, headers } = await service.post('/v1/calls', functionCall('last', 'lab__ping'), mayAll);
  expect([status, headers.get('callgate-status')]).toEqual([200, 'succeeded']);
  expect(service.events.map(({ event }) => event)).not.toContain('request.failed');
});

const send = (
  body: NonNullable<RequestInit['body']>,
  headers: Record<string, string> = json,
  path = '/v1/calls',
) => service.request('POST', path, { ...mayAll, headers }, body);

const nested = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;

describe('a body', () => {
  test.each([
    ['broken JSON', '{"type":', 'broken JSON'],
    ['a lonely brace', '}', 'broken JSON'],
    ['single quotes', "{'type':'function_call'}", 'broken JSON'],
    ['two values', '{} {}', 'the end of the text'],
    ['nothing', '', 'empty'],
    ['blanks', ' \r\n ', 'empty'],
    ['a member twice', '{"type":"function_call","type":"x"}', 'appears twice'],
    ['a member twice, written differently', '{"type":"a","\\u0074ype":"b"}', 'appears twice'],
    ['too many levels', nested(65), 'nested deeper than 64'],
    ['very many levels', nested(2_000), 'nested deeper than 64'],
    ['a number that is infinite', '{"type":1e999}', 'not usable JSON'],
    ['a scalar', '5', 'function_call'],
    ['null', 'null', 'function_call'],
    ['a list', '[]', 'function_call'],
    ['another item', '{"type":"message"}', 'function_call'],
    ['no type', '{"call_id":"c","name":"lab__ping"}', 'function_call'],
    ['no name', '{"type":"function_call","call_id":"c"}', '/name'],
    ['a numeric id', '{"type":"function_call","call_id":5,"name":"x"}', '/call_id'],
    [
      'an unfinished call',
      '{"type":"function_call","call_id":"c","name":"x","status":"incomplete"}',
      'did not finish',
    ],
    ['a numeric namespace', '{"type":"function_call","call_id":"c","name":"x","namespace":1}', '/namespace'],
  ])('with %s is refused with 400 and what to do', async (_, body, reason) => {
    const answer = await send(body);
    expect([answer.status, answer.json.code]).toEqual([400, 'invalid_request']);
    expect(answer.json.detail).toContain(reason);
    expect(answer.json.title).toBe('The request is not valid');
  });

  test('of 64 levels is read', async () => {
    const inside = nested(62).replace('[]', '[1]');
    const body = `{"type":"function_call","call_id":"c","name":"lab__ping","arguments":{"a":${inside}}}`;
    expect((await send(body)).headers.get('callgate-status')).toBe('succeeded');
    expect(JSON.stringify(service.sent[0]?.arguments)).toBe(`{"a":${inside}}`);
  });

  test('with a byte order mark is read', async () => {
    expect((await send(`\ufeff${good}`)).status).toBe(200);
    expect((await send('\ufeff')).json.detail).toContain('empty');
  });

  test.each([
    ['half a character', Buffer.concat([Buffer.from(good.slice(0, -1)), Buffer.from([0xc3])])],
    ['an overlong character', Buffer.from([0x22, 0xc0, 0xaf, 0x22])],
    ['UTF-16', Buffer.from(good, 'utf16le')],
    ['compressed bytes', Buffer.from([0x1f, 0x8b, 0x08, 0x00, 0xff])],
  ])('with %s is refused', async (_, body) => {
    const answer = await send(body);
    expect(answer.status).toBe(400);
    expect(answer.json.detail).toMatch(/UTF-8|JSON/);
  });

  test('keeps own members named like those of a prototype apart from it', async () => {
    const body =
      '{"type":"function_call","call_id":"__proto__","name":"lab__ping","__proto__":{"isAdmin":true},"arguments":{"__proto__":{"isAdmin":true},"constructor":1}}';
    const answer = await send(body);
    expect([answer.status, answer.json.call_id]).toEqual([200, '__proto__']);
    expect(({} as { isAdmin?: boolean }).isAdmin).toBeUndefined();
    const [sent] = service.sent;
    expect(Object.getPrototypeOf(sent?.arguments)).toBe(Object.prototype);
  });

  test('larger than the limit of its route is refused, announced or not', async () => {
    const big = JSON.stringify(functionCall('c', 'lab__ping', { a: 'x'.repeat(5_000) }));
    const stream = (): ReadableStream<Uint8Array> => {
      const bytes = new TextEncoder().encode(big);
      return new ReadableStream({
        start(controller) {
          for (let at = 0; at < bytes.length; at += 1_000) controller.enqueue(bytes.slice(at, at + 1_000));
          controller.close();
        },
      });
    };
    for (const [body, headers] of [
      [big, json],
      [big, { ...json, 'content-length': String(big.length) }],
      [stream(), json],
    ] as const) {
      const answer = await send(body, headers);
      expect([answer.status, answer.json.code]).toEqual([413, 'payload_too_large']);
      expect(answer.json.detail).toContain('4096 bytes');
    }
    expect((await send(`[${big}]`, json, '/v1/turns')).status).toBe(200);
    expect((await send(`[${big},${big}]`, json, '/v1/turns')).status).toBe(413);
  });

  test('that breaks off is no fault of callgate', async () => {
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"type"'));
        controller.error(new Error('the client is gone'));
      },
    });
    const answer = await send(body);
    expect([answer.status, answer.json.code]).toEqual([400, 'invalid_request']);
  });
});

describe('a media type', () => {
  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonp',
    'json',
    '',
  ])('of a body that is %j is refused with 415', async (type) => {
    const answer = await send(Buffer.from(good), { 'content-type': type });
    expect([answer.status, answer.json.code]).toEqual([415, 'unsupported_media_type']);
    expect(answer.json.detail).toContain('application/json');
  });

  test('of a body that is missing is refused with 415', async () => {
    expect((await send(Buffer.from(good), {})).status).toBe(415);
  });

  test.each([
    'application/json; charset=utf-8',
    'APPLICATION/JSON',
    'application/vnd.api+json',
    ' application/json ;x=y',
  ])('of a body that is %j is taken', async (type) => {
    expect((await send(good, { 'content-type': type })).status).toBe(200);
  });

  test('of a body that is compressed is refused with 415', async () => {
    const answer = await send(good, { ...json, 'content-encoding': 'gzip' });
    expect([answer.status, answer.json.detail]).toEqual([
      415,
      'send the body as it is, without a Content-Encoding',
    ]);
  });

  test.each([
    'text/html',
    'application/xml, text/*',
    'text/event-stream;q=0',
    'application/json;q=0',
    'application/json;q=0.0, */*',
    '*/*;q=0',
  ])('that the client accepts is refused with 406 when it is %j', async (accept) => {
    for (const path of ['/v1/calls', '/v1/turns']) {
      const answer = await send(good, { ...json, accept }, path);
      expect([answer.status, answer.json.code]).toEqual([406, 'not_acceptable']);
    }
    for (const path of ['/v1/declarations', '/v1/servers']) {
      const answer = await service.get(path, { scopes: ['callgate:operate'], headers: { accept } });
      expect(answer.status).toBe(406);
    }
    expect(service.sent).toEqual([]);
  });

  test.each([
    '',
    '*/*',
    'application/*',
    'text/html, application/json;q=0.1',
    'APPLICATION/JSON',
    'text/event-stream, */*;q=0.5',
  ])('that the client accepts is served when it is %j', async (accept) => {
    expect((await send(good, { ...json, accept })).status).toBe(200);
  });
});

describe('a method or a path', () => {
  test.each(['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'GET', 'HEAD', 'PROPFIND'])(
    'that is %s on a route for POST is refused with 405',
    async (method) => {
      for (const path of ['/v1/turns', '/v1/calls/0198c0de-1f2a-7abc-8def-0123456789ab/cancel']) {
        const answer = await service.request(method, path, mayAll);
        expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
        if (method !== 'HEAD') expect(answer.json.code).toBe('method_not_allowed');
      }
    },
  );

  test.each(['PUT', 'DELETE', 'OPTIONS'])(
    'that is %s on a path with routes for GET and POST is refused with 405',
    async (method) => {
      const answer = await service.request(method, '/v1/calls', mayAll);
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD, POST']);
      expect(answer.json.detail).toContain('GET or POST');
    },
  );

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])(
    'that is %s on a route for GET is refused with 405',
    async (method) => {
      for (const path of ['/v1/declarations', '/v1/servers', '/v1/calls/x', '/healthz', '/openapi.yaml']) {
        const answer = await service.request(method, path, mayAll);
        expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
      }
    },
  );

  test.each([
    '/',
    '/v1',
    '/v1/calls/',
    '/V1/calls',
    '/v1/calls/x/y',
    '/v1/calls/x/cancel/',
    '/v1//calls',
    '/docs',
    '/metrics',
    '/%',
    '/%00',
    '/..%2f..%2fetc',
  ])('that is %s does not exist', async (path) => {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const answer = await service.request(method, path, mayAll);
      expect([answer.status, answer.json.code]).toEqual([404, 'not_found']);
    }
  });
});

describe('a header', () => {
  test('that names a request comes back, unless it is none that a log should hold', async () => {
    const named = async (id: string) =>
      (await service.get('/healthz', { headers: { 'x-request-id': id } })).headers.get('x-request-id');
    expect(await named('abc.DEF-1_2~3')).toBe('abc.DEF-1_2~3');
    for (const id of ['', 'a b', 'x'.repeat(129), 'a"b', 'ü']) {
      expect(await named(id)).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
    }
  });

  test.each(['callgate-run', 'callgate-turn', 'callgate-revision'])(
    '%s that is too long is refused',
    async (name) => {
      for (const [path, body] of [
        ['/v1/calls', good],
        ['/v1/turns', goodTurn],
      ] as const) {
        const answer = await send(body, { ...json, [name]: 'x'.repeat(257) }, path);
        expect(answer.status).toBe(400);
        expect(answer.json.errors).toEqual([{ parameter: name, detail: 'at most 256 characters' }]);
        const longest = { ...json, [name]: 'x'.repeat(256) };
        const other = body.replace('"c"', `"${path}"`);
        expect((await send(other, longest, path)).status).toBe(200);
      }
      expect(service.sent).toHaveLength(2);
    },
  );

  test('of a page of another host is refused while callgate is bound to loopback (MT-15)', async () => {
    const local = createTestService({
      service: { hostsAllowed: new Set(['localhost', '127.0.0.1', '[::1]']) },
    });
    const status = async (headers: Record<string, string>) =>
      (await local.get('/healthz', { headers })).status;
    for (const host of ['localhost', 'LOCALHOST:8787', '127.0.0.1:8787', '[::1]:8787', '[::1]']) {
      expect([host, await status({ host })]).toEqual([host, 200]);
    }
    for (const host of ['evil.example', 'localhost.evil.example:8787', '127.0.0.1.nip.io', '']) {
      expect([host, await status({ host })]).toEqual([host, 400]);
    }
    const host = 'localhost:8787';
    expect(await status({ host, origin: 'http://localhost:3000' })).toBe(200);
    expect(await status({ host, origin: 'https://evil.example' })).toBe(400);
    expect(await status({ host, origin: 'null' })).toBe(400);
    expect((await local.get('/no/such', { headers: { host: 'evil.example' } })).status).toBe(400);
  });
});

describe('whatever comes', () => {
  const noise = fc.oneof(
    fc.json({ maxDepth: 6 }),
    fc.string({ unit: 'binary' }),
    fc
      .record(
        {
          type: fc.oneof(fc.constantFrom('function_call', 'custom_tool_call', 'message'), fc.jsonValue()),
          call_id: fc.oneof(fc.string(), fc.jsonValue()),
          name: fc.oneof(fc.constantFrom('lab__ping', 'lab__x', 'constructor'), fc.jsonValue()),
          namespace: fc.oneof(fc.constant('lab'), fc.jsonValue()),
          arguments: fc.oneof(fc.constantFrom('{}', '{', ''), fc.json(), fc.jsonValue()),
          input: fc.jsonValue(),
          status: fc.jsonValue(),
          caller: fc.jsonValue(),
          output: fc.jsonValue(),
          id: fc.jsonValue(),
        },
        { requiredKeys: [] },
      )
      .chain((item) => fc.constantFrom<unknown>(item, [item], { output: [item] }))
      .map((value) => JSON.stringify(value)),
  );

  test('in a body, the answer is one that is documented, and never a 500', async () => {
    await fc.assert(
      fc.asyncProperty(
        noise,
        fc.constantFrom(
          '/v1/calls',
          '/v1/turns',
          '/v1/turns?format=mcp',
          '/v1/turns?unknown=leave&render=text',
        ),
        async (body, path) => {
          const { status } = await send(Buffer.from(body), json, path);
          expect([200, 400, 413]).toContain(status);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test('in a path, a query or a header, the answer is one that is documented, and never a 500', async () => {
    const ascii = fc.string({ unit: 'grapheme-ascii', maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('GET', 'POST', 'DELETE'),
        fc.constantFrom(
          '/v1/declarations',
          '/v1/calls',
          '/v1/calls/x',
          '/v1/calls/x/cancel',
          '/v1/servers',
          '/',
        ),
        ascii,
        ascii,
        async (method, path, query, value) => {
          const headers = {
            ...json,
            accept: value,
            prefer: value,
            'callgate-run': value,
            'if-none-match': value,
            'x-request-id': value,
          };
          const { status } = await service.request(method, `${path}?${encodeURI(query).replace('#', '')}`, {
            ...mayAll,
            headers,
          });
          expect(status).toBeLessThan(500);
        },
      ),
      { numRuns: 300 },
    );
  });
});
