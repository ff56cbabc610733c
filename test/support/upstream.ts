import { fileURLToPath } from 'node:url';
import { createActor } from '../../src/access/actor.ts';
import type { EventFields, EventLog } from '../../src/core/events.ts';
import { createRedactor } from '../../src/core/redact.ts';
import type { Attempt, Caller, StoredToolList, ToolCall } from '../../src/dispatch/ports.ts';
import { nativeFormat } from '../../src/formats/formats.ts';
import type { ToolDefinition, WithheldTool } from '../../src/tools/definition.ts';
import type { ConnectionDeps } from '../../src/upstream/connection.ts';
import { Deadline } from '../../src/upstream/deadline.ts';
import { LegacyConnection } from '../../src/upstream/legacy-connection.ts';
import type {
  FaultyServer,
  ServerSettings,
  ServerStatus,
  TransportSettings,
} from '../../src/upstream/settings.ts';
import { openUpstreams, type Upstreams } from '../../src/upstream/upstreams.ts';

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
  credentials: undefined,
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
  connection: 'shared',
  connectionsMax: 100,
  connectionIdleMs: 300_000,
  keepConnected: true,
  ...more,
});

/** A caller, where it does not matter who it is. */
export const someone: Caller = {
  actor: createActor({
    issuer: 'https://issuer.example',
    kind: 'client',
    subject: 'someone',
    client: 'someone',
    grants: [],
    adminScopes: new Set(),
  }),
  requestId: 'a-request',
  run: undefined,
  turn: undefined,
  token: undefined,
  format: nativeFormat,
  declarationsChanged: false,
};

/** A connection of the older era by itself, without a supervisor. */
export const legacyConnection = (
  transport: TransportSettings,
  more: Partial<ConnectionDeps> = {},
): LegacyConnection =>
  new LegacyConnection(server('one', transport), {
    log: { info: () => {}, warn: () => {}, error: () => {} },
    redact: (text) => text,
    credentials: undefined,
    onLost: () => {},
    onToolsChanged: () => {},
    ...more,
  });

/** The deadline of a call that has time. */
export const longDeadline = (): Deadline => new Deadline(() => performance.now(), 3_600_000);

type Arguments = Record<string, never> | Record<string, string | number | object>;

/** A call of a tool of the server `one`, with long limits. */
export const toolCall = (tool: string, args: Arguments = {}, more: Partial<ToolCall> = {}): ToolCall => ({
  alias: 'one',
  tool,
  arguments: args as never,
  inputSchema: {},
  caller: someone,
  id: 'an-id',
  timeoutMs: 20_000,
  timeoutTotalMs: 3_600_000,
  mayRepeat: false,
  signal: new AbortController().signal,
  onProgress: () => {},
  onLateAnswer: () => {},
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
    stored: readonly StoredToolList[] = [],
  ) {
    const note =
      (level: Logged['level']) =>
      (event: string, fields: EventFields): void => {
        this.logged.push({ level, event, fields });
        queueMicrotask(() => this.#check());
      };
    const log: EventLog = { info: note('info'), warn: note('warn'), error: note('error') };
    this.upstreams = openUpstreams(servers, faulty, stored, {
      log,
      redact: createRedactor(secrets),
      nowMs: () => Date.now(),
      monotonicMs: () => performance.now(),
      onTools: (alias, tools, refused) => {
        this.lists.push({ alias, tools, refused });
        queueMicrotask(() => this.#check());
      },
    });
    void this.upstreams.start();
  }

  call(tool: string, args: Arguments = {}, more: Partial<ToolCall> = {}): Promise<Attempt> {
    return this.upstreams.callTool(toolCall(tool, args, more));
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
