import { describe, expect, test } from 'vitest';
import { cancelAsked } from '../../../src/dispatch/calls-in-flight.ts';
import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import {
  createTestService,
  functionCall,
  heldTool,
  type TestRequest,
  type TestServer,
  type TestService,
  textResult,
  tool,
} from '../../support/service.ts';
import { until } from '../../support/until.ts';

const lab: TestServer = { alias: 'lab', tools: [tool('pay'), tool('ping')] };
const mayAll: TestRequest = { scopes: ['tools:lab:*'] };
const pay = functionCall('c1', 'lab__pay');
const foreignId = '0198c0de-1f2a-7abc-8def-0123456789ab';

const idOf = async (service: TestService, call: unknown, request: TestRequest = mayAll): Promise<string> =>
  (await service.post('/v1/calls', call, request)).headers.get('callgate-id') ?? '';

function slowService(waitMaxMs: number) {
  const paying = heldTool(textResult('paid'));
  const service = createTestService({
    servers: [lab],
    behaviours: { 'lab:pay': paying.behaviour },
    service: { limits: { bodyBytesMax: 9_999, turnBytesMax: 9_999, intentsMax: 64, waitMaxMs } },
  });
  return { service, paying };
}

/** Makes every record that of somebody else. */
function giveAway(service: TestService): void {
  const { records } = service.ledger;
  for (const [key, record] of records) records.set(key, { ...record, actor: 'somebody else' });
}

