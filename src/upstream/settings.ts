import type { CredentialSettings } from './credential-settings.ts';

/** How to reach one server. All paths are absolute, all `${}` are filled in. */
export type TransportSettings =
  | {
      readonly kind: 'stdio';
      readonly command: string;
      readonly args: readonly string[];
      /** The child's whole environment: the minimal set of the platform plus what the operator named (MT-2). */
      readonly env: Readonly<Record<string, string>>;
      readonly cwd: string;
    }
  | {
      /** Streamable HTTP, or the HTTP+SSE of protocol 2024-11-05. */
      readonly kind: 'http' | 'sse';
      readonly url: string;
      readonly headers: Readonly<Record<string, string>>;
      /** Where to get tokens for it; undefined where `headers` hold all it wants. */
      readonly credentials: CredentialSettings | undefined;
    };

/** One configured server, with every default already applied. */
export interface ServerSettings {
  readonly alias: string;
  readonly transport: TransportSettings;
  /** Who shares a connection: everybody, the calls of one actor, or the calls of one run of an actor. */
  readonly connection: 'shared' | 'actor' | 'run';
  /** Connections of actors or runs that are open at the same time. */
  readonly connectionsMax: number;
  /** How long a connection may be without a call before it is closed, unless it is to be kept. */
  readonly connectionIdleMs: number;
  /** Whether the server's own connection is opened at the start and never closed for want of calls. */
  readonly keepConnected: boolean;
  /** Spawn or connect, and `initialize`. */
  readonly connectTimeoutMs: number;
  /** All pages of one tool list. */
  readonly listTimeoutMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** From the polite end of a child to the kill of its group. */
  readonly stopGraceMs: number;
  /** Calls that run at the same time on this server. */
  readonly concurrencyMax: number;
  /** Calls that may wait for a free place; more are refused as `server_busy`. */
  readonly queueMax: number;
  /** Bytes of one message from the server. */
  readonly resultBytesMax: number;
}

/** A server whose entry in the configuration cannot be used. It is shown, and harms no other. */
export interface FaultyServer {
  readonly alias: string;
  readonly reason: string;
}

export type ServerStage = 'config' | 'idle' | 'credentials' | 'spawn' | 'connect' | 'initialize' | 'list';

/** What an operator sees of one server. Times are epoch milliseconds. */
export interface ServerStatus {
  readonly alias: string;
  /** `stale`: its last good tool list is still offered, but there is no connection or the list could not be read again. */
  readonly state: 'connecting' | 'ready' | 'stale' | 'backoff' | 'stopped';
  /** How far the last try got, or `idle` where the connection is closed until it is needed; absent while ready. */
  readonly stage?: ServerStage;
  readonly since: number;
  readonly attempts: number;
  /** Printable, cut, redacted. */
  readonly lastError?: string;
  readonly lastExitCode?: number;
  readonly nextTryAt?: number;
  readonly protocolVersion?: string;
  /** Open connections, those of actors and runs included. */
  readonly connections: number;
  /** Whether calls are kept from a server that has failed again and again. */
  readonly breaker: 'closed' | 'open' | 'half_open';
  /** The last lines a stdio server wrote to stderr, redacted; only shown to operators. */
  readonly stderr?: readonly string[];
}
