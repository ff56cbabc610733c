// A PostgreSQL server of the benchmark's own, as its installer leaves it: every default, so also every sync.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from './processes.mjs';

const run = promisify(execFile);
const startMsMax = 30_000;
const readyLine = 'database system is ready to accept connections';
const installed = '/usr/lib/postgresql';

/** Resolves with the URL of a new, empty database; with undefined where no server binary is found. */
export async function startPostgres() {
  const binaries = findBinaries();
  if (binaries === undefined) return undefined;
  // It refuses to run as root, and its user may not enter a folder of root's.
  const user = process.getuid() === 0 ? await userPostgres() : {};
  const folder = mkdtempSync(path.join(tmpdir(), 'callgate-bench-postgres-'));
  const data = path.join(folder, 'data');
  mkdirSync(data);
  if (user.uid !== undefined) for (const place of [folder, data]) chownSync(place, user.uid, user.gid);
  await run(
    path.join(binaries, 'initdb'),
    ['-D', data, '-U', 'callgate', '--auth=trust', '--encoding=UTF8', '--no-locale'],
    { ...user, cwd: folder },
  );
  const port = await freePort();
  const log = path.join(folder, 'log');
  const logFile = openSync(log, 'w');
  const server = spawn(
    path.join(binaries, 'postgres'),
    ['-D', data, '-p', String(port), '-h', '127.0.0.1', '-k', folder],
    { ...user, cwd: folder, stdio: ['ignore', logFile, logFile] },
  );
  const exited = once(server, 'exit');
  const killAtExit = () => server.kill('SIGQUIT');
  process.once('exit', killAtExit);
  const stop = async () => {
    server.kill('SIGINT');
    await exited;
    process.off('exit', killAtExit);
    rmSync(folder, { recursive: true, force: true });
  };
  for (let waitedMs = 0; waitedMs < startMsMax && server.exitCode === null; waitedMs += 50) {
    if (readFileSync(log, 'utf8').includes(readyLine))
      return { url: `postgres://callgate@127.0.0.1:${port}/postgres`, stop };
    await sleep(50);
  }
  const printed = readFileSync(log, 'utf8').slice(-4000);
  await stop();
  throw new Error(`PostgreSQL did not come up. It printed:\n${printed}`);
}

function findBinaries() {
  const versions = existsSync(installed) ? readdirSync(installed).sort((a, b) => Number(b) - Number(a)) : [];
  const places = [
    ...(process.env.PATH ?? '').split(path.delimiter),
    ...versions.map((version) => path.join(installed, version, 'bin')),
  ];
  return places.find((place) => ['initdb', 'postgres'].every((name) => existsSync(path.join(place, name))));
}

async function userPostgres() {
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map(async (flag) => (await run('id', [flag, 'postgres'])).stdout),
  );
  return { uid: Number(uid), gid: Number(gid) };
}