describe('the record of a call', () => {
  test('says what was called, what became of it, and its output', async () => {
    const service = createTestService({
      servers: [lab],
      behaviours: { 'lab:pay': () => textResult('paid') },
    });
    const request = { ...mayAll, headers: { 'callgate-run': 'run 1', 'callgate-turn': 'turn 1' } };
    const posted = await service.post('/v1/calls', pay, request);
    const id = posted.headers.get('callgate-id');
    const { status, json } = await service.get(`/v1/calls/${id}`, mayAll);
    expect(status).toBe(200);
    expect(json).toEqual({
      id,
      call_id: 'c1',
      run: 'run 1',
      turn: 'turn 1',
      name: 'lab__pay',
      status: 'succeeded',
      may_have_executed: true,
      attempts: 1,
      created_at: expect.stringMatching(/^2025-01-01T00:00:00\.\d{3}Z$/),
      updated_at: expect.stringMatching(/^2025-01-01T00:00:00\.\d{3}Z$/),
      output: posted.json,
    });
  });

  test('of a call that failed carries its code', async () => {
    const service = createTestService({
      servers: [lab],
      behaviours: { 'lab:pay': () => textResult('no money', true) },
    });
    const failed = await service.get(`/v1/calls/${await idOf(service, pay)}`, mayAll);
    expect(failed.json).toMatchObject({ status: 'failed', code: 'tool_error', may_have_executed: true });
    expect(failed.json.output.output).toContain('no money');
    const gone = await idOf(service, functionCall('c2', 'lab__gone'));
    const rejected = await service.get(`/v1/calls/${gone}`, mayAll);
    expect(rejected.json).toMatchObject({
      status: 'rejected',
      code: 'unknown_tool',
      may_have_executed: false,
      attempts: 0,
      run: null,
      turn: null,
    });
    expect(rejected.json.output.output).toContain('unknown_tool');
  });

  test('is there while the call runs, for its caller only', async () => {
    const { service, paying } = slowService(0);
    const id = await idOf(service, pay);
    const running = await service.get(`/v1/calls/${id}`, mayAll);
    expect(running.json).toMatchObject({ id, status: 'started', may_have_executed: true });
    expect(running.json.output).toBeUndefined();
    // The call itself is known here without the ledger.
    service.ledger.brokenBy = 'the disk is full';
    expect((await service.get(`/v1/calls/${id}`, mayAll)).status).toBe(200);
    service.ledger.brokenBy = undefined;
    const flight = service.service.dispatch.inFlight.get(id);
    Object.defineProperty(flight, 'call', { get: () => ({ actor: 'somebody else', id }) });
    giveAway(service);
    expect((await service.get(`/v1/calls/${id}`, mayAll)).status).toBe(404);
    expect((await service.post(`/v1/calls/${id}/cancel`, '', mayAll)).status).toBe(404);
    paying.finish();
  });

  test('is written as the operator says', async () => {
    const service = createTestService({
      servers: [{ ...lab, policy: { render: 'text' } }],
      behaviours: { 'lab:pay': () => textResult('paid') },
    });
    const { json } = await service.get(`/v1/calls/${await idOf(service, pay)}`, mayAll);
    expect(json.output).toEqual({ type: 'function_call_output', call_id: 'c1', output: 'paid' });
  });

  test('keeps its output from a caller who has lost the right to the tool (AZ-10)', async () => {
    const service = createTestService({
      servers: [lab],
      behaviours: { 'lab:pay': () => textResult('secret') },
    });
    const id = await idOf(service, pay);
    for (const path of [`/v1/calls/${id}`, '/v1/calls']) {
      const { text, json } = await service.get(path, { scopes: ['tools:lab:ping'] });
      expect(text).not.toContain('secret');
      const record = json.calls?.[0] ?? json;
      expect(record).toMatchObject({ id, status: 'succeeded', may_have_executed: true });
      expect(record.output).toBeUndefined();
    }
  });

  test('of a hidden tool looks like that of one that is not there (AZ-3)', async () => {
    const policy = { render: 'text' } as const;
    const recordOf = async (tools: TestServer['tools']) => {
      const service = createTestService({
        servers: [{ alias: 'lab', policy, tools: tools ?? [] }],
        hideForbidden: true,
      });
      const scopes = ['tools:lab:ping'];
      const id = await idOf(service, pay, { scopes });
      const { json } = await service.get(`/v1/calls/${id}`, { scopes });
      const { id: _id, created_at: _created, updated_at: _updated, ...rest } = json;
      return rest;
    };
    expect(await recordOf([tool('ping'), tool('pay')])).toEqual(await recordOf([tool('ping')]));
  });

  test('says when its result is no longer kept', async () => {
    const service = createTestService({ servers: [lab] });
    const id = await idOf(service, pay);
    for (const [key, record] of service.ledger.records) {
      service.ledger.records.set(key, { ...record, outcome: undefined, isExpired: true });
    }
    const { json } = await service.get(`/v1/calls/${id}`, mayAll);
    expect(json).toMatchObject({ status: 'succeeded', code: 'call_expired', may_have_executed: true });
    expect(json.output).toBeUndefined();
  });

  test('that is not there, or not the caller’s, is not found', async () => {
    const service = createTestService({ servers: [lab] });
    const id = await idOf(service, pay);
    giveAway(service);
    for (const other of [id, foreignId, 'x', '%00', '%zz', id.toUpperCase(), 'x'.repeat(5_000)]) {
      const read = await service.get(`/v1/calls/${other}`, mayAll);
      expect([read.status, read.json.code]).toEqual([404, 'not_found']);
      const cancelled = await service.post(`/v1/calls/${other}/cancel`, '', mayAll);
      expect([cancelled.status, cancelled.json.code]).toEqual([404, 'not_found']);
    }
    expect(service.ledger.cancelRequests).toEqual([]);
  });

  test('needs a token, and takes no parameters', async () => {
    const service = createTestService({ servers: [lab] });
    const id = await idOf(service, pay);
    expect((await service.get(`/v1/calls/${id}`, { token: null })).status).toBe(401);
    expect((await service.get('/v1/calls', { token: null })).status).toBe(401);
    expect((await service.get(`/v1/calls/${id}?render=text`, mayAll)).status).toBe(400);
    expect((await service.request('HEAD', `/v1/calls/${id}`, mayAll)).text).toBe('');
  });
});

test('a large outcome is left alone by answers that do not tell it', async () => {
  const service = createTestService({ servers: [lab] });
  const id = await idOf(service, pay);
  const { records } = service.ledger;
  for (const [key, record] of records) {
    const outcome = {
      enumerable: true,
      get: () => {
        throw new Error('the outcome was read');
      },
    };
    records.set(key, Object.defineProperty({ ...record }, 'outcome', outcome));
  }
  expect((await service.post(`/v1/calls/${id}/cancel`, '', mayAll)).status).toBe(409);
  const reused = await service.post('/v1/calls', functionCall('c1', 'lab__ping'), mayAll);
  expect(reused.headers.get('callgate-code')).toBe('call_id_reused');
  const forbidden = await service.post('/v1/calls', pay, { scopes: ['tools:lab:ping'] });
  expect(forbidden.headers.get('callgate-code')).toBe('forbidden');
  expect(service.events.map(({ event }) => event)).not.toContain('request.failed');
});

