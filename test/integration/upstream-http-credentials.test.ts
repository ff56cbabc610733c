import { afterEach, describe, expect, test } from 'vitest';
import { type Credentials, CredentialsRefused } from '../../src/upstream/credentials.ts';
import type { LegacyConnection } from '../../src/upstream/legacy-connection.ts';
import { FaultHttpServer, type FaultHttpServerOptions } from '../support/fault-http-server.ts';
import { http, legacyConnection, longDeadline, toolCall } from '../support/upstream.ts';

// What requests carry to show who sends them, and what is done when the server wants something else.

type Headers = Readonly<Record<string, string>>;

/** A source of tokens that are numbered, and that knows what became of them. */
class Tokens implements Credentials {
  readonly refused: (readonly [Headers, string | undefined])[] = [];
  current = 1;
  ending = '';
  isAsync = false;
  refusal: CredentialsRefused | undefined;
  /** Whether there are other credentials when some were refused. */
  renews = true;

  headers(): Headers | Promise<Headers> {
    if (this.refusal !== undefined) throw this.refusal;
    const headers = { Authorization: `Bearer token-${this.current}${this.ending}` };
    return this.isAsync ? Promise.resolve(headers) : headers;
  }

  renew(refused: Headers, challenge: string | undefined): Promise<boolean> {
    // What the listening stream and a call find out at the same time is one thing.
    if (refused.Authorization === `Bearer token-${this.current}`) {
      this.refused.push([refused, challenge]);
      if (this.renews) this.current += 1;
    }
    return Promise.resolve(this.renews);
  }
}

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

interface Link {
  readonly peer: FaultHttpServer;
  readonly tokens: Tokens;
  readonly connection: LegacyConnection;
  readonly lost: string[];
}

async function open(options: FaultHttpServerOptions = {}, tokens = new Tokens()): Promise<Link> {
  const peer = await FaultHttpServer.start(options);
  ends.push(() => peer.stop());
  const lost: string[] = [];
  const transport = http(peer.url, { authorization: 'Bearer configured', 'X-Key': 'K1' });
  const connection = legacyConnection(transport, {
    credentials: tokens,
    onLost: (reason) => void lost.push(reason),
  });
  ends.push(() => connection.close());
  expect(await connection.open()).toBeUndefined();
  return { peer, tokens, connection, lost };
}

const call = (
  { connection }: Link,
  tool: string,
  args: Record<string, string | number> = {},
): ReturnType<LegacyConnection['callTool']> => connection.callTool(toolCall(tool, args), longDeadline(), 1);

const textOf = (result: Awaited<ReturnType<typeof call>>): unknown =>
  result.ok ? result.value.content[0]?.text : result.error;

/** Accepts one token only, whatever the request. */
const wanting =
  (token: () => string, status = 401, challenge: string | string[] = 'Bearer error="invalid_token"') =>
  ({ headers }: { readonly headers: Readonly<Record<string, unknown>> }) =>
    headers.authorization === `Bearer ${token()}`
      ? undefined
      : ([status, { 'www-authenticate': challenge }] as const);

