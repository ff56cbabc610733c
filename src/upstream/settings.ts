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
  | { readonly kind: 'http'; readonly url: string; readonly headers: Readonly<Record<string, string>> };

/** One configured server, with every default already applied. */
export interface ServerSettings {
  readonly alias: string;
  readonly transport: TransportSettings;
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

export type ServerStage = 'config' | 'spawn' | 'connect' | 'initialize' | 'list';

/** What an operator sees of one server. Times are epoch milliseconds. */
export interface ServerStatus {
  readonly alias: string;
  /** `stale`: its last good tool list is still offered, but there is no connection or the list could not be read again. */
  readonly state: 'connecting' | 'ready' | 'stale' | 'backoff' | 'stopped';
  /** How far the last try got; absent while ready. */
  readonly stage?: ServerStage;
  readonly since: number;
  readonly attempts: number;
  /** Printable, cut, redacted. */
  readonly lastError?: string;
  readonly lastExitCode?: number;
  readonly nextTryAt?: number;
  readonly protocolVersion?: string;
  /** The last lines a stdio server wrote to stderr, redacted; only shown to operators. */
  readonly stderr?: readonly string[];
}
