import type { DenyLists } from '../auth/settings.ts';
import { isObject } from '../core/json.ts';
import type { Render } from '../tools/policy.ts';

/** The shape of a configuration file, which `config.schema.json` checks before any of these types is used. */
export interface ConfigurationFile {
  readonly mcpServers?: Readonly<Record<string, ServerEntry>>;
  readonly servers?: Readonly<Record<string, ServerEntry>>;
  readonly callgate?: CallgateSection;
}

/** How to start or reach one server, in the words that all hosts share. */
export interface ServerEntry {
  readonly type?: 'stdio' | 'http' | 'streamable-http' | 'sse';
  readonly command?: string;
  readonly args?: readonly string[];
  readonly env?: Readonly<Record<string, string | number | boolean>>;
  readonly cwd?: string;
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly disabled?: boolean;
}

export interface CallgateSection {
  readonly listen?: { readonly host?: string; readonly port?: number; readonly metrics?: string | false };
  readonly publicUrl?: string;
  readonly ledger?: LedgerSection;
  readonly auth?: AuthSection;
  readonly limits?: {
    readonly waitMaxMs?: number;
    readonly drainMs?: number;
    readonly bodyTimeoutMs?: number;
    readonly bodyBytesMax?: number;
    readonly turnBytesMax?: number;
    readonly intentsMax?: number;
    readonly readyAfterMs?: number;
  };
  readonly defaults?: ServerOptions;
  readonly servers?: Readonly<Record<string, ServerOptions>>;
  readonly mcpServersFrom?: readonly string[];
}

export interface LedgerSection {
  readonly url?: string;
  readonly outputRetentionHours?: number;
  readonly readOutputRetentionMinutes?: number;
  readonly tombstoneRetentionDays?: number;
  readonly bytesMax?: number;
  readonly actorBytesMax?: number;
  readonly actorRecordsMax?: number;
}

export interface AuthSection {
  readonly clockToleranceS?: number;
  readonly hideForbidden?: boolean;
  readonly globalWildcards?: boolean;
  readonly issuers?: readonly IssuerEntry[];
  readonly deny?: Partial<DenyLists>;
}

export interface IssuerEntry {
  readonly issuer: string;
  readonly audience: string;
  readonly jwksUri?: string;
  readonly jwksFile?: string;
  readonly algorithms?: readonly string[];
  readonly profile?: 'rfc9068' | 'legacy';
  readonly scopeClaim?: string | readonly string[];
  readonly scopeMap?: Readonly<Record<string, readonly string[]>>;
  readonly grantsMax?: readonly string[];
  readonly jwksMaxAgeMs?: number;
  readonly jwksCooldownMs?: number;
  readonly jwksTimeoutMs?: number;
  readonly jwksStaleMaxMs?: number;
  readonly allowHttp?: boolean;
  readonly lifetimeMaxS?: number;
}

/** What `defaults` and `servers.<alias>` hold; `alias`, `allowHttp` and `auth` only stand in the latter. */
export interface ServerOptions {
  readonly alias?: string;
  readonly allowHttp?: boolean;
  readonly auth?: CredentialsEntry;
  readonly connection?: 'shared' | 'actor' | 'run';
  readonly connectionsMax?: number;
  readonly connectionIdleMs?: number;
  readonly keepConnected?: boolean;
  readonly retry?: 'never' | 'safe';
  readonly trustAnnotations?: boolean;
  readonly concurrencyMax?: number;
  readonly queueMax?: number;
  readonly connectTimeoutMs?: number;
  readonly listTimeoutMs?: number;
  readonly timeoutMs?: number;
  readonly timeoutTotalMs?: number;
  readonly backoffMinMs?: number;
  readonly backoffMaxMs?: number;
  readonly stopGraceMs?: number;
  readonly resultBytesMax?: number;
  readonly outputCharsMax?: number;
  readonly render?: Render;
  readonly descriptionPrefix?: string;
  readonly include?: readonly string[];
  readonly exclude?: readonly string[];
  readonly tools?: Readonly<Record<string, ToolOptions>>;
}

/** Where the tokens for one server come from. */
export interface CredentialsEntry {
  readonly type: 'client_credentials' | 'token_exchange';
  readonly issuer?: string;
  readonly tokenUrl?: string;
  readonly clientId: string;
  readonly clientAuthentication?: 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt';
  readonly clientSecret?: string;
  readonly privateKey?: string;
  readonly privateKeyFile?: string;
  readonly algorithm?: string;
  readonly keyId?: string;
  readonly scope?: string;
  readonly audience?: string;
  readonly resource?: string;
}

export interface ToolOptions {
  readonly class?: 'read' | 'write';
  readonly idempotent?: boolean;
  readonly retry?: 'never' | 'safe';
  readonly timeoutMs?: number;
  readonly timeoutTotalMs?: number;
  readonly outputCharsMax?: number;
  readonly render?: Render;
  readonly description?: string;
}

type Unset = 'alias' | 'auth' | 'render' | 'descriptionPrefix' | 'include';

/** Everything said of one server, with each default filled in. */
export type CompleteOptions = Required<Omit<ServerOptions, Unset>> & Pick<ServerOptions, Unset>;

/** Reads a member by a name that anybody may have chosen, `constructor` included. */
export const ownMember = <T>(
  members: Readonly<Record<string, T>> | undefined,
  name: string,
): T | undefined => (isObject(members) && Object.hasOwn(members, name) ? members[name] : undefined);