describe('the list of calls', () => {
  const listed = async (service: TestService, query: string): Promise<string[]> => {
    const { json } = await service.get(`/v1/calls${query}`, mayAll);
    return json.calls.map(({ call_id }: { call_id: string }) => call_id);
  };

  test('holds the caller’s own calls, newest first, and those that are asked for', async () => {
    const service = createTestService({ servers: [lab] });
    const foreign = functionCall('foreign', 'lab__ping');
    await service.post('/v1/calls', foreign, mayAll);
    giveAway(service);
    expect(await listed(service, '')).toEqual([]);

    const inTurn = (run: string, turn: string): TestRequest => ({
      ...mayAll,
      headers: { 'callgate-run': run, 'callgate-turn': turn },
    });
    await service.post('/v1/calls', functionCall('a', 'lab__ping'), inTurn('r 1', 't1'));
    await service.post('/v1/calls', functionCall('b', 'lab__ping'), inTurn('r 1', 't2'));
    await service.post('/v1/calls', functionCall('c', 'lab__gone'), inTurn('r2', 't2'));
    expect(await listed(service, '')).toEqual(['c', 'b', 'a']);
    expect(await listed(service, '?run=r%201')).toEqual(['b', 'a']);
    expect(await listed(service, '?turn=t2')).toEqual(['c', 'b']);
    expect(await listed(service, '?run=r+1&turn=t2')).toEqual(['b']);
    expect(await listed(service, '?call_id=a')).toEqual(['a']);
    expect(await listed(service, '?status=rejected')).toEqual(['c']);
    expect(await listed(service, '?status=started')).toEqual([]);
  });

  test('comes in pages, each with a link to the next', async () => {
    const service = createTestService({ servers: [lab] });
    const calls = Array.from({ length: 5 }, (_, index) => functionCall(`c${index}`, 'lab__ping'));
    for (const call of calls) {
      await service.post('/v1/calls', call, { ...mayAll, headers: { 'callgate-run': 'a&b' } });
    }
    const seen: string[] = [];
    let path = '/v1/calls?limit=2&run=a%26b';
    const sizes: number[] = [];
    while (path !== '') {
      const { json, headers } = await service.get(path, mayAll);
      sizes.push(json.calls.length);
      seen.push(...json.calls.map(({ call_id }: { call_id: string }) => call_id));
      path = /^<(.+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1] ?? '';
    }
    expect(sizes).toEqual([2, 2, 1]);
    expect(seen).toEqual(['c4', 'c3', 'c2', 'c1', 'c0']);
  });

  test('holds a hundred calls on one page, if that is asked for', async () => {
    const service = createTestService({ servers: [lab] });
    const ids = Array.from({ length: 101 }, (_, index) => `c${index}`);
    for (const id of ids) await service.post('/v1/calls', functionCall(id, 'lab__ping'), mayAll);
    const newestFirst = ids.reverse();
    expect(await listed(service, '?limit=100')).toEqual(newestFirst.slice(0, 100));
    expect(await listed(service, '')).toEqual(newestFirst.slice(0, 20));
    expect((await service.get('/v1/calls?limit=100', mayAll)).headers.get('link')).not.toBeNull();
  });

  test('ends a page early where the outputs are large, and loses none', async () => {
    const big = 'x'.repeat(3_000_000);
    const service = createTestService({
      servers: [{ ...lab, policy: { outputCharsMax: 5_000_000 } }],
      behaviours: { 'lab:ping': () => textResult(big) },
    });
    for (const id of ['a', 'b', 'c']) await service.post('/v1/calls', functionCall(id, 'lab__ping'), mayAll);
    const first = await service.get('/v1/calls', mayAll);
    expect(first.json.calls).toHaveLength(2);
    const next = /^<(.+)>/.exec(first.headers.get('link') ?? '')?.[1] ?? '';
    const second = await service.get(next, mayAll);
    expect(second.json.calls.map(({ call_id }: { call_id: string }) => call_id)).toEqual(['a']);
    expect(second.headers.get('link')).toBeNull();
  });

  test('asks for no more records than it may need', async () => {
    const service = createTestService({ servers: [lab] });
    const ids = Array.from({ length: 40 }, (_, index) => `c${index}`);
    for (const id of ids) await service.post('/v1/calls', functionCall(id, 'lab__ping'), mayAll);
    const { list } = service.ledger;
    const limits: number[] = [];
    service.ledger.list = (query) => {
      limits.push(query.limit);
      return list.call(service.ledger, query);
    };
    expect(await listed(service, '?limit=1')).toEqual(['c39']);
    expect(await listed(service, '?limit=30')).toHaveLength(30);
    expect(await listed(service, '?limit=100')).toHaveLength(40);
    expect(limits).toEqual([2, 25, 6, 25, 25]);
  });

  test('ends a page early where the ledger has searched long, and loses none', async () => {
    const service = createTestService({ servers: [lab] });
    const ids = Array.from({ length: 8 }, (_, index) => `c${index}`);
    for (const id of ids) await service.post('/v1/calls', functionCall(id, 'lab__ping'), mayAll);
    const { list } = service.ledger;
    let lists = 0;
    // Each search looks at one record, and shows every second one.
    service.ledger.list = async (query) => {
      lists += 1;
      const [record] = await list.call(service.ledger, { ...query, limit: 1 });
      if (record === undefined) return [];
      const isShown = Number(record.callId.slice(1)) % 2 === 0;
      return Object.assign(isShown ? [record] : [], { resumeBefore: record.id });
    };
    const first = await service.get('/v1/calls', mayAll);
    expect(first.json.calls.map(({ call_id }: { call_id: string }) => call_id)).toEqual(['c6', 'c4']);
    expect(lists).toBe(5);
    const next = /^<(.+)>/.exec(first.headers.get('link') ?? '')?.[1] ?? '';
    const second = await service.get(next, mayAll);
    expect(second.json.calls.map(({ call_id }: { call_id: string }) => call_id)).toEqual(['c2', 'c0']);
    expect(second.headers.get('link')).toBeNull();
  });

  test('is made one at a time for a caller, and four at a time for all', async () => {
    const service = createTestService({ servers: [lab] });
    const refused = async (): Promise<void> => {
      const { status, json, headers } = await service.get('/v1/calls', mayAll);
      expect([status, json.code, headers.get('retry-after')]).toEqual([503, 'overloaded', '1']);
    };
    const { list } = service.ledger;
    let finish: (error: Error) => void = () => {};
    const held = new Promise<never>((_, fail) => {
      finish = fail;
    });
    let isAsked = false;
    service.ledger.list = () => {
      isAsked = true;
      return held;
    };
    const first = service.get('/v1/calls', mayAll);
    await until(() => isAsked);
    await refused();
    finish(new LedgerUnavailable('gone'));
    expect((await first).json.code).toBe('ledger_unavailable');
    service.ledger.list = list;
    expect(await listed(service, '')).toEqual([]);

    const { admission } = service.service;
    const others = ['a', 'b', 'c', 'd'];
    expect(others.map((other) => admission.takeList(other))).toEqual([true, true, true, true]);
    await refused();
    admission.giveList('c');
    expect(await listed(service, '')).toEqual([]);
  });

  test.each([
    'limit=0',
    'limit=101',
    'limit=',
    'limit=1e1',
    'limit=-1',
    'limit=1&limit=2',
    'status=done',
    'status=',
    'cursor=x',
    'cursor=',
    'call_id=',
    `run=${'x'.repeat(257)}`,
    'turn=',
    'name=x',
  ])('does not understand %s', async (query) => {
    const service = createTestService({ servers: [lab] });
    const { status, json } = await service.get(`/v1/calls?${query}`, mayAll);
    expect([status, json.code]).toEqual([400, 'invalid_request']);
    expect(json.errors[0].parameter).toBe(query.split('=')[0]);
  });
});

