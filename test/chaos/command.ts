import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Verdict } from './check.ts';
import { openDatabase } from './database.ts';
import { runKillLoop } from './kill-loop.ts';
import { runReplicas } from './replicas-loop.ts';
import { runSoak } from './soak-loop.ts';
import { runTorment } from './torment-loop.ts';

const exitClean = 0;
const exitViolated = 1;
/** Of a kind of finding; the rest stands in the file. */
const shownMax = 20;
/** Longer than the lease of a replica and the gap between two sweeps. */
const pauseMs = 18_000;

/** What every run says about itself. */
interface Report extends Verdict {
  readonly surprises: readonly string[];
  readonly complaints: readonly string[];
  readonly durationMs: number;
}

/** `npm run chaos`: looks for violated invariants under kills; the number is the exit code. */
export function chaos(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '1000' },
      calls: { type: 'string', default: '10000' },
      replicas: { type: 'boolean', default: false },
      servers: { type: 'boolean', default: false },
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string' },
    },
  });
  const seed = readSeed(values.seed);
  if (values.servers) return torment(seed, Number(values.minutes));
  return inFolder((folder) =>
    values.replicas
      ? replicas(folder, seed, Number(values.calls))
      : kills(folder, seed, Number(values.rounds)),
  );
}

async function kills(folder: string, seed: number, rounds: number): Promise<Report> {
  print(`chaos: ${rounds} rounds of SIGKILL, seed ${seed}`);
  const report = await runKillLoop({
    folder,
    rounds,
    seed,
    onRound: (round, { calls, posts }) => {
      if (round % 50 === 0) print(`round ${round}: ${calls} calls, ${posts} posts`);
    },
  });
  const { serving, starting } = report.kills;
  print(`killed ${serving} times under load and ${starting} times while starting`);
  return report;
}

async function replicas(folder: string, seed: number, calls: number): Promise<Report> {
  print(`chaos: two replicas, ${calls} calls posted to both, seed ${seed}`);
  const database = await openDatabase(2);
  const report = await runReplicas({
    folder,
    seed,
    calls,
    lines: database.lines,
    pauseMs,
    faultsMin: 5,
    onFault: (fault) => print(`fault: ${fault}`),
  });
  await database.close();
  print(`faults: ${JSON.stringify(report.faults)}`);
  return report;
}

/** Torments some servers and looks whether the others notice. */
async function torment(seed: number, minutes: number): Promise<number> {
  print(`chaos: servers tormented for ${minutes} minutes, seed ${seed}`);
  const folder = mkdtempSync(join(tmpdir(), 'callgate-torment-'));
  const report = await runTorment({
    folder,
    seed,
    durationMs: minutes * 60_000,
    onBeat: ({ beats, torments }) => print(`${beats} calls to healthy servers, ${torments} torments`),
  });
  rmSync(folder, { recursive: true });
  const { beats, beatMs, answers, torments, starts, returnedMs, violations } = report;
  print(`${beats} calls to healthy servers, ms: ${beatMs.p50} p50, ${beatMs.p99} p99, ${beatMs.max} at most`);
  print(`tormented servers: ${starts} processes, all back ${returnedMs} ms after the end of the torment`);
  for (const [what, count] of Object.entries({ ...torments, ...answers })) print(`  ${count} x ${what}`);
  list('violations', violations);
  print(violations.length === 0 ? 'verdict: no healthy server noticed' : 'verdict: VIOLATED');
  return violations.length === 0 ? exitClean : exitViolated;
}

/** `npm run soak`: looks for what grows under a steady load; the number is the exit code. */
export async function soak(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: 'string', default: '60' },
      rate: { type: 'string', default: '500' },
      seed: { type: 'string' },
    },
  });
  const seed = readSeed(values.seed);
  const minutes = Number(values.minutes);
  print(`soak: ${minutes} minutes, ${values.rate} posts a second, seed ${seed}`);
  let isFlat = false;
  const code = await inFolder(async (folder) => {
    const report = await runSoak({
      folder,
      minutes,
      rate: Number(values.rate),
      seed,
      onWindow: ({ minute = 0, calls, violations }) =>
        print(`minute ${minute.toFixed(1)}: ${calls} calls checked, ${violations} violations`),
    });
    print(
      `${report.rate.toFixed(0)} posts a second; ${report.serversKilled} servers killed, ${report.serversStopped} stopped for a while`,
    );
    for (const { figure, first, last, perHour, isFlat: isGood } of report.trends) {
      const verdict = isGood ? 'flat' : 'GROWS';
      print(`  ${figure}: ${first} -> ${last}, ${Math.round(perHour)} per hour: ${verdict}`);
    }
    isFlat = report.trends.every((trend) => trend.isFlat);
    return report;
  });
  print(isFlat ? 'verdict: nothing grows' : 'verdict: SOMETHING GROWS');
  return isFlat ? code : exitViolated;
}

async function inFolder(run: (folder: string) => Promise<Report>): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-chaos-'));
  const report = await run(folder);
  const isClean = tell(report);
  // A folder with something in it to explain is kept.
  if (isClean) rmSync(folder, { recursive: true, force: true });
  else {
    const file = join(folder, 'violations.json');
    writeFileSync(file, JSON.stringify(report.violations, undefined, 1));
    print(`evidence: ${file}, beside the effect log and, with SQLite, the ledger`);
  }
  return isClean ? exitClean : exitViolated;
}

function tell(report: Report): boolean {
  const { calls, posts, effects, answers, violations, surprises, complaints, admissionsLost } = report;
  print(`${calls} calls, ${posts} posts, ${effects} effects in ${Math.round(report.durationMs / 1_000)} s`);
  for (const [answer, count] of Object.entries(answers)) print(`  ${count} x ${answer}`);
  print(`${admissionsLost} admission lines were lost with a killed process`);
  list('answers that no caller should get', surprises);
  list('errors in the log', complaints);
  const lines = violations.map(({ invariant, key, what }) => `${invariant} ${key}: ${what}`);
  list('violations', lines);
  const isClean = violations.length === 0 && surprises.length === 0;
  print(isClean ? 'verdict: no invariant was violated' : 'verdict: VIOLATED');
  return isClean;
}

function list(title: string, lines: readonly string[]): void {
  print(`${title}: ${lines.length}`);
  for (const line of lines.slice(0, shownMax)) print(`  ${line.slice(0, 500)}`);
}

const readSeed = (text: string | undefined): number =>
  text === undefined ? Date.now() % 1_000_000 : Number(text);

const print = (text: string): void => void process.stdout.write(`${text}\n`);
