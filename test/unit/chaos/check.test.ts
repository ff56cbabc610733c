import { describe, expect, test } from 'vitest';
import { type AuditLine, check, type Effect, type History, type Plan, type Post } from '../../chaos/check.ts';

const plan: Plan = { key: 'k', kind: 'write', canaries: ['canary-a', 'canary-b'] };

let lastMs = 0;
/** A post that begins after all earlier ones have ended. */
const post = (more: Partial<Post>): Post => {
  lastMs += 10;
  return {
    key: 'k',
    canary: 'canary-a',
    process: 'p1',
    startMs: lastMs,
    endMs: lastMs + 5,
    kind: 'answered',
    httpStatus: 200,
    id: 'id-1',
    canariesSeen: ['canary-a'],
    ...more,
  };
};
const effect = (more: Partial<Effect> = {}): Effect => ({
  canary: 'canary-a',
  id: 'id-1',
  text: 'canary-a #1.1',
  process: 'p1',
  pid: 1,
  atMs: lastMs,
  ...more,
});
const admitted = (more: Partial<AuditLine> = {}): AuditLine => ({
  process: 'p1',
  event: 'call.admitted',
  id: 'id-1',
  attempt: 1,
  atMs: lastMs,
  ...more,
});
const succeeded = (more: Partial<Post> = {}): Post =>
  post({ status: 'succeeded', output: 'canary-a #1.1', ...more });
const unknown = (more: Partial<Post> = {}): Post =>
  post({ status: 'unknown', code: 'interrupted', output: 'who knows', ...more });
const notSent = (more: Partial<Post> = {}): Post =>
  post({ status: 'not_sent', code: 'server_busy', ...more });

const found = (history: Partial<History>): readonly string[] =>
  check({
    plans: [plan],
    posts: [],
    effects: [],
    audit: [],
    postMsMax: 1_000,
    ...history,
  }).violations.map(({ invariant, what }) => `${invariant} ${what}`);

describe('a history that keeps every promise', () => {
  test.each<[string, Partial<History>]>([
    ['one run, two answers', { posts: [succeeded(), succeeded()], effects: [effect()], audit: [admitted()] }],
    ['unknown without an effect', { posts: [unknown(), unknown()] }],
    ['unknown with one effect', { posts: [unknown()], effects: [effect()] }],
    ['a late answer', { posts: [unknown(), succeeded(), succeeded()], effects: [effect()] }],
    ['not sent, then run', { posts: [notSent(), succeeded()], effects: [effect()] }],
    [
      'rejected, then other arguments',
      {
        posts: [
          post({ status: 'rejected', code: 'invalid_arguments' }),
          succeeded({ canary: 'canary-b', canariesSeen: ['canary-b'], output: 'canary-b #1.1' }),
          post({ status: 'rejected', code: 'call_id_reused' }),
        ],
        effects: [effect({ canary: 'canary-b', text: 'canary-b #1.1' })],
      },
    ],
    ['no answer, then one', { posts: [post({ kind: 'broken' }), succeeded()], effects: [effect()] }],
    [
      'a result that could not be written down',
      {
        posts: [succeeded({ isRecorded: false }), unknown()],
        effects: [effect()],
      },
    ],
    [
      'parallel posts, one not sent',
      {
        posts: [succeeded({ startMs: 0, endMs: 50 }), notSent({ startMs: 10, endMs: 60 }), succeeded()],
        effects: [effect()],
      },
    ],
  ])('%s', (_name, history) => expect(found(history)).toEqual([]));

  test('a read may run again in another process, and an idempotent tool after an unknown end', () => {
    const twice = [effect(), effect({ text: 'canary-a #2.1' })];
    const posts = [succeeded(), succeeded({ process: 'p2', output: 'canary-a #2.1' })];
    expect(found({ plans: [{ ...plan, kind: 'read' }], posts, effects: twice })).toEqual([]);
    expect(
      found({ plans: [{ ...plan, kind: 'idempotent' }], posts: [unknown(), succeeded()], effects: twice }),
    ).toEqual([]);
  });
});

describe('a broken promise is found', () => {
  test.each<[string, Partial<History>]>([
    [
      'I1 2 effects of a tool classed write',
      { posts: [unknown()], effects: [effect(), effect({ text: 'x' })] },
    ],
    ['I1 an effect that no call asked for', { effects: [effect({ canary: 'canary-z' })] }],
    ['I2 succeeded without an effect', { posts: [succeeded()] }],
    [
      'I2 the output is not what the server answered',
      {
        posts: [succeeded({ output: 'canary-a #9.9' })],
        effects: [effect()],
      },
    ],
    [
      'I3 not_sent was the last word on a call that had an effect',
      {
        posts: [unknown({ kind: 'broken', status: undefined }), notSent()],
        effects: [effect()],
      },
    ],
    [
      'I3 an effect of a call that was never told to have been sent',
      {
        posts: [
          succeeded(),
          post({ canary: 'canary-b', canariesSeen: [], status: 'rejected', code: 'call_id_reused' }),
        ],
        effects: [effect({ canary: 'canary-b' })],
      },
    ],
    [
      'I3 told to have had no effect, and had one',
      {
        posts: [post({ status: 'failed', code: 'server_error', mayHaveExecuted: false })],
        effects: [effect()],
      },
    ],
    [
      'I5 two different ends of one call',
      {
        posts: [succeeded(), post({ status: 'failed', code: 'tool_error' })],
        effects: [effect()],
      },
    ],
    ['I5 succeeded became unknown', { posts: [succeeded(), unknown()], effects: [effect()] }],
    ['I5 succeeded became not_sent', { posts: [succeeded(), notSent(), succeeded()], effects: [effect()] }],
    ['I5 unknown became not_sent', { posts: [unknown(), notSent()] }],
    ['I5 two different words on one unknown call', { posts: [unknown(), unknown({ code: 'timeout' })] }],
    ['I5 two ids for one call', { posts: [succeeded(), succeeded({ id: 'id-2' })], effects: [effect()] }],
    ['I6 a call without an end', { posts: [notSent(), post({ kind: 'waiting' })] }],
    ['I6 a post took 5000 ms', { posts: [succeeded({ startMs: 0, endMs: 5_000 })], effects: [effect()] }],
    [
      'I7 the answer holds canary-z',
      {
        posts: [succeeded({ canariesSeen: ['canary-a', 'canary-z'] })],
        effects: [effect()],
      },
    ],
    ['I7 the answer holds canary-b', { posts: [unknown({ canariesSeen: ['canary-b'] })] }],
    ['I8 one attempt was admitted twice', { audit: [admitted(), admitted()] }],
    [
      'I8 an effect without an admission line',
      {
        posts: [succeeded()],
        effects: [effect({ atMs: 1 })],
        audit: [admitted({ id: 'id-9', atMs: 2 })],
      },
    ],
  ])('%s', (wanted, history) => expect(found(history)).toContain(wanted));
});

test('what a killed process had not yet written to the audit trail is counted, not held against it', () => {
  const { violations, admissionsLost } = check({
    plans: [plan],
    posts: [succeeded()],
    effects: [effect({ atMs: 50 })],
    audit: [admitted({ id: 'id-9', atMs: 49 }), admitted({ id: 'id-8', process: 'p2', atMs: 90 })],
    postMsMax: 1_000,
  });
  expect([violations, admissionsLost]).toEqual([[], 1]);
});
