import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { allGone, descendantsOf } from './processes.ts';
import { until } from './until.ts';

/** The checkout, with a slash at its end. */
export const repositoryFolder = fileURLToPath(new URL('../../', import.meta.url));
const cli = join(repositoryFolder, 'dist/cli.js');

const issuer = 'https://idp.test/';
const audience = 'https://callgate.test';

/** A configuration as it stands in a file; the harness adds `listen` and the issuer of its tokens. */
export interface ConfigFile {
  mcpServers: Record<string, unknown>;
  callgate?: Record<string, unknown>;
}

export interface Answer<T> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

/** The JSON text that an output holds, where it is rendered as an envelope. */
export interface Envelope {
  readonly ok: boolean;
  readonly content: readonly { readonly type: string; readonly text: string }[];
  readonly structured?: unknown;
  readonly error?: {
    readonly code: string;
    readonly message: string;
    readonly may_have_executed: boolean;
    readonly retryable: boolean;
    readonly [fact: string]: unknown;
  };
}

/** What one call came to, taken apart. */
export interface CallAnswer {
  readonly httpStatus: number;
  readonly headers: Headers;
  readonly item: Record<string, unknown>;
  readonly envelope: Envelope;
}

export type LogLine = Readonly<Record<string, unknown>>;

interface RequestOptions {
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** One entry of the log that the servers of the tests keep about themselves. */
export interface Execution {
  readonly server: string;
  readonly tool: string;
  readonly arguments: unknown;
  readonly requestId: number | string;
  readonly pid: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A running callgate process. */
export interface Callgate {
  readonly url: string;
  readonly folder: string;
  /** A token of the issuer that `startCallgate` configured, with these scopes. */
  token(scopes: readonly string[], claims?: Readonly<Record<string, unknown>>): Promise<string>;
  get<T = unknown>(path: string, options?: RequestOptions): Promise<Answer<T>>;
  post<T = unknown>(path: string, body: unknown, options?: RequestOptions): Promise<Answer<T>>;
  /** One `function_call` item through `POST /v1/calls`. */
  call(
    token: string,
    callId: string,
    name: string,
    input: unknown,
    headers?: Record<string, string>,
  ): Promise<CallAnswer>;
  logs(): readonly LogLine[];
  /** All that was written to stdout so far. */
  stdout(): string;
  /** Resolves with the first log line, past or coming, that fits. */
  logged(fits: (line: LogLine) => boolean): Promise<LogLine>;
  /** What the servers say they ran. */
  executions(): readonly Execution[];
  /** Ends the process and resolves with its exit code, once none of its descendants is left. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Runs the built command line to its end. */
export function runCli(
  args: readonly string[],
  options: { cwd?: string; env?: Readonly<Record<string, string>> } = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [cli, ...args], {
    cwd: options.cwd ?? repositoryFolder,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, stdout, stderr })));
}

