import { setTimeout as sleep } from 'node:timers/promises';
import { ChaosCaller } from './caller.ts';
import { type AuditLine, check, type Verdict } from './check.ts';
import { type Gate, makeSite, spawnGate } from './gate.ts';
import { actors, Load } from './load.ts';
import { type Random, randomFrom } from './random.ts';

/** The way of one replica to the database. */
export interface DatabaseLine {
  readonly url: string;
  /** Resets what is open. */
  cut(): void;
  /** Resets what is open and what comes. */
  refuse(): void;
  /** Takes everything and passes nothing on. */
  stall(): void;
  resume(): void;
}

export interface ReplicasOptions {
  readonly folder: string;
  readonly seed: number;
  readonly calls: number;
  /** One for each replica. */
  readonly lines: readonly DatabaseLine[];
  /** How long a replica is stopped: longer than its claims on calls hold. */
  readonly pauseMs: number;
  /** The least number of times that each fault is made. */
  readonly faultsMin: number;
  readonly concurrency?: number;
  readonly onFault?: (fault: string) => void;
}

/** What a run of replicas came to. */
export interface ReplicasReport extends Verdict {
  readonly faults: Readonly<Record<Fault, number>>;
  readonly surprises: readonly string[];
  readonly complaints: readonly string[];
  readonly durationMs: number;
}

type Fault = (typeof faults)[number];

const faults = ['pause', 'cut', 'refuse', 'stall', 'kill'] as const;
/** While only one of two answers, the other's calls wait; this many back-ends go on. */
const usualConcurrency = 192;

interface Replica {
  gate: Gate;
  readonly line: DatabaseLine;
}

/**
 * Several replicas on one database. Every call is posted to all of them at the same time while one or the other is
 * stopped for longer than its lease, cut off from the database, or killed.
 */
export async function runReplicas(options: ReplicasOptions): Promise<ReplicasReport> {
  const { folder, seed, calls, lines, pauseMs, faultsMin, concurrency = usualConcurrency } = options;
  const startedMs = performance.now();
  const random = randomFrom(seed);
  const site = await makeSite({ folder });
  const caller = new ChaosCaller();
  await caller.signIn(site, actors);
  const load = new Load({ random: random.fork(), caller });
  const audit: AuditLine[] = [];
  const complaints: string[] = [];
  let started = 0;

  const start = async (line: DatabaseLine): Promise<Gate> => {
    started += 1;
    const gate = spawnGate(site, { name: `replica-${started}`, ledgerUrl: line.url });
    if (!(await gate.listening)) throw new Error(`a replica did not come up:\n${gate.complaints.join('\n')}`);
    return gate;
  };
  const collect = (gate: Gate): void => {
    for (const line of gate.takeAudit()) audit.push(line);
    complaints.push(...gate.complaints);
  };
  const replicas: Replica[] = await Promise.all(
    lines.map(async (line) => ({ line, gate: await start(line) })),
  );
  // The same array all the time: whoever posts takes the replicas as they are at that moment.
  const gates = replicas.map(({ gate }) => gate);

  const counts: Record<Fault, number> = { pause: 0, cut: 0, refuse: 0, stall: 0, kill: 0 };
  const makers: Readonly<Record<Fault, (replica: Replica, random: Random) => Promise<void>>> = {
    pause: async ({ gate }) => {
      gate.signal('SIGSTOP');
      await sleep(pauseMs);
      gate.signal('SIGCONT');
    },
    cut: async ({ line }) => line.cut(),
    refuse: async ({ line }, dice) => {
      line.refuse();
      await sleep(dice.whole(200, 3_000));
      line.resume();
    },
    stall: async ({ line }, dice) => {
      line.stall();
      await sleep(dice.whole(200, 8_000));
      line.resume();
    },
    kill: async (replica) => {
      const { gate, line } = replica;
      gate.signal('SIGKILL');
      await gate.ended;
      collect(gate);
      site.killServersOf(gate.name);
      replica.gate = await start(line);
      gates[gates.indexOf(gate)] = replica.gate;
    },
  };
  let isOver = false;
  const sabotage = async (): Promise<void> => {
    const dice = random.fork();
    while (!isOver || faults.some((fault) => counts[fault] < faultsMin)) {
      await sleep(dice.whole(200, 1_500));
      const missing = faults.filter((fault) => counts[fault] < faultsMin);
      const fault = dice.pick(missing.length > 0 ? missing : faults);
      counts[fault] += 1;
      options.onFault?.(fault);
      await makers[fault](dice.pick(replicas), dice);
    }
  };

  const sabotaged = sabotage();
  await load.run(
    gates,
    concurrency,
    () => load.size >= calls && faults.every((fault) => counts[fault] >= faultsMin),
  );
  isOver = true;
  await sabotaged;
  await load.finish(gates, concurrency);
  await load.repeatAll(gates, concurrency);
  for (const gate of gates) gate.signal('SIGTERM');
  await Promise.all(gates.map(({ ended }) => ended));
  for (const gate of gates) collect(gate);
  await caller.close();

  return {
    // A post to a stopped replica waits for it, and then for the lease of the other.
    ...check({
      plans: load.plans,
      posts: caller.posts,
      effects: site.takeEffects(),
      audit,
      postMsMax: 2 * pauseMs + 60_000,
    }),
    faults: counts,
    surprises: caller.surprises,
    complaints,
    durationMs: performance.now() - startedMs,
  };
}
