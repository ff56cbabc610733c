import { describe, expect, test } from 'vitest';
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
const reading: TestServer = { alias: 'docs', tools: [tool('look')], policy: { class: 'read' } };
const mayAll: TestRequest = { scopes: ['tools:lab:*', 'tools:docs:*'] };
const prefer = (preference: string): TestRequest => ({ ...mayAll, headers: { prefer: preference } });
const limits = { bodyBytesMax: 1_048_576, turnBytesMax: 1_048_576, intentsMax: 64 };
const pay = functionCall('c1', 'lab__pay');
const look = functionCall('c2', 'docs__look');

/** A service whose tools `pay` and `look` take as long as the test likes. */
function slowService(waitMaxMs = 55_000) {
  const paying = heldTool(textResult('paid'));
  const looking = heldTool(textResult('seen'));
  const service = createTestService({
    servers: [lab, reading],
    behaviours: { 'lab:pay': paying.behaviour, 'docs:look': looking.behaviour },
    service: { limits: { ...limits, waitMaxMs } },
  });
  return { service, paying, looking };
}

describe('a call that was posted before', () => {
  test('is answered from its record, and says so', async () => {
    const service = createTestService({ servers: [lab] });
    const first = await service.post('/v1/calls', pay, mayAll);
    expect(first.headers.get('callgate-replayed')).toBeNull();
    expect(first.headers.get('callgate-recorded-at')).toBeNull();
    const again = await service.post('/v1/calls', pay, mayAll);
    expect(again.text).toBe(first.text);
    expect(again.headers.get('callgate-id')).toBe(first.headers.get('callgate-id'));
    expect(again.headers.get('callgate-status')).toBe('succeeded');
    expect(again.headers.get('callgate-replayed')).toBe('true');
    const [record] = service.ledger.records.values();
    expect(Date.parse(again.headers.get('callgate-recorded-at') ?? '')).toBe(record?.updatedAtMs);
    expect(service.sent).toHaveLength(1);
  });

  test('is joined while it runs, in a call and in a turn, and asked for once only', async () => {
    const { service, paying } = slowService();
    const first = service.post('/v1/calls', pay, mayAll);
    await paying.called;
    const second = service.post('/v1/calls', pay, mayAll);
    const turn = service.post('/v1/turns', [pay], mayAll);
    await until(() => service.service.admission.running === 3);
    paying.finish();
    const [one, two, three] = await Promise.all([first, second, turn]);
    expect(two.text).toBe(one.text);
    expect(two.headers.get('callgate-id')).toBe(one.headers.get('callgate-id'));
    expect([one, two].map(({ headers }) => headers.get('callgate-replayed'))).toEqual([null, 'true']);
    expect(three.json.append).toEqual([one.json]);
    expect(three.json.calls[0]).toMatchObject({ replayed: true, replay_protected: true, attempts: 1 });
    expect(service.sent).toHaveLength(1);
  });

  test('in a turn is told apart from those that ran', async () => {
    const service = createTestService({ servers: [lab] });
    await service.post('/v1/turns', [pay], mayAll);
    const { json } = await service.post('/v1/turns', [pay, functionCall('c9', 'lab__ping')], mayAll);
    expect(json.calls.map((each: { replayed: boolean }) => each.replayed)).toEqual([true, false]);
  });

  test('with another name or other arguments is refused as an output', async () => {
    const service = createTestService({ servers: [lab] });
    await service.post('/v1/calls', pay, mayAll);
    const { status, headers, json } = await service.post(
      '/v1/calls',
      functionCall('c1', 'lab__ping'),
      mayAll,
    );
    expect([status, headers.get('callgate-code')]).toEqual([200, 'call_id_reused']);
    expect(JSON.parse(json.output).error).toMatchObject({ may_have_executed: false, retryable: false });
    expect(service.sent).toHaveLength(1);
  });

  test.each(['callgate-run', 'callgate-turn'])('is another call under another %s', async (name) => {
    const service = createTestService({ servers: [lab] });
    await service.post('/v1/calls', pay, mayAll);
    const other = await service.post('/v1/calls', pay, { ...mayAll, headers: { [name]: 'other' } });
    expect(other.headers.get('callgate-replayed')).toBeNull();
    expect(service.sent).toHaveLength(2);
  });
});

