import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChaosCaller } from './caller.ts';
import { type AuditLine, check, type Effect, type Post, type Verdict, type Violation } from './check.ts';
import { type Gate, makeSite, type Site, spawnGate } from './gate.ts';
import { actors, Load } from './load.ts';
import { type Random, randomFrom } from './random.ts';
import { type Trend, trendOf } from './trend.ts';

export interface SoakOptions {
  readonly folder: string;
  readonly minutes: number;
  /** Posts in a second. */
  readonly rate: number;
  readonly seed: number;
  readonly onWindow?: (facts: Readonly<Record<string, number>>) => void;
}

/** What a figure did, and whether it may. */
export interface FigureTrend extends Trend {
  readonly figure: string;
  readonly isFlat: boolean;
}

/** What a soak came to. */
export interface SoakReport extends Verdict {
  readonly rate: number;
  readonly serversKilled: number;
  readonly serversStopped: number;
  readonly trends: readonly FigureTrend[];
  readonly surprises: readonly string[];
  readonly complaints: readonly string[];
  readonly durationMs: number;
}

/** What is watched, and by how much it may be larger in the last quarter of the run than in the first. */
const figures = {
  process_resident_memory_bytes: { share: 0.1, least: 24e6 },
  nodejs_heap_size_used_bytes: { share: 0.2, least: 12e6 },
  nodejs_external_memory_bytes: { share: 0.2, least: 12e6 },
  process_open_fds: { share: 0, least: 16 },
  nodejs_active_handles_total: { share: 0, least: 16 },
  nodejs_active_requests_total: { share: 0, least: 16 },
} as const;

type Figure = keyof typeof figures;

/** Calls are checked and forgotten in windows, so that an hour of them needs no more memory than a minute. */
const windowMs = 15_000;
const tickMs = 20;
const sampleMs = 2_000;
const inFlightMax = 2_000;
const numbersPerWindow = 1_000_000;
/** Servers come and connections open, code is compiled, young garbage settles: that growth is not a leak. */
const warmUpShare = 0.25;
const postMsMax = 30_000;

/** Calls at a steady rate against one process while servers die, hang and talk rubbish and callers hang up. */
export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const { folder, minutes, rate, seed, onWindow } = options;
  const startedMs = performance.now();
  const endMs = startedMs + minutes * 60_000;
  const random = randomFrom(seed);
  const roomy = { timeoutMs: 600, timeoutTotalMs: 1_200, concurrencyMax: 64, queueMax: 64 };
  const site = await makeSite({
    folder,
    hasMetrics: true,
    changes: { defaults: { backoffMinMs: 300, backoffMaxMs: 2_000 }, servers: { slow: roomy } },
  });
  const caller = new ChaosCaller();
  await caller.signIn(site, actors);
  const gate = spawnGate(site, { name: 'soak', ledgerUrl: `sqlite:${join(folder, 'ledger.db')}` });
  if (!(await gate.listening)) throw new Error(`callgate did not come up:\n${gate.complaints.join('\n')}`);

  const isOver = (): boolean => performance.now() >= endMs;
  const samples = sampleFigures(gate, isOver);
  const trouble = troubleServers(site, gate, random.fork(), isOver);
  const totals = new Totals();
  for (let number = 0; !isOver(); number += 1) {
    const load = new Load({
      random: random.fork(),
      caller,
      firstNumber: number * numbersPerWindow,
      leftShare: 1,
      servers: ['pay', 'pay', 'pay', 'pay', 'book', 'book', 'book', 'mortal', 'slow'],
    });
    await postAtRate(load, caller, gate, rate, Math.min(endMs, performance.now() + windowMs));
    await load.finish([gate], 16);
    totals.add(load, caller.posts.splice(0), site.takeEffects(), gate.takeAudit());
    onWindow?.({ minute: (performance.now() - startedMs) / 60_000, ...totals.counts });
  }
  const [taken, troubles] = await Promise.all([samples, trouble]);
  gate.signal('SIGTERM');
  await gate.ended;
  await caller.close();
  totals.add(undefined, [], site.takeEffects(), gate.takeAudit());

  const warm = Math.floor(taken.length * warmUpShare);
  const durationMs = performance.now() - startedMs;
  return {
    ...totals.verdict,
    rate: totals.verdict.posts / (durationMs / 1_000),
    ...troubles,
    trends: (Object.keys(figures) as Figure[]).map((figure) => {
      const trend = trendOf(taken.slice(warm).map(({ atMs, values }) => ({ atMs, value: values[figure] })));
      const { share, least } = figures[figure];
      const isFlat = trend.last - trend.first <= Math.max(least, trend.first * share);
      return { figure, ...trend, isFlat };
    }),
    surprises: caller.surprises,
    complaints: gate.complaints,
    durationMs,
  };
}