describe('the cancelling of a call', () => {
  test('ends it where it runs, and gives its record', async () => {
    const { service, paying } = slowService(55_000);
    const posted = service.post('/v1/calls', pay, mayAll);
    await paying.called;
    const id = paying.calls[0]?.id;
    const { status, json } = await service.request('POST', `/v1/calls/${id}/cancel`, mayAll);
    expect(status).toBe(200);
    expect(json).toMatchObject({ id, status: 'unknown', code: 'cancelled', may_have_executed: true });
    expect(paying.calls[0]?.signal.reason).toBe('its caller asked for that');
    expect((await posted).headers.get('callgate-code')).toBe('cancelled');
    const again = await service.post('/v1/calls', pay, mayAll);
    expect([again.headers.get('callgate-code'), again.headers.get('callgate-replayed')]).toEqual([
      'cancelled',
      'true',
    ]);
    expect(service.sent).toHaveLength(1);
  });

  test('of one that does not end is answered with 202', async () => {
    const held = heldTool();
    const service = createTestService({
      servers: [lab],
      behaviours: { 'lab:pay': (call) => held.behaviour({ ...call, signal: new AbortController().signal }) },
    });
    const posted = service.post('/v1/calls', pay, mayAll);
    await held.called;
    const id = held.calls[0]?.id;
    const { status, json, headers } = await service.post(`/v1/calls/${id}/cancel`, '', mayAll);
    expect([status, json.status, headers.get('location')]).toEqual([202, 'started', `/v1/calls/${id}`]);
    held.finish();
    expect((await posted).headers.get('callgate-status')).toBe('succeeded');
  });

  test('that runs in another process is asked for there', async () => {
    const { service, paying } = slowService(0);
    const id = await idOf(service, pay);
    const { inFlight } = service.service.dispatch;
    const flight = inFlight.get(id);
    if (flight === undefined) throw new Error('the call does not run');
    // From here on only the ledger knows the call, as in a replica that does not run it.
    inFlight.close(flight);
    const late = await service.post(`/v1/calls/${id}/cancel`, '', mayAll);
    expect([late.status, late.json.status]).toEqual([202, 'started']);
    expect(service.ledger.cancelRequests).toEqual([id]);
    expect(paying.calls[0]?.signal.aborted).toBe(false);

    service.ledger.requestCancel = async () => flight.cancel(cancelAsked);
    const { status, json } = await service.post(`/v1/calls/${id}/cancel`, '', mayAll);
    expect([status, json.code]).toEqual([200, 'cancelled']);
  });

  test('that runs in another process and is waited for here is asked for there, too', async () => {
    const { service, paying } = slowService(0);
    const id = await idOf(service, pay);
    const { inFlight } = service.service.dispatch;
    const flight = inFlight.get(id);
    if (flight === undefined) throw new Error('the call does not run');
    inFlight.close(flight);
    const joined = await service.post('/v1/calls', pay, mayAll);
    expect([joined.status, joined.headers.get('callgate-id')]).toEqual([202, id]);
    const { status } = await service.post(`/v1/calls/${id}/cancel`, '', mayAll);
    expect(status).toBe(202);
    expect(service.ledger.cancelRequests).toEqual([id]);
    paying.finish();
    await until(() => service.finished.length === 1);
  });

  test('that has ended is a conflict', async () => {
    const service = createTestService({ servers: [lab] });
    const id = await idOf(service, pay);
    const { status, json } = await service.post(`/v1/calls/${id}/cancel`, '', mayAll);
    expect([status, json.code]).toEqual([409, 'conflict']);
    expect(json.detail).toContain('succeeded');
  });

  test('needs a token, and takes no parameters', async () => {
    const service = createTestService({ servers: [lab] });
    expect((await service.post(`/v1/calls/${foreignId}/cancel`, '', { token: null })).status).toBe(401);
    expect((await service.post(`/v1/calls/${foreignId}/cancel?x=1`, '', mayAll)).status).toBe(400);
  });
});