describe('a call that takes longer than its caller waits', () => {
  test('is answered with 202 and its record, and the same request again collects it', async () => {
    const { service, paying } = slowService(20);
    const early = await service.post('/v1/calls', pay, {
      ...mayAll,
      headers: { 'callgate-run': 'run 1', 'callgate-turn': 'turn 1' },
    });
    const id = early.headers.get('callgate-id');
    expect([early.status, early.headers.get('retry-after')]).toEqual([202, '1']);
    expect(early.headers.get('location')).toBe(`/v1/calls/${id}`);
    expect(early.headers.get('preference-applied')).toBeNull();
    expect(early.headers.get('callgate-status')).toBe('started');
    expect(early.json).toMatchObject({
      id,
      call_id: 'c1',
      run: 'run 1',
      turn: 'turn 1',
      name: 'lab__pay',
      status: 'started',
      may_have_executed: true,
    });
    const same = { ...mayAll, headers: { 'callgate-run': 'run 1', 'callgate-turn': 'turn 1' } };
    expect((await service.post('/v1/calls', pay, same)).status).toBe(202);
    paying.finish();
    await until(() => service.finished.length === 1);
    const late = await service.post('/v1/calls', pay, same);
    expect([late.status, late.headers.get('callgate-id')]).toEqual([200, id]);
    expect(late.headers.get('callgate-replayed')).toBe('true');
    expect(late.json.output).toContain('paid');
    expect(service.sent).toHaveLength(1);
  });

  test.each([
    ['wait=0', 'wait=0'],
    ['respond-async', 'respond-async'],
    ['Respond-Async, handling=lenient', 'respond-async'],
    ['respond-async, wait="0"; x=y', 'respond-async, wait=0'],
    ['wait=0, wait=60', 'wait=0'],
  ])('does not hold it at all with Prefer: %s', async (preference, applied) => {
    const { service, paying, looking } = slowService();
    for (const [call, held] of [
      [pay, paying],
      [look, looking],
    ] as const) {
      const answer = await service.post('/v1/calls', call, prefer(preference));
      expect([answer.status, answer.headers.get('preference-applied')]).toEqual([202, applied]);
      expect([...service.ledger.records.values()].map(({ id }) => id)).toContain(answer.json.id);
      held.finish();
    }
    await until(() => service.finished.length === 2);
  });

  test('holds it for the seconds that were asked for, and never longer than the operator allows', async () => {
    const { service, paying } = slowService(30);
    const answer = await service.post('/v1/calls', pay, prefer('wait=600'));
    expect([answer.status, answer.headers.get('preference-applied')]).toEqual([202, 'wait=0']);
    const nonsense = await service.post('/v1/calls', pay, prefer('wait=soon, wait, =, respond-sync'));
    expect([nonsense.status, nonsense.headers.get('preference-applied')]).toEqual([202, null]);
    paying.finish();
  });

  test('is answered with 200 all the same when there is nothing to wait for', async () => {
    const service = createTestService({ servers: [lab] });
    const refused = await service.post('/v1/calls', functionCall('c', 'lab__gone'), prefer('respond-async'));
    expect([refused.status, refused.headers.get('callgate-code')]).toEqual([200, 'unknown_tool']);
    await service.post('/v1/calls', pay, mayAll);
    const replayed = await service.post('/v1/calls', pay, prefer('wait=0'));
    expect([replayed.status, replayed.headers.get('callgate-replayed')]).toEqual([200, 'true']);
    expect(replayed.headers.get('preference-applied')).toBeNull();
  });
});

