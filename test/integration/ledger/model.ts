import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import type { Outcome } from '../../../src/core/outcome.ts';
import type { ClaimResult, RecordQuery } from '../../../src/dispatch/ports.ts';
import { type CallRecord, type Claim, isFinal, type RecordedCall } from '../../../src/dispatch/record.ts';
import type { OpenLedger } from '../../../src/ledger/settings.ts';
import { MemoryLedger } from '../../support/memory-ledger.ts';
import {
  answered,
  hourMs,
  idempotentTool,
  minuteMs,
  outcomes,
  readTool,
  type Workbench,
  wideBounds,
  writeTool,
} from './bench.ts';

/** How long one ledger is held against the model; `CALLGATE_MODEL_MS` makes it longer. */
const runMs = Number(process.env.CALLGATE_MODEL_MS ?? 8_000);

/** The real ledger of one sequence, and what goes with it. */
interface Real {
  ledger: OpenLedger;
  readonly bench: Workbench;
  /** Keeps the records of one sequence apart from those of all others on the same store. */
  readonly prefix: string;
}

/** What the sequence has come to, as the rules have it. */
interface Model {
  readonly memory: MemoryLedger;
  /** Claims of the process that runs, the newest last. */
  claims: Claim[];
  readonly texts: { count: number };
}

const actors = ['actor-a', 'actor-b'] as const;
const tools = [writeTool, idempotentTool, readTool, undefined] as const;
const ends = {
  succeeded: outcomes.succeeded,
  failed: outcomes.failed,
  notSent: outcomes.notSent,
  unknown: outcomes.unknown,
} satisfies Record<string, Outcome>;

interface Post {
  readonly actor: (typeof actors)[number];
  readonly callId: string;
  readonly run: string | undefined;
  readonly input: string;
  readonly tool: (typeof tools)[number];
}

const posts: fc.Arbitrary<Post> = fc.record({
  actor: fc.constantFrom(...actors),
  callId: fc.constantFrom('call_0', 'call_1'),
  run: fc.constantFrom(undefined, 'run-1'),
  input: fc.oneof(
    { weight: 4, arbitrary: fc.constant('{}') },
    { weight: 1, arbitrary: fc.constant('{"id":2}') },
  ),
  tool: fc.constantFrom(...tools),
});

type Step = fc.AsyncCommand<Model, Real>;

/** A step that is always possible, named as the report of a failure shows it. */
const step = (name: string, run: (model: Model, real: Real) => Promise<void>): Step => ({
  check: () => true,
  run,
  toString: () => name,
});

const callOf = ({ bench, prefix }: Real, { actor, ...post }: Post): RecordedCall =>
  bench.call({ ...post, actor: `${prefix}${actor}` });

const claim = (post: Post, status: 'received' | 'started'): Step =>
  step(`claim(${JSON.stringify(post)}, ${status})`, async (model, real) => {
    const call = callOf(real, post);
    const expected = await model.memory.claim(call, status);
    const result = await real.ledger.claim(call, status);
    expect(comparable(result)).toEqual(comparable(expected));
    if (expected.kind === 'claimed') model.claims.push(expected.claim);
  });

const start = (back: number): Step =>
  step(`start(${back})`, async (model, real) => {
    const one = model.claims.at(-1 - back);
    if (one === undefined) return;
    expect(await real.ledger.start(one)).toBe(await model.memory.start(one));
  });

const settle = (back: number, end: keyof typeof ends, attempts: number): Step =>
  step(`settle(${back}, ${end}, ${attempts})`, async (model, real) => {
    const one = model.claims.at(-1 - back);
    if (one === undefined) return;
    const by = real.bench.ended(end === 'succeeded' ? newAnswer(model) : ends[end], attempts);
    expect(await real.ledger.settle(one, by)).toBe(await model.memory.settle(one, by));
  });

const record = (post: Post, end: keyof typeof ends | 'rejected', isAwaited: boolean): Step =>
  step(
    `record(${JSON.stringify(post)}, ${end}, ${isAwaited ? 'awaited' : 'not awaited'})`,
    async (model, real) => {
      const call = callOf(real, post);
      const by = real.bench.ended(
        end === 'succeeded' ? newAnswer(model) : end === 'rejected' ? outcomes.rejected : ends[end],
        end === 'rejected' ? 0 : 1,
      );
      await model.memory.record(call, by);
      const recording = real.ledger.record(call, by);
      if (isAwaited) await recording;
      expect(plain(await real.ledger.find(call.key))).toEqual(plain(await model.memory.find(call.key)));
      await recording;
    },
  );

const find = (post: Post): Step =>
  step(`find(${JSON.stringify(post)})`, async (model, real) => {
    const { key } = callOf(real, post);
    expect(plain(await real.ledger.find(key))).toEqual(plain(await model.memory.find(key)));
  });

const get = (post: Post, asked: (typeof actors)[number]): Step =>
  step(`get(${JSON.stringify(post)} as ${asked})`, async (model, real) => {
    const { key } = callOf(real, post);
    const id = model.memory.records.get(key)?.id ?? key;
    const actor = `${real.prefix}${asked}`;
    expect(plain(await real.ledger.get(actor, id))).toEqual(plain(await model.memory.get(actor, id)));
  });

const list = (
  actor: (typeof actors)[number],
  filter: Omit<RecordQuery, 'actor' | 'before'>,
  skip: number,
): Step =>
  step(`list(${actor}, ${JSON.stringify(filter)}, behind ${skip})`, async (model, real) => {
    const own = { actor: `${real.prefix}${actor}`, ...filter };
    const before = skip === 0 ? undefined : (await model.memory.list({ ...own, limit: skip })).at(-1)?.id;
    const expected = await model.memory.list({ ...own, before });
    expect((await real.ledger.list({ ...own, before })).map(plain)).toEqual(expected.map(plain));
  });