describe('credentials', () => {
  test.each([false, true])('stand over configured headers (asked for: %s)', async (isAsync) => {
    const tokens = Object.assign(new Tokens(), { isAsync });
    const link = await open({}, tokens);
    const headers = JSON.parse(String(textOf(await call(link, 'headers'))));
    expect(headers).toMatchObject({ authorization: 'Bearer token-1', 'x-key': 'K1' });
  });

  test('that are refused are renewed, and the same request is sent once more', async () => {
    let wanted = 'token-1';
    const link = await open({ refuses: wanting(() => wanted) });
    wanted = 'token-2';
    expect(textOf(await call(link, 'echo', { text: 'a' }))).toBe('a');
    expect(link.tokens.refused).toEqual([
      [{ Authorization: 'Bearer token-1' }, 'Bearer error="invalid_token"'],
    ]);
    expect(link.peer.counts['refused POST'] ?? 0).toBeLessThanOrEqual(1);
    expect(link.peer.counts['tool:echo']).toBe(1);
  });

  test('that are refused again fail the call, which was not run', async () => {
    let wanted = 'token-1';
    const link = await open({ refuses: wanting(() => wanted) });
    wanted = 'none';
    expect(textOf(await call(link, 'echo', { text: 'a' }))).toMatchObject({
      code: 'server_unavailable',
      sent: false,
      mayHaveExecuted: false,
      message: expect.stringContaining('HTTP 401'),
    });
    expect(link.peer.counts).toMatchObject({ 'refused POST': 2 });
    expect(link.peer.counts['tool:echo']).toBeUndefined();
  });

  test('for which there are no others are not sent again', async () => {
    let wanted = 'token-1';
    const tokens = Object.assign(new Tokens(), { renews: false });
    const link = await open({ refuses: wanting(() => wanted) }, tokens);
    wanted = 'none';
    expect(textOf(await call(link, 'echo'))).toMatchObject({ code: 'server_unavailable', sent: false });
    expect(link.peer.counts['refused POST']).toBe(1);
  });

  test('are renewed after a 403 only when their scope is too small', async () => {
    let wanted = 'token-1';
    let challenge = 'Bearer error="insufficient_scope", scope="files:write"';
    const link = await open({ refuses: (request) => wanting(() => wanted, 403, challenge)(request) });
    wanted = 'token-2';
    expect(textOf(await call(link, 'echo', { text: 'a' }))).toBe('a');
    expect(link.tokens.refused[0]?.[1]).toBe(challenge);
    wanted = 'token-3';
    challenge = 'Bearer';
    expect(textOf(await call(link, 'echo'))).toMatchObject({
      code: 'server_unavailable',
      message: expect.stringContaining('HTTP 403'),
    });
    expect(link.tokens.refused).toHaveLength(1);
  });

  test('are renewed for a challenge among several, each in a header of its own', async () => {
    let wanted = 'token-1';
    const challenges = ['Basic realm="a"', 'Bearer error="insufficient_scope", scope="files:write"'];
    const link = await open({ refuses: (request) => wanting(() => wanted, 403, challenges)(request) });
    wanted = 'token-2';
    expect(textOf(await call(link, 'echo', { text: 'a' }))).toBe('a');
    expect(link.tokens.refused[0]?.[1]).toBe(challenges.join(', '));
  });

  test('that cannot be got keep the request back, and say why', async () => {
    const link = await open();
    link.tokens.refusal = new CredentialsRefused('its authorization server does not answer');
    expect(textOf(await call(link, 'echo'))).toMatchObject({
      code: 'server_unavailable',
      sent: false,
      message: expect.stringContaining('its authorization server does not answer'),
    });
    expect(link.peer.counts['tools/call']).toBeUndefined();
    link.tokens.refusal = undefined;
    expect(textOf(await call(link, 'echo', { text: 'again' }))).toBe('again');
    expect(link.lost).toEqual([]);
  });

  test('that are no header keep the request back', async () => {
    const link = await open();
    link.tokens.ending = '\r\nx-forged: 1';
    expect(textOf(await call(link, 'echo'))).toMatchObject({
      code: 'server_unavailable',
      sent: false,
      message: expect.stringContaining('cannot be sent over HTTP'),
    });
    expect(link.peer.counts['tools/call']).toBeUndefined();
  });

  test('are fresh on the listening stream and on the farewell', async () => {
    let wanted = 'token-1';
    const link = await open({ hasSessions: true, hasEvents: true, refuses: wanting(() => wanted) });
    await link.peer.when(() => link.peer.openStreams === 1);
    wanted = 'token-2';
    link.peer.endStreams();
    await link.peer.when(() => link.peer.counts.GET === 2);
    expect(link.peer.counts['refused GET']).toBe(1);
    wanted = 'token-3';
    await link.connection.close();
    expect(link.peer.counts).toMatchObject({ 'refused DELETE': 1, DELETE: 1 });
  });

  test('are renewed for the rest of an answer too', async () => {
    let wanted = 'token-1';
    const link = await open({
      refuses: (request) => (request.method === 'GET' ? wanting(() => wanted)(request) : undefined),
    });
    wanted = 'token-2';
    expect(textOf(await call(link, 'resumable'))).toBe('the rest');
    expect(link.peer.counts).toMatchObject({ 'tool:resumable': 1, 'refused GET': 1, 'GET rest': 1 });
  });
});
