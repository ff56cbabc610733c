import { fileURLToPath } from 'node:url';
import type { EventFields, EventLog } from '../../src/core/events.ts';
import { createRedactor } from '../../src/core/redact.ts';
import type { Attempt, ToolCall } from '../../src/dispatch/ports.ts';
import type { ToolDefinition, WithheldTool } from '../../src/tools/definition.ts';
import type {
  FaultyServer,
  ServerSettings,
  ServerStatus,
  TransportSettings,
} from '../../src/upstream/settings.ts';
import { startUpstreams, type Upstreams } from '../../src/upstream/upstreams.ts';

/** A line of the log that a test can look at. */
export interface Logged {
  readonly level: 'info' | 'warn' | 'error';
  readonly event: string;
  readonly fields: EventFields;
}

const faultServer = fileURLToPath(new URL('./fault-server.mjs', import.meta.url));

/** The stdio server that misbehaves on demand, in these modes. */
export const faultStdio = (...modes: string[]): TransportSettings => nodeStdio(faultServer, ...modes);

export const nodeStdio = (...args: string[]): TransportSettings => ({
  kind: 'stdio',
  command: process.execPath,
  args,
  env: { PATH: process.env.PATH ?? '' },
  cwd: process.cwd(),
});

export const http = (url: string, headers: Record<string, string> = {}): TransportSettings => ({
  kind: 'http',
  url,
  headers,
});

/** Settings with short limits, for a server of this alias. */
export const server = (
  alias: string,
  transport: TransportSettings,
  more: Partial<ServerSettings> = {},
): ServerSettings => ({
  alias,
  transport,
  connectTimeoutMs: 20_000,
  listTimeoutMs: 20_000,
  backoffMinMs: 50,
  backoffMaxMs: 400,
  stopGraceMs: 1_000,
  concurrencyMax: 16,
  queueMax: 64,
  resultBytesMax: 1_048_576,
  ...more,
});

/** Upstreams under watch: every list and every log line is kept, and can be waited for. */
export class WatchedUpstreams {
  readonly lists: { alias: string; tools: readonly ToolDefinition[]; refused: readonly WithheldTool[] }[] =
    [];
  readonly logged: Logged[] = [];
  readonly upstreams: Upstreams;
  readonly #waiting: { isMet: () => boolean; resolve: () => void }[] = [];

  constructor(
    servers: readonly ServerSettings[],
    faulty: readonly FaultyServer[] = [],
    secrets: readonly string[] = [],
  ) {
    const note =
      (level: Logged['level']) =>
      (event: string, fields: EventFields): void => {
        this.logged.push({ level, event, fields });
        queueMicrotask(() => this.#check());
      };
    const log: EventLog = { info: note('info'), warn: note('warn'), error: note('error') };
    this.upstreams = startUpstreams(servers, faulty, {
      log,
      redact: createRedactor(secrets),
      nowMs: () => Date.now(),
      monotonicMs: () => performance.now(),
      onTools: (alias, tools, refused) => {
        this.lists.push({ alias, tools, refused });
        queueMicrotask(() => this.#check());
      },
    });
  }

  call(
    tool: string,
    args: Record<string, never> | Record<string, string | number | object> = {},
    more: Partial<ToolCall> = {},
  ): Promise<Attempt> {
    return this.upstreams.callTool({
      alias: 'one',
      tool,
      arguments: args as never,
      id: 'an-id',
      timeoutMs: 20_000,
      timeoutTotalMs: 3_600_000,
      mayRepeat: false,
      signal: new AbortController().signal,
      onProgress: () => {},
      onLateAnswer: () => {},
      ...more,
    });
  }

  /** Resolves when the condition holds; looked at after each log line and each list. */
  when(isMet: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push({ isMet, resolve });
      this.#check();
    });
  }

  status(alias = 'one'): ServerStatus {
    const found = this.upstreams.statuses().find((status) => status.alias === alias);
    if (found === undefined) throw new Error(`no status for ${alias}`);
    return found;
  }

  events(name: string): readonly EventFields[] {
    return this.logged.filter(({ event }) => event === name).map(({ fields }) => fields);
  }

  #check(): void {
    for (const waiting of this.#waiting) if (waiting.isMet()) waiting.resolve();
  }
}

/** The text of a result, for short assertions. */
export const textOf = (attempt: Attempt): unknown =>
  attempt.kind === 'answered'
    ? attempt.result.content[0]?.text
    : `failed: ${attempt.code}: ${attempt.message}`;
