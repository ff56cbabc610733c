import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Attempt, SettledCall } from '../../../src/dispatch/ports.ts';
import { MemoryLedger } from '../../support/memory-ledger.ts';
import { answer, failure, loopTurn, Pipeline, type Sent } from './pipeline.ts';

/** How long each kind of call is tried; `CALLGATE_MODEL_MS` makes it longer. */
const runMs = Number(process.env.CALLGATE_MODEL_MS ?? 1_500);

/** What a step does; numbers choose among what there is at that moment. */
type Step =
  | { readonly do: 'post'; readonly at: number; readonly input: number }
  | {
      readonly do: 'end';
      readonly which: number;
      readonly how: 'answered' | 'failed' | 'not_sent' | 'unknown';
    }
  | { readonly do: 'late'; readonly which: number }
  | { readonly do: 'give_place'; readonly at: number }
  | { readonly do: 'fill'; readonly at: number; readonly isFull: boolean }
  | { readonly do: 'lose' | 'kill'; readonly at: number }
  | { readonly do: 'break'; readonly isBroken: boolean }
  | { readonly do: 'turns'; readonly count: number };

const at = fc.nat({ max: 1 });
const which = fc.nat({ max: 5 });
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('post' as const), at, input: fc.constantFrom(1, 1, 1, 2) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('end' as const),
      which,
      how: fc.constantFrom('answered', 'failed', 'not_sent', 'unknown'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('late' as const), which }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('give_place' as const), at }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fill' as const), at, isFull: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('lose' as const, 'kill' as const), at }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('break' as const), isBroken: fc.boolean() }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('turns' as const), count: fc.nat({ max: 8 }) }) },
);

/** The ledger as one process sees it: one that was killed writes nothing more. */
class Share extends MemoryLedger {
  readonly #whole: MemoryLedger;
  isAlive = true;

  constructor(whole: MemoryLedger) {
    super();
    this.#whole = whole;
  }

  override find(key: string): ReturnType<MemoryLedger['find']> {
    return this.isAlive ? this.#whole.find(key) : never();
  }

  override claim(...args: Parameters<MemoryLedger['claim']>): ReturnType<MemoryLedger['claim']> {
    return this.isAlive ? this.#whole.claim(...args) : never();
  }

  override start(...args: Parameters<MemoryLedger['start']>): ReturnType<MemoryLedger['start']> {
    return this.isAlive ? this.#whole.start(...args) : never();
  }

  override settle(...args: Parameters<MemoryLedger['settle']>): ReturnType<MemoryLedger['settle']> {
    return this.isAlive ? this.#whole.settle(...args) : never();
  }

  override record(...args: Parameters<MemoryLedger['record']>): ReturnType<MemoryLedger['record']> {
    return this.isAlive ? this.#whole.record(...args) : never();
  }

  override fault(): string | undefined {
    return this.#whole.fault();
  }
}

const never = <T>(): Promise<T> => new Promise(() => {});

/** One process, and what it has sent that has not come to its end. */
class Process {
  readonly share: Share;
  readonly pipeline: Pipeline;
  #give: () => void = () => {};

  constructor(whole: MemoryLedger) {
    this.share = new Share(whole);
    this.pipeline = new Pipeline(this.share);
    this.fill(false);
  }

  fill(isFull: boolean): void {
    this.#give();
    this.pipeline.canSend = !isFull;
    this.pipeline.place = isFull
      ? new Promise((resolve) => {
          this.#give = resolve;
        })
      : Promise.resolve();
  }

  give(): void {
    this.#give();
  }
}

/** An attempt at some server, and what it did there. */
interface Effect {
  readonly sent: Sent;
  readonly by: Process;
  readonly text: string;
  how: 'answered' | 'failed' | 'not_sent' | 'unknown' | undefined;
}

/** An answer, and the moments between which it came about. */
interface Answer {
  readonly settled: SettledCall;
  readonly posted: number;
  readonly answered: number;
}

/** One key, two processes, and everything that was answered. */
class World {
  readonly whole = new MemoryLedger();
  readonly kind: 'write' | 'idempotent';
  processes: [Process, Process];
  readonly everybody: Process[];
  readonly effects: Effect[] = [];
  readonly answers: Answer[] = [];
  #moment = 0;
  readonly #posts: { readonly by: Process; isAnswered: boolean }[] = [];

  constructor(kind: 'write' | 'idempotent') {
    this.kind = kind;
    this.processes = [new Process(this.whole), new Process(this.whole)];
    this.everybody = [...this.processes];
  }

  get waiting(): number {
    return this.#posts.filter(({ by, isAnswered }) => by.share.isAlive && !isAnswered).length;
  }