describe('a turn that takes longer than its caller waits', () => {
  test('is answered with 202 and what is known, and the same request again collects it', async () => {
    const { service, paying } = slowService(20);
    const calls = [pay, functionCall('c3', 'lab__ping'), functionCall('c4', 'local')];
    const early = await service.post('/v1/turns?unknown=leave', calls, mayAll);
    expect([early.status, early.headers.get('retry-after')]).toEqual([202, '1']);
    expect(early.json.append).toBeUndefined();
    expect(early.json.calls).toMatchObject([
      { call_id: 'c1', name: 'lab__pay', status: 'started', may_have_executed: true },
      { call_id: 'c3', status: 'succeeded', replayed: false, replay_protected: true, attempts: 1 },
    ]);
    expect(early.json.left).toEqual([{ index: 2, call_id: 'c4', name: 'local' }]);
    paying.finish();
    await until(() => service.finished.length === 2);
    const late = await service.post('/v1/turns?unknown=leave', calls, mayAll);
    expect(late.status).toBe(200);
    expect(late.json.append).toHaveLength(2);
    expect(late.json.calls.map(({ id }: { id: string }) => id)).toEqual(
      early.json.calls.map(({ id }: { id: string }) => id),
    );
    expect(service.sent).toHaveLength(2);
  });

  test('goes on in its sequence, and names no id for what has not begun', async () => {
    const { service, paying } = slowService();
    const calls = [pay, functionCall('c3', 'lab__ping')];
    const early = await service.post('/v1/turns?order=sequential', calls, prefer('respond-async'));
    expect([early.status, early.headers.get('preference-applied')]).toEqual([202, 'respond-async']);
    expect(early.json.calls[1]).toEqual({
      call_id: 'c3',
      name: 'lab__ping',
      status: 'received',
      may_have_executed: false,
      replay_protected: true,
      attempts: 0,
    });
    expect(service.sent).toHaveLength(1);
    paying.finish();
    await until(() => service.finished.length === 2);
    expect(service.sent.map((sent) => sent.tool)).toEqual(['pay', 'ping']);
  });

  test('is answered with 200 when all of it is known already, and when there are no calls', async () => {
    const service = createTestService({ servers: [lab] });
    await service.post('/v1/calls', pay, mayAll);
    expect((await service.post('/v1/turns', [pay], prefer('wait=0'))).status).toBe(200);
    const empty = await service.post('/v1/turns', [], prefer('wait=0'));
    expect([empty.status, empty.json]).toEqual([200, { append: [], calls: [], left: [] }]);
  });
});

describe('a caller that hangs up (O26)', () => {
  test.each(['/v1/calls', '/v1/turns'])('ends what only reads (%s)', async (path) => {
    const { service, looking } = slowService();
    const caller = new AbortController();
    const answer = service.post(path, look, { ...mayAll, signal: caller.signal });
    await looking.called;
    caller.abort();
    await answer;
    expect(looking.calls[0]?.signal.reason).toBe('its caller has left');
    expect(service.finished[0]?.settled.outcome.error?.code).toBe('cancelled');
  });

  test.each(['/v1/calls', '/v1/turns'])('leaves a write alone, for the retry (%s)', async (path) => {
    const { service, paying } = slowService();
    const caller = new AbortController();
    const answer = service.post(path, pay, { ...mayAll, signal: caller.signal });
    await paying.called;
    caller.abort();
    paying.finish();
    await answer;
    const again = await service.post('/v1/calls', pay, mayAll);
    expect(again.headers.get('callgate-replayed')).toBe('true');
    expect(again.json.output).toContain('paid');
  });

  test('ends nothing while somebody else waits for the same call', async () => {
    const { service, looking } = slowService();
    const caller = new AbortController();
    const first = service.post('/v1/calls', look, { ...mayAll, signal: caller.signal });
    await looking.called;
    const second = service.post('/v1/calls', look, mayAll);
    await until(() => service.service.admission.running === 2);
    caller.abort();
    looking.finish();
    expect((await second).headers.get('callgate-status')).toBe('succeeded');
    await first;
  });

  test('after a 202 changes nothing', async () => {
    const { service, looking } = slowService();
    for (const path of ['/v1/calls', '/v1/turns']) {
      const caller = new AbortController();
      const headers = { prefer: 'respond-async' };
      const answer = await service.post(path, look, { ...mayAll, headers, signal: caller.signal });
      expect(answer.status).toBe(202);
      caller.abort();
    }
    expect(looking.calls[0]?.signal.aborted).toBe(false);
    looking.finish();
    await until(() => service.finished.length === 1);
    expect(service.finished[0]?.settled.outcome.status).toBe('succeeded');
  });

  test('begins nothing more of a sequence', async () => {
    const { service, looking } = slowService();
    const caller = new AbortController();
    const calls = [look, pay];
    const answer = service.post('/v1/turns?order=sequential', JSON.stringify(calls), {
      ...mayAll,
      signal: caller.signal,
    });
    await looking.called;
    caller.abort();
    await answer;
    expect(service.sent).toHaveLength(1);
  });
});