/** Starts `callgate serve` with this configuration and an issuer of its own, and waits until it is ready. */
export async function startCallgate(
  config: ConfigFile,
  options: { env?: Readonly<Record<string, string>>; executionsLog?: string } = {},
): Promise<Callgate> {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-test-'));
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const key = { ...(await exportJWK(publicKey)), kid: 'test', alg: 'ES256', use: 'sig' };
  writeFileSync(join(folder, 'jwks.json'), JSON.stringify({ keys: [key] }));
  const file = join(folder, 'callgate.json');
  writeFileSync(file, JSON.stringify(withIssuer(config)));

  const executionsLog = options.executionsLog ?? join(folder, 'executions.jsonl');
  const child = spawn(process.execPath, [cli, 'serve', '--config', file], {
    cwd: folder,
    env: { ...process.env, EXECUTIONS_LOG: executionsLog, ...options.env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const token: Callgate['token'] = (scopes, claims = {}) =>
    new SignJWT({ scope: scopes.join(' '), client_id: 'test-client', jti: crypto.randomUUID(), ...claims })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'test' })
      .setIssuer(issuer)
      .setAudience(audience)
      .setSubject('reader')
      .setIssuedAt()
      .setExpirationTime('10m')
      .sign(privateKey);
  return attach(child, { folder, executionsLog, token });
}

/** Starts `callgate dev` in a folder of its own on a free port, and waits until it is ready. */
export async function startDev(args: readonly string[] = []): Promise<Callgate> {
  const folder = mkdtempSync(join(tmpdir(), 'callgate-test-'));
  const executionsLog = join(folder, 'executions.jsonl');
  const child = spawn(process.execPath, [cli, 'dev', '--port', '0', '--log-level', 'info', ...args], {
    cwd: folder,
    env: { ...process.env, EXECUTIONS_LOG: executionsLog },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const token: Callgate['token'] = async (scopes) => {
    const { code, stdout, stderr } = await runCli(['token', '--sub', 'reader', '--scope', scopes.join(' ')], {
      cwd: folder,
    });
    if (code !== 0) throw new Error(`callgate token ended with ${code}: ${stderr}`);
    return stdout.trim();
  };
  return attach(child, { folder, executionsLog, token });
}

function withIssuer({ mcpServers, callgate = {} }: ConfigFile): ConfigFile {
  const trusted = {
    issuer,
    audience,
    jwksFile: 'jwks.json',
    algorithms: ['ES256'],
    grantsMax: ['tools:*:*', 'callgate:operate'],
  };
  return {
    mcpServers,
    callgate: {
      listen: { host: '127.0.0.1', port: 0, metrics: false },
      auth: { issuers: [trusted] },
      ...callgate,
    },
  };
}

async function attach(
  child: ChildProcess,
  { folder, executionsLog, token }: { folder: string; executionsLog: string; token: Callgate['token'] },
): Promise<Callgate> {
  const output = readOutput(child);
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const killed = (): void => {
    child.kill('SIGKILL');
  };
  process.once('exit', killed);

  const listening = await Promise.race([
    output.logged((line) => line.event === 'service.listening'),
    exited.then((code) => {
      throw new Error(
        `callgate ended with ${code} before it listened:\n${output.stderr()}\n${output.stdout()}`,
      );
    }),
  ]);
  const url = String(listening.url);

  async function send<T>(
    path: string,
    init: RequestInit,
    { token, headers }: RequestOptions,
  ): Promise<Answer<T>> {
    const sent = new Headers(headers);
    if (token !== undefined) sent.set('authorization', `Bearer ${token}`);
    if (init.body !== undefined && !sent.has('content-type')) sent.set('content-type', 'application/json');
    const response = await fetch(new URL(path, url), { ...init, headers: sent });
    const text = await response.text();
    const isJson = /\bjson\b/.test(response.headers.get('content-type') ?? '');
    return {
      status: response.status,
      headers: response.headers,
      body: (isJson ? JSON.parse(text) : text) as T,
    };
  }
  const get: Callgate['get'] = (path, options = {}) => send(path, {}, options);
  const post: Callgate['post'] = (path, body, options = {}) =>
    send(path, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) }, options);

  await until(async () => (await get('/readyz')).status === 200);

  return {
    url,
    folder,
    token,
    get,
    post,
    async call(token, callId, name, input, headers = {}) {
      const intent = { type: 'function_call', call_id: callId, name, arguments: JSON.stringify(input) };
      const answer = await post<Record<string, unknown>>('/v1/calls', intent, { token, headers });
      const { output } = answer.body;
      if (typeof output !== 'string') throw new Error(`no output text in ${JSON.stringify(answer.body)}`);
      return {
        httpStatus: answer.status,
        headers: answer.headers,
        item: answer.body,
        envelope: JSON.parse(output) as Envelope,
      };
    },
    logs: output.logs,
    stdout: output.stdout,
    logged: output.logged,
    executions: () =>
      existsSync(executionsLog)
        ? readFileSync(executionsLog, 'utf8')
            .split('\n')
            .filter((line) => line !== '')
            .map((line) => JSON.parse(line) as Execution)
        : [],
    async stop(signal = 'SIGTERM') {
      const descendants = descendantsOf(child.pid ?? 0);
      child.kill(signal);
      const code = await exited;
      process.off('exit', killed);
      await allGone(descendants);
      rmSync(folder, { recursive: true, force: true });
      return code;
    },
  };
}

/** Reads both pipes of a child, and their lines of JSON apart from the rest. */
function readOutput(child: ChildProcess) {
  const written = { stdout: '', stderr: '' };
  const lines: LogLine[] = [];
  const waiting = new Set<(line: LogLine) => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    let unfinished = '';
    child[name]?.setEncoding('utf8').on('data', (chunk: string) => {
      written[name] += chunk;
      const parts = (unfinished + chunk).split('\n');
      unfinished = parts.pop() ?? '';
      for (const part of parts.filter((text) => text.startsWith('{'))) {
        const line = JSON.parse(part) as LogLine;
        lines.push(line);
        for (const look of waiting) look(line);
      }
    });
  }
  return {
    stdout: () => written.stdout,
    stderr: () => written.stderr,
    logs: (): readonly LogLine[] => lines,
    logged: (fits: (line: LogLine) => boolean): Promise<LogLine> => {
      const past = lines.find(fits);
      if (past !== undefined) return Promise.resolve(past);
      return new Promise((resolve) => {
        const look = (line: LogLine): void => {
          if (!fits(line)) return;
          waiting.delete(look);
          resolve(line);
        };
        waiting.add(look);
      });
    },
  };
}