// The odd millisecond keeps ages away from the very end of a retention, where either answer is right.
const pass = (ms: number): Step =>
  step(`pass(${ms} ms)`, async (model, { bench, ledger }) => {
    bench.later(ms + 1);
    model.memory.expire(bench.nowMs, wideBounds);
    await bench.maintain(ledger);
  });

const lose = (back: number): Step =>
  step(`lose(${back})`, async (model, { bench, ledger }) => {
    const id = model.claims.at(-1 - back)?.call.id;
    if (id === undefined) return;
    bench.lost.add(id);
    model.memory.endLost((held) => held !== id, bench.nowMs);
    await bench.maintain(ledger);
    bench.lost.delete(id);
  });

const reopen = (how: 'close' | 'crash'): Step =>
  step(how, async (model, real) => {
    await real.bench[how](real.ledger);
    real.ledger = await real.bench.open();
    model.memory.endLost(() => false, real.bench.nowMs);
    await real.bench.maintain(real.ledger);
    model.claims = [];
  });

/** Everything at the end once more: what no step has looked at must be right as well. */
async function compareAll({ memory }: Model, { ledger, prefix }: Real): Promise<void> {
  for (const actor of actors) {
    const query = { actor: `${prefix}${actor}`, limit: 100 };
    expect((await ledger.list(query)).map(plain)).toEqual((await memory.list(query)).map(plain));
  }
  for (const [key, kept] of memory.records) expect(plain(await ledger.find(key))).toEqual(plain(kept));
}

const back = fc.nat({ max: 2 });
const statuses = fc.constantFrom('received' as const, 'started' as const);

const commands = fc.commands(
  [
    fc.tuple(posts, statuses).map(([post, status]) => claim(post, status)),
    fc.tuple(posts, statuses).map(([post, status]) => claim(post, status)),
    back.map(start),
    fc
      .tuple(back, fc.constantFrom(...(Object.keys(ends) as (keyof typeof ends)[])), fc.nat({ max: 2 }))
      .map(([at, end, attempts]) => settle(at, end, attempts)),
    fc
      .tuple(back, fc.constantFrom(...(Object.keys(ends) as (keyof typeof ends)[])), fc.nat({ max: 2 }))
      .map(([at, end, attempts]) => settle(at, end, attempts)),
    fc
      .tuple(
        posts,
        fc.constantFrom(...(Object.keys(ends) as (keyof typeof ends)[]), 'rejected' as const),
        fc.boolean(),
      )
      .map(([post, end, isAwaited]) => record(post, end, isAwaited)),
    posts.map(find),
    fc.tuple(posts, fc.constantFrom(...actors)).map(([post, actor]) => get(post, actor)),
    fc
      .tuple(
        fc.constantFrom(...actors),
        fc.record({
          callId: fc.constantFrom(undefined, 'call_0'),
          run: fc.constantFrom(undefined, 'run-1'),
          status: fc.constantFrom(undefined, 'started' as const, 'succeeded' as const, 'unknown' as const),
          limit: fc.integer({ min: 1, max: 5 }),
        }),
        fc.nat({ max: 2 }),
      )
      .map(([actor, filter, skip]) => list(actor, filter, skip)),
    fc.constantFrom(10 * minuteMs, 13 * hourMs, 96 * hourMs).map(pass),
    back.map(lose),
    fc.constantFrom('close' as const, 'crash' as const).map(reopen),
  ],
  { maxCommands: 40, size: 'max' },
);

/** Random sequences of everything a ledger can be asked, each answer as `MemoryLedger` gives it. */
export function testAgainstModel(newBench: () => Promise<Workbench>): void {
  test('answers any sequence of steps as the model does', { timeout: runMs + 120_000 }, async () => {
    const bench = await newBench();
    const seed = Number(process.env.CALLGATE_MODEL_SEED ?? Date.now() % 2 ** 31);
    let sequences = 0;
    let ledger = await bench.open();
    onTestFinished(({ task }) => {
      if (task.result?.state === 'fail') console.error(`CALLGATE_MODEL_SEED=${seed} repeats this`);
    });
    await fc.assert(
      fc.asyncProperty(commands, async (steps) => {
        sequences += 1;
        const real: Real = { ledger, bench, prefix: `${seed}-${sequences}-` };
        const model: Model = { memory: new MemoryLedger(), claims: [], texts: { count: 0 } };
        try {
          await fc.asyncModelRun(() => ({ model, real }), steps);
          await compareAll(model, real);
        } finally {
          ledger = real.ledger;
        }
      }),
      { seed, numRuns: 100_000, interruptAfterTimeLimit: runMs, markInterruptAsFailure: false, verbose: 1 },
    );
    expect(sequences).toBeGreaterThan(5);
  });
}

/** An answer that no other attempt has given. */
function newAnswer({ texts }: Model): Outcome {
  texts.count += 1;
  return answered(`answer ${texts.count}`);
}

const comparable = (result: ClaimResult): unknown =>
  result.kind === 'known' ? { kind: result.kind, record: plain(result.record) } : result;

/**
 * A record without what the rules leave open: the words of an interruption, and when a call on its way was last
 * touched.
 */
function plain(record: CallRecord | undefined): unknown {
  if (record === undefined) return undefined;
  const { outcome } = record;
  return {
    ...record,
    updatedAtMs: isFinal(record.status) ? record.updatedAtMs : undefined,
    outcome:
      outcome?.error?.code === 'interrupted'
        ? { ...outcome, error: { ...outcome.error, message: '', details: undefined } }
        : outcome,
  };
}