describe('a fault of callgate itself', () => {
  const faulty = (service: TestService): void => {
    const { dispatch } = service.service;
    const callFinished = (): void => {
      throw new Error('a bug');
    };
    Object.assign(dispatch, { observer: { ...dispatch.observer, callFinished } });
  };
  const failures = (service: TestService) => service.events.filter(({ event }) => event === 'request.failed');

  test.each(['/v1/calls', '/v1/turns'])('is logged when it comes after a 202, too (%s)', async (path) => {
    const { service, paying } = slowService();
    faulty(service);
    expect((await service.post(path, pay, prefer('wait=0'))).status).toBe(202);
    expect(failures(service)).toEqual([]);
    paying.finish();
    await until(() => failures(service).length === 1);
  });

  test.each(['wait=0', 'wait=20'])(
    'while the calls of a turn begin ends the turn (Prefer: %s)',
    async (wait) => {
      const service = createTestService({ servers: [lab] });
      const registry = (): never => {
        throw new Error('a bug');
      };
      Object.assign(service.service.dispatch, { registry });
      const { declarations } = service.service;
      declarations.revision = () => 'x'.repeat(22);
      const { status, text } = await service.post(
        '/v1/turns',
        [pay, functionCall('c3', 'lab__ping')],
        prefer(wait),
      );
      expect([status, text]).toEqual([500, expect.not.stringContaining('a bug')]);
      expect(failures(service)).toHaveLength(1);
    },
  );
});

describe('while the ledger cannot be written', () => {
  test('a write is refused with 503, and nothing is sent', async () => {
    const service = createTestService({ servers: [lab, reading] });
    service.ledger.brokenBy = 'the disk is full';
    for (const preference of ['wait=20', 'wait=0']) {
      const { status, headers, json, text } = await service.post('/v1/calls', pay, prefer(preference));
      expect([status, json.code, headers.get('retry-after')]).toEqual([503, 'ledger_unavailable', '1']);
      expect(text).not.toContain('disk');
    }
    expect(service.sent).toEqual([]);
    service.ledger.brokenBy = undefined;
    expect((await service.post('/v1/calls', pay, mayAll)).headers.get('callgate-status')).toBe('succeeded');
  });

  test('a read goes on unrecorded, and says so', async () => {
    const service = createTestService({ servers: [lab, reading] });
    service.ledger.brokenBy = 'the disk is full';
    const { status, headers } = await service.post('/v1/calls', look, mayAll);
    expect([status, headers.get('callgate-status'), headers.get('callgate-recorded')]).toEqual([
      200,
      'succeeded',
      'false',
    ]);
    service.ledger.brokenBy = undefined;
    const recorded = await service.post('/v1/calls', functionCall('c8', 'docs__look'), mayAll);
    expect(recorded.headers.get('callgate-recorded')).toBeNull();
  });

  test('in a turn it is the outcome of each write', async () => {
    const service = createTestService({ servers: [lab, reading] });
    service.ledger.brokenBy = 'the disk is full';
    const { status, json } = await service.post('/v1/turns', [pay, look], mayAll);
    expect(status).toBe(200);
    expect(json.calls).toMatchObject([
      { status: 'unknown', code: 'ledger_unavailable', may_have_executed: true, replay_protected: false },
      { status: 'succeeded', replay_protected: false },
    ]);
    expect(JSON.parse(json.append[0].output).error).toMatchObject({ retryable: true, retry_after_ms: 1_000 });
  });
});
