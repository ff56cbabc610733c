import type { AuthSettings } from '../auth/settings.ts';
import type { LedgerSettings } from '../ledger/settings.ts';
import type { ServerPolicy } from '../tools/policy.ts';
import type { FaultyServer, ServerSettings } from '../upstream/settings.ts';

/** One thing that is wrong in a configuration file, with the place to look at (lines and columns from 1). */
export interface Finding {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** A configuration that can be run: parsed, interpolated, checked, every default applied. */
export interface Configuration {
  readonly file: string;
  readonly listen: Address;
  /** Undefined when metrics are switched off (`"metrics": false`). */
  readonly metrics: Address | undefined;
  readonly publicUrl: string | undefined;
  readonly auth: AuthSettings;
  readonly hideForbidden: boolean;
  readonly ledger: LedgerSettings;
  readonly limits: {
    readonly waitMaxMs: number;
    readonly drainMs: number;
    readonly bodyTimeoutMs: number;
    readonly bodyBytesMax: number;
    readonly turnBytesMax: number;
    readonly intentsMax: number;
    readonly readyAfterMs: number;
  };
  readonly servers: readonly ServerSettings[];
  /** One for each of `servers`, in the same order. */
  readonly policies: readonly ServerPolicy[];
  readonly faultyServers: readonly FaultyServer[];
  /** Values that must not appear in any log, output or status (design section 9). */
  readonly secrets: readonly string[];
  /** Things that work but deserve a look, for `check` and the start-up log. */
  readonly warnings: readonly string[];
}
