import { setTimeout as sleep } from 'node:timers/promises';
import { type ChaosCall, type ChaosCaller, type Content, type PostOptions, planOf } from './caller.ts';
import type { Plan, Post, ToolKind } from './check.ts';
import type { Gate } from './gate.ts';
import type { Random } from './random.ts';

export const actors = ['alice', 'bob'] as const;

const toolKinds: Readonly<Record<string, ToolKind>> = { charge: 'write', upsert: 'idempotent', look: 'read' };

/** How often a call that was not sent is posted again before that is held against callgate. */
const triesMax = 400;
const gapMs = 15;

/** A call, and how far it has come. */
interface Entry {
  readonly call: ChaosCall;
  /** Left as it is once it was told not to have been sent (I3). */
  readonly isLeft: boolean;
  /** Posted in one turn with these. */
  readonly companions: Entry[];
  state: 'new' | 'open' | 'ended';
  tries: number;
  isBusy: boolean;
}

export interface LoadOptions {
  readonly random: Random;
  readonly caller: ChaosCaller;
  /** The number of the first call; two loads on one ledger must not share any. */
  readonly firstNumber?: number;
  /** The share of calls that are not posted again once they were told not to have been sent. */
  readonly leftShare?: number;
  /** Which server a call is for, each as often as it stands here. */
  readonly servers?: readonly string[];
}

/** All calls of a run, those that wait to be posted again first. */
export class Load {
  readonly #random: Random;
  readonly #caller: ChaosCaller;
  readonly #firstNumber: number;
  readonly #leftShare: number;
  readonly #servers: readonly string[];
  readonly #entries: Entry[] = [];
  readonly #open = new Set<Entry>();
  #turns = 0;

  constructor({
    random,
    caller,
    firstNumber = 0,
    leftShare = 0.1,
    servers = ['pay', 'pay', 'pay', 'book', 'mortal', 'slow'],
  }: LoadOptions) {
    this.#random = random;
    this.#caller = caller;
    this.#firstNumber = firstNumber;
    this.#leftShare = leftShare;
    this.#servers = servers;
  }

  get plans(): readonly Plan[] {
    return this.#entries.map(({ call }) => planOf(call));
  }

  get size(): number {
    return this.#entries.length;
  }

