/** Where the keys of an issuer come from. */
export type KeySource =
  | {
      readonly kind: 'url';
      readonly jwksUri: string;
      readonly maxAgeMs: number;
      readonly cooldownMs: number;
      readonly timeoutMs: number;
      readonly staleMaxMs: number;
    }
  | { readonly kind: 'file'; readonly path: string }
  /** Keys that this process made itself (`callgate dev`). */
  | { readonly kind: 'inline'; readonly keys: readonly Readonly<Record<string, unknown>>[] };

/** One trusted issuer (AUTH-3: its keys, algorithms, audiences and profile are its own). */
export interface IssuerSettings {
  readonly issuer: string;
  readonly audience: string;
  readonly keys: KeySource;
  /** Asymmetric algorithms only (AUTH-2), see `signatureAlgorithms`. */
  readonly algorithms: readonly string[];
  readonly profile: 'rfc9068' | 'legacy';
  /** A claim, or a path of claims with dots (`realm_access.roles`), that holds scopes (AUTH-19). */
  readonly scopeClaims: readonly string[];
  /** Foreign scopes, each to the grants and admin scopes that it confers. */
  readonly scopeMap: Readonly<Record<string, readonly string[]>>;
  /** What this issuer may confer at most. Undefined: any `tools:` grant, no admin scope. */
  readonly grantsMax: readonly string[] | undefined;
  /** Longest `exp - iat`, in seconds. */
  readonly lifetimeMaxS: number;
}

/** Tokens that are refused although they verify. */
export interface DenyLists {
  readonly tokens: readonly { readonly issuer: string; readonly jti: string }[];
  /** Tokens of a subject whose `iat` lies before the moment, in seconds since 1970. */
  readonly subjects: readonly {
    readonly issuer: string;
    readonly subject: string;
    readonly issuedBeforeS: number;
  }[];
  readonly keys: readonly { readonly issuer: string; readonly kid: string }[];
}

export interface AuthSettings {
  /** Seconds, 0 to 60 (AUTH-5). */
  readonly clockToleranceS: number;
  /** Whether `tools:*:*` means anything (AZ-5). */
  readonly globalWildcards: boolean;
  readonly issuers: readonly IssuerSettings[];
  readonly deny?: DenyLists;
}