  post(index: number, input: number): void {
    const by = this.processes[index as 0 | 1];
    const post = { by, isAnswered: false };
    this.#moment += 1;
    const posted = this.#moment;
    this.#posts.push(post);
    void by.pipeline.post(this.kind, { input: { n: input } }).settled.then((settled) => {
      if (!by.share.isAlive) return;
      post.isAnswered = true;
      this.#moment += 1;
      this.answers.push({ settled, posted, answered: this.#moment });
    });
  }

  async turns(count: number): Promise<void> {
    for (let turn = 0; turn < count; turn += 1) await loopTurn();
    for (const by of this.everybody) {
      const known = this.effects.filter((effect) => effect.by === by).length;
      for (const sent of by.pipeline.sent.slice(known)) {
        this.effects.push({ sent, by, text: `effect ${this.effects.length}`, how: undefined });
      }
    }
  }

  async run(one: Step): Promise<void> {
    switch (one.do) {
      case 'post':
        return this.post(one.at, one.input);
      case 'end': {
        const open = this.effects.filter(({ how, by }) => how === undefined && by.share.isAlive);
        const effect = open[one.which % open.length];
        if (effect !== undefined) end(effect, one.how);
        return;
      }
      case 'late': {
        const given = this.effects.filter(({ how, by }) => how === 'unknown' && by.share.isAlive);
        const effect = given[one.which % given.length];
        effect?.sent.call.onLateAnswer(answer(effect.text));
        return;
      }
      case 'give_place':
        return this.processes[one.at as 0 | 1].give();
      case 'fill':
        return this.processes[one.at as 0 | 1].fill(one.isFull);
      case 'lose':
        return this.lose(this.processes[one.at as 0 | 1]);
      case 'kill':
        return this.kill(one.at as 0 | 1);
      case 'break':
        this.whole.brokenBy = one.isBroken ? 'it is broken' : undefined;
        return;
      case 'turns':
        return this.turns(one.count);
      default:
        return one satisfies never;
    }
  }

  /** The process is taken for dead, as a paused one is, and ends its calls at the other's word. */
  lose(lost: Process): void {
    const others = this.processes.filter((process) => process !== lost);
    this.whole.endLost(
      (id) => others.some(({ pipeline }) => pipeline.ports.inFlight.get(id) !== undefined),
      lost.pipeline.nowMs,
    );
  }

  kill(index: 0 | 1): void {
    const killed = this.processes[index];
    killed.share.isAlive = false;
    this.processes[index] = new Process(this.whole);
    this.everybody.push(this.processes[index]);
    this.lose(killed);
  }

  /** Lets everything come to its end that is still on its way. */
  async drain(): Promise<void> {
    this.whole.brokenBy = undefined;
    for (let round = 0; this.waiting > 0; round += 1) {
      if (round === 1_000) throw new Error('there are posts that get no answer');
      for (const process of this.processes) process.fill(false);
      await this.turns(2);
      for (const effect of this.effects) {
        if (effect.how === undefined && effect.by.share.isAlive) end(effect, 'answered');
      }
      await this.turns(2);
      // What a process has lost without being lost itself: an end that it could not write.
      this.whole.endLost(
        (id) => this.processes.some(({ pipeline }) => pipeline.ports.inFlight.get(id) !== undefined),
        this.processes[0].pipeline.nowMs,
      );
    }
  }
}

function end(effect: Effect, how: NonNullable<Effect['how']>): void {
  effect.how = how;
  const attempts: Record<typeof how, Attempt> = {
    answered: answer(effect.text),
    failed: failure('server_error'),
    not_sent: failure('server_unavailable', { sent: false }),
    unknown: failure('timeout'),
  };
  effect.sent.end(attempts[how]);
}

const textOf = ({ outcome }: SettledCall): unknown => outcome.result?.content[0]?.text;

const isKnown = ({ settled }: Answer): boolean =>
  settled.outcome.status === 'succeeded' || settled.outcome.status === 'failed';

/** I5: answers agree, but for an unknown end that became known and for what was not sent and tried anew. */
function checkAgreement(answers: readonly Answer[]): void {
  const [known] = answers.filter(isKnown);
  for (const one of answers) {
    if (isKnown(one)) expect(one.settled.outcome).toEqual(known?.settled.outcome);
    expect(one.settled.id).toBe(answers[0]?.settled.id);
    for (const later of answers.filter(({ posted }) => posted > one.answered)) {
      if (isKnown(one)) expect(later.settled.outcome).toEqual(one.settled.outcome);
      if (one.settled.outcome.status === 'unknown') expect(later.settled.outcome.status).not.toBe('not_sent');
    }
  }
}

function check({ kind, whole, effects, answers, everybody }: World): void {
  const possible = effects.filter(({ how }) => how !== 'not_sent');
  // I1
  if (kind === 'write') expect(possible.length).toBeLessThanOrEqual(1);
  // What was answered without a record cannot be held against what was answered from one.
  const ours = answers.filter(
    ({ settled: { isRecorded, outcome } }) => isRecorded && outcome.error?.code !== 'call_id_reused',
  );
  checkAgreement(ours);
  for (const { settled } of answers) {
    const { status } = settled.outcome;
    // I2
    if (status === 'succeeded') expect(possible.map(({ text }) => text)).toContain(textOf(settled));
  }
  // I3
  if (ours.at(-1)?.settled.outcome.status === 'not_sent') expect(possible).toEqual([]);
  // I8
  const admitted = everybody.flatMap(({ pipeline }) => pipeline.told('callAdmitted'));
  expect(new Set(admitted.map(({ claim }) => claim.attempt)).size).toBe(admitted.length);
  expect(effects.length).toBeLessThanOrEqual(admitted.length);
  expect(whole.records.size).toBeLessThanOrEqual(1);
  for (const { pipeline, share } of everybody)
    if (share.isAlive) expect(pipeline.ports.inFlight.size).toBe(0);
}

test.for(['write', 'idempotent'] as const)(
  'whatever happens to the posts of a call (%s) in two processes, it runs as often as it may and its answers agree',
  { timeout: runMs + 60_000 },
  async (kind) => {
    const seed = Number(process.env.CALLGATE_MODEL_SEED ?? Date.now() % 2 ** 31);
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40, size: 'max' }), async (steps) => {
        const world = new World(kind);
        for (const one of steps) await world.run(one);
        await world.drain();
        for (const [index, input] of [
          [0, 1],
          [1, 1],
          [0, 2],
          [1, 2],
        ] as const) {
          world.post(index, input);
          await world.drain();
        }
        check(world);
      }),
      { seed, numRuns: 1_000_000, interruptAfterTimeLimit: runMs, markInterruptAsFailure: false },
    );
  },
);