  /**
   * Posts calls with this many back-ends at once until `isOver`: open ones again, now and then one that has ended, and
   * new ones as long as fewer than `openMin` are open. Every post goes to all gates at the same time.
   */
  async run(
    gates: readonly Gate[],
    concurrency: number,
    isOver: () => boolean,
    openMin: number = concurrency,
  ): Promise<void> {
    const work = async (): Promise<void> => {
      const random = this.#random.fork();
      while (!isOver()) {
        if (this.#open.size < openMin) this.#addTurn(turnSize(random));
        const entry = this.#choose(random);
        if (entry === undefined) await sleep(gapMs);
        else await this.#episode(entry, gates, random);
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
  }

  /** One back-end with one call: mostly a new one. */
  async runOne(gates: readonly Gate[]): Promise<void> {
    const random = this.#random.fork();
    const entry = random.chance(0.2) ? this.#choose(random) : this.#addTurn(turnSize(random))[0];
    if (entry !== undefined) await this.#episode(entry, gates, random);
  }

  /** Posts every call that has no end until it has one. */
  async finish(gates: readonly Gate[], concurrency: number): Promise<void> {
    await this.run(gates, concurrency, () => this.#open.size === 0, 0);
  }

  /** Posts every call once more, for the answer that a late repeat gets. */
  async repeatAll(gates: readonly Gate[], concurrency: number): Promise<void> {
    const entries = this.#entries.filter(({ isLeft, call }) => !isLeft || call.kind !== 'write').values();
    const work = async (): Promise<void> => {
      for (const entry of entries) {
        while (!(await this.#postToAll(entry, gates, {})).every(({ kind }) => kind === 'answered')) {
          await sleep(gapMs);
        }
      }
    };
    await Promise.all(Array.from({ length: concurrency }, work));
  }

  #addTurn(size: number): readonly Entry[] {
    const random = this.#random;
    const companions: Entry[] = [];
    this.#turns += 1;
    const actor = random.pick(actors);
    const run = random.chance(0.5) ? `run-${random.whole(1, 5)}` : undefined;
    // With a turn the ids repeat from turn to turn, as some models have it.
    const turn = size > 1 || random.chance(0.5) ? `turn-${this.#firstNumber}-${this.#turns}` : undefined;
    for (let index = 0; index < size; index += 1) {
      const number = this.#firstNumber + this.#entries.length;
      const callId = turn === undefined ? `call_${number}` : `call_${index}`;
      const { kind, contents } = chooseContents(number, random.pick(this.#servers), random);
      const call = {
        key: `${actor}/${run ?? ''}/${turn ?? ''}/${callId}`,
        actor,
        run,
        turn,
        callId,
        kind,
        contents,
      };
      const isLeft = random.chance(this.#leftShare);
      const entry: Entry = { call, isLeft, companions, state: 'new', tries: 0, isBusy: false };
      companions.push(entry);
      this.#entries.push(entry);
      this.#open.add(entry);
    }
    return companions;
  }

  #choose(random: Random): Entry | undefined {
    if (random.chance(0.1) || this.#open.size === 0) {
      const entry = this.#entries[random.whole(0, this.#entries.length - 1)];
      return entry?.state === 'ended' && !entry.isLeft ? entry : undefined;
    }
    // Busy ones are taken as well now and then: that is a duplicate.
    let skip = random.whole(0, Math.min(8, this.#open.size - 1));
    for (const entry of this.#open) {
      if (skip === 0) return entry.isBusy && random.chance(0.7) ? undefined : entry;
      skip -= 1;
    }
    return undefined;
  }

  /** What one back-end does with one call. */
  async #episode(entry: Entry, gates: readonly Gate[], random: Random): Promise<void> {
    const post = (options: PostOptions = {}): Promise<unknown> => this.#postToAll(entry, gates, options);
    entry.isBusy = true;
    const pattern = random.next();
    if (entry.companions.length > 1 && pattern < 0.6) {
      await this.#postTurn(entry.companions, gates, { isStreamed: random.chance(0.3) });
    } else if (pattern < 0.5) await post();
    else if (pattern < 0.65) await Promise.all([post(), post(), post()]);
    else if (pattern < 0.75) await Promise.all([post(), post({ content: random.whole(0, 1) })]);
    else if (pattern < 0.85) await post({ hangUpMs: random.whole(0, 20) }).then(() => post());
    else if (pattern < 0.92) await post({ prefer: 'respond-async' }).then(() => post());
    else if (pattern < 0.96) await post({ prefer: 'wait=0' }).then(() => post());
    else await this.#cancel(entry, gates, random);
    entry.isBusy = false;
    if (entry.state !== 'ended') await sleep(gapMs);
  }

  async #cancel(entry: Entry, gates: readonly Gate[], random: Random): Promise<void> {
    const posts = await this.#postToAll(entry, gates, { prefer: 'respond-async' });
    const id = posts.find(({ kind }) => kind === 'waiting')?.id;
    if (id === undefined) return;
    await sleep(random.whole(0, 20));
    await Promise.all(gates.map((gate) => this.#caller.cancel(gate, entry.call, id)));
    await this.#postToAll(entry, gates, {});
  }

  async #postToAll(entry: Entry, gates: readonly Gate[], options: PostOptions): Promise<readonly Post[]> {
    const posts = await Promise.all(gates.map((gate) => this.#caller.post(gate, entry.call, options)));
    if ((options.content ?? 0) === 0) for (const post of posts) this.#note(entry, post);
    return posts;
  }

  async #postTurn(entries: readonly Entry[], gates: readonly Gate[], options: PostOptions): Promise<void> {
    const calls = entries.map(({ call }) => call);
    const answers = await Promise.all(gates.map((gate) => this.#caller.postTurn(gate, calls, options)));
    for (const posts of answers) {
      for (const [index, entry] of entries.entries()) {
        const post = posts[index];
        if (post !== undefined) this.#note(entry, post);
      }
    }
  }

  #note(entry: Entry, { kind, status, code }: Post): void {
    entry.tries += 1;
    // Told that the id belongs to other arguments: those are recorded, and this content never is.
    const isOver =
      kind === 'answered' &&
      (status !== 'not_sent' || (entry.isLeft && code !== 'ledger_unavailable') || entry.tries > triesMax);
    if (isOver) {
      entry.state = 'ended';
      this.#open.delete(entry);
    } else if (kind === 'waiting' || entry.state === 'new') {
      // A post beside the one that was answered may have begun it anew.
      entry.state = 'open';
      this.#open.add(entry);
    }
  }
}

/** How many calls a model answer has. */
const turnSize = (random: Random): number => (random.chance(0.15) ? random.whole(2, 4) : 1);

/** What a call asks for: mostly a plain write, now and then trouble. */
function chooseContents(
  number: number,
  alias: string,
  random: Random,
): { readonly kind: ToolKind; readonly contents: readonly Content[] } {
  const tool =
    alias === 'book' ? 'look' : random.pick(['charge', 'charge', 'charge', 'charge', 'upsert', 'look']);
  const first: Content = {
    name: random.chance(0.02) ? `${alias}__nothing` : `${alias}__${tool}`,
    canary: canaryOf(number, 0),
    arguments: { canary: canaryOf(number, 0), ...behaviour(alias, random) },
  };
  const isInvalid = random.chance(0.03);
  const second: Content = {
    name: `${alias}__${tool}`,
    canary: canaryOf(number, 1),
    arguments: { ...first.arguments, canary: canaryOf(number, 1) },
  };
  return {
    kind: toolKinds[tool] ?? 'write',
    contents: [isInvalid ? { ...first, arguments: { ...first.arguments, surplus: 1 } } : first, second],
  };
}

const canaryOf = (number: number, content: number): string =>
  `canary-${number.toString(36)}z${content}${((number * 2_654_435_761) >>> 0).toString(36)}`;

function behaviour(alias: string, random: Random): Readonly<Record<string, unknown>> {
  switch (alias) {
    case 'mortal':
      return {
        afterMs: random.whole(0, 10),
        mode: random.pick(['answer', 'answer', 'answer', 'die-before', 'die-after', 'die-half']),
      };
    case 'slow':
      return {
        beforeMs: random.pick([0, 0, 50, 200]),
        afterMs: random.pick([0, 20, 100, 200, 400]),
        mode: random.pick(['answer', 'answer', 'answer', 'progress', 'silent']),
      };
    default:
      return {
        beforeMs: random.pick([0, 0, random.whole(0, 30)]),
        afterMs: random.pick([0, random.whole(0, 30)]),
        mode: random.chance(0.8)
          ? 'answer'
          : random.pick(['tool-error', 'fault', 'garbage', 'refuse', 'twice', 'progress']),
      };
  }
}
