import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChaosCaller } from './caller.ts';
import { type AuditLine, check, type Verdict } from './check.ts';
import { type Gate, makeSite, spawnGate } from './gate.ts';
import { actors, Load } from './load.ts';
import { randomFrom } from './random.ts';

export interface KillOptions {
  readonly folder: string;
  readonly rounds: number;
  readonly seed: number;
  readonly concurrency?: number;
  readonly onRound?: (round: number, counts: { readonly calls: number; readonly posts: number }) => void;
}

/** What a run of kills came to. */
export interface KillReport extends Verdict {
  readonly rounds: number;
  readonly kills: { readonly starting: number; readonly serving: number };
  /** Kills that ended posts without an answer. */
  readonly postsBroken: number;
  readonly surprises: readonly string[];
  readonly complaints: readonly string[];
  readonly durationMs: number;
}

/** Before the kill; few answers are more likely than many. */
const answersPerRoundMax = 300;
const roundMsMax = 3_000;
/** No post is held longer than this: the longest call, a restart and a busy machine. */
const postMsMax = 20_000;

/**
 * Kills the whole service with SIGKILL at a random instant, starts it on the same ledger, and again. Calls are posted
 * all the time, those that got no answer once more, until each has its end; then every call is posted a last time.
 */
export async function runKillLoop(options: KillOptions): Promise<KillReport> {
  const { folder, rounds, seed, concurrency = 24, onRound } = options;
  const startedMs = performance.now();
  const random = randomFrom(seed);
  const site = await makeSite({ folder });
  const caller = new ChaosCaller();
  await caller.signIn(site, actors);
  const load = new Load({ random: random.fork(), caller });
  const audit: AuditLine[] = [];
  const complaints: string[] = [];
  const kills = { starting: 0, serving: 0 };
  const ledgerUrl = `sqlite:${join(folder, 'ledger.db')}`;

  const collect = (gate: Gate): void => {
    for (const line of gate.takeAudit()) audit.push(line);
    complaints.push(...gate.complaints.filter(isOdd));
  };

  let orphansOf: string | undefined;
  for (let round = 1; round <= rounds; round += 1) {
    const gate = spawnGate(site, { name: `round-${round}`, ledgerUrl });
    // Some die while they start and recover, the others once they have given so many answers.
    const isEarly = random.chance(0.1);
    const earlyMs = random.whole(50, 500);
    const answersMax = Math.floor(answersPerRoundMax * random.next() ** 2);
    const delayMs = random.whole(0, 20);
    const isUp = isEarly ? await Promise.race([gate.listening, sleep(earlyMs, false)]) : await gate.listening;
    if (!isUp && !isEarly) {
      throw new Error(
        `callgate did not come up in round ${round} (seed ${seed}):\n${gate.complaints.join('\n')}`,
      );
    }
    // What the servers of the last process still had to do has met the recovery by now, and had its chance.
    if (orphansOf !== undefined) site.killServersOf(orphansOf);
    if (isUp) {
      let isDead = false;
      const before = caller.answers;
      const loaded = load.run([gate], concurrency, () => isDead);
      const sinceMs = performance.now();
      while (caller.answers - before < answersMax && performance.now() - sinceMs < roundMsMax) await sleep(2);
      await sleep(delayMs);
      gate.signal('SIGKILL');
      await gate.ended;
      isDead = true;
      await loaded;
      kills.serving += 1;
    } else {
      gate.signal('SIGKILL');
      await gate.ended;
      kills.starting += 1;
    }
    // Half of the time the servers die with it, half of the time they outlive it.
    if (random.chance(0.5)) site.killServersOf(gate.name);
    else orphansOf = gate.name;
    collect(gate);
    onRound?.(round, { calls: load.size, posts: caller.posts.length });
  }

  const last = spawnGate(site, { name: 'last', ledgerUrl });
  await last.listening;
  await load.finish([last], concurrency);
  await load.repeatAll([last], concurrency);
  last.signal('SIGTERM');
  await last.ended;
  collect(last);
  await caller.close();

  const verdict = check({
    plans: load.plans,
    posts: caller.posts,
    effects: site.takeEffects(),
    audit,
    postMsMax,
  });
  return {
    ...verdict,
    rounds,
    kills,
    postsBroken: caller.posts.filter(({ kind }) => kind === 'broken').length,
    surprises: caller.surprises,
    complaints,
    durationMs: performance.now() - startedMs,
  };
}

/** Servers that die are what the run is about; everything else that callgate calls an error is not. */
const isOdd = (line: string): boolean => !line.includes('"event":"server.') && !line.includes('Warning');