describe('while the ledger cannot be read', () => {
  test('records are not to be had', async () => {
    const service = createTestService({ servers: [lab] });
    const id = await idOf(service, pay);
    service.ledger.brokenBy = 'the disk is gone';
    for (const answer of [
      await service.get(`/v1/calls/${id}`, mayAll),
      await service.get('/v1/calls', mayAll),
      await service.post(`/v1/calls/${id}/cancel`, '', mayAll),
    ]) {
      expect([answer.status, answer.json.code]).toEqual([503, 'ledger_unavailable']);
      expect(answer.headers.get('retry-after')).toBe('1');
      expect(answer.text).not.toContain('disk');
    }
    expect(service.events.map(({ event }) => event)).not.toContain('request.failed');
  });
});

describe('while callgate shuts down (RL-8)', () => {
  test('calls are refused, and records are still read and calls cancelled', async () => {
    const { service, paying } = slowService(0);
    const id = await idOf(service, pay);
    await service.service.admission.close(60_000);
    for (const accept of ['application/json', 'text/event-stream']) {
      for (const path of ['/v1/calls', '/v1/turns']) {
        const refused = await service.post(path, pay, { ...mayAll, headers: { accept } });
        expect([refused.status, refused.json.code]).toEqual([503, 'draining']);
      }
    }
    expect((await service.get(`/v1/calls/${id}`, mayAll)).json.status).toBe('started');
    expect((await service.get('/v1/calls', mayAll)).json.calls).toHaveLength(1);
    const cancelled = await service.post(`/v1/calls/${id}/cancel`, '', mayAll);
    expect([cancelled.status, cancelled.json.code]).toEqual([200, 'cancelled']);
    paying.finish();
  });
});