/** The check of one window waits for the next: what servers do late belongs to it. */
class Totals {
  #waiting:
    | { load: Load; posts: readonly Post[]; effects: Effect[]; audit: readonly AuditLine[] }
    | undefined;
  readonly #violations: Violation[] = [];
  readonly #answers: Record<string, number> = {};
  readonly counts = { calls: 0, posts: 0, effects: 0, violations: 0 };
  #admissionsLost = 0;

  add(
    load: Load | undefined,
    posts: readonly Post[],
    effects: readonly Effect[],
    audit: readonly AuditLine[],
  ): void {
    const last = this.#waiting;
    const late = new Set(last?.load.plans.flatMap(({ canaries }) => canaries));
    if (last !== undefined) {
      const verdict = check({
        plans: last.load.plans,
        posts: last.posts,
        effects: [...last.effects, ...effects.filter(({ canary }) => late.has(canary))],
        audit: [...last.audit, ...audit],
        postMsMax,
      });
      this.#violations.push(...verdict.violations);
      this.counts.calls += verdict.calls;
      this.counts.posts += verdict.posts;
      this.counts.effects += verdict.effects;
      this.counts.violations = this.#violations.length;
      this.#admissionsLost += verdict.admissionsLost;
      for (const [answer, count] of Object.entries(verdict.answers)) {
        this.#answers[answer] = (this.#answers[answer] ?? 0) + count;
      }
    }
    this.#waiting =
      load === undefined
        ? undefined
        : { load, posts, effects: effects.filter(({ canary }) => !late.has(canary)), audit };
  }

  get verdict(): Verdict {
    const { calls, posts, effects } = this.counts;
    return {
      violations: this.#violations,
      calls,
      posts,
      effects,
      answers: this.#answers,
      admissionsLost: this.#admissionsLost,
    };
  }
}

/** Starts back-ends so that this many posts are made in a second, whether earlier ones have been answered or not. */
async function postAtRate(
  load: Load,
  caller: ChaosCaller,
  gate: Gate,
  rate: number,
  untilMs: number,
): Promise<void> {
  const running = new Set<Promise<void>>();
  const sinceMs = performance.now();
  let asked = 0;
  while (performance.now() < untilMs) {
    const due = (rate * (performance.now() - sinceMs)) / 1_000;
    // An episode is one post or several; what is too much is made up for by the next ticks.
    while (Math.max(asked, caller.posts.length) < due && running.size < inFlightMax) {
      asked += 1;
      const episode = load.runOne([gate]).finally(() => running.delete(episode));
      running.add(episode);
    }
    await sleep(tickMs);
  }
  await Promise.all(running);
}

/** Kills servers and stops them for a while. */
async function troubleServers(
  site: Site,
  gate: Gate,
  random: Random,
  isOver: () => boolean,
): Promise<{ serversKilled: number; serversStopped: number }> {
  let serversKilled = 0;
  let serversStopped = 0;
  while (!isOver()) {
    await sleep(random.whole(500, 3_000));
    const { alias, pid } = random.pick(newestOfEach(site.serversOf(gate.name)));
    if (alias === 'pay' && random.chance(0.5)) continue;
    const isStop = random.chance(0.4);
    if (!signal(pid, isStop ? 'SIGSTOP' : 'SIGKILL')) continue;
    if (!isStop) {
      serversKilled += 1;
      continue;
    }
    serversStopped += 1;
    await sleep(random.whole(100, 1_500));
    signal(pid, 'SIGCONT');
  }
  return { serversKilled, serversStopped };
}

const newestOfEach = <Item extends { readonly alias: string }>(items: readonly Item[]): readonly Item[] => [
  ...new Map(items.map((item) => [item.alias, item])).values(),
];

function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

interface Reading {
  readonly atMs: number;
  readonly values: Readonly<Record<Figure, number>>;
}

async function sampleFigures(gate: Gate, isOver: () => boolean): Promise<readonly Reading[]> {
  const readings: Reading[] = [];
  while (!isOver()) {
    await sleep(sampleMs);
    const text = await (await fetch(`${gate.metricsUrl}/metrics`)).text();
    const values = Object.fromEntries(
      (Object.keys(figures) as Figure[]).map((figure) => [figure, readFigure(text, figure)]),
    ) as Record<Figure, number>;
    readings.push({ atMs: performance.now(), values });
  }
  return readings;
}

function readFigure(text: string, figure: Figure): number {
  const value = new RegExp(`^${figure} (\\S+)$`, 'm').exec(text)?.[1];
  if (value === undefined) throw new Error(`the metrics do not tell ${figure}`);
  return Number(value);
}
