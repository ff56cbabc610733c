import type { AuthSection, CallgateSection, CompleteOptions, IssuerEntry, LedgerSection } from './file.ts';

/**
 * Every default of the configuration, by the place it has in the file. A test holds them against
 * `config.schema.json` and `docs/configuration.md`.
 */
export const defaults = {
  listen: { host: '127.0.0.1', port: 8787, metrics: '127.0.0.1:9464' },
  ledger: {
    url: 'sqlite:.callgate/ledger.db',
    outputRetentionHours: 24,
    readOutputRetentionMinutes: 15,
    tombstoneRetentionDays: 7,
    bytesMax: 1_073_741_824,
    actorBytesMax: 268_435_456,
    actorRecordsMax: 1_000_000,
  },
  auth: { clockToleranceS: 30, hideForbidden: false, globalWildcards: false },
  issuer: {
    algorithms: ['RS256', 'ES256', 'PS256', 'EdDSA'],
    profile: 'rfc9068',
    // Field case O20: issuers use either name, and an absent claim costs nothing.
    scopeClaim: ['scope', 'scp'],
    scopeMap: {},
    jwksMaxAgeMs: 300_000,
    jwksCooldownMs: 30_000,
    jwksTimeoutMs: 5_000,
    jwksStaleMaxMs: 86_400_000,
    allowHttp: false,
    lifetimeMaxS: 86_400,
  },
  limits: {
    waitMaxMs: 55_000,
    drainMs: 25_000,
    bodyTimeoutMs: 30_000,
    bodyBytesMax: 1_048_576,
    turnBytesMax: 16_777_216,
    intentsMax: 64,
    readyAfterMs: 10_000,
  },
  server: {
    connection: 'shared',
    connectionsMax: 100,
    connectionIdleMs: 300_000,
    keepConnected: true,
    retry: 'safe',
    trustAnnotations: false,
    concurrencyMax: 16,
    queueMax: 64,
    connectTimeoutMs: 30_000,
    listTimeoutMs: 30_000,
    timeoutMs: 60_000,
    timeoutTotalMs: 600_000,
    backoffMinMs: 500,
    backoffMaxMs: 30_000,
    stopGraceMs: 5_000,
    resultBytesMax: 16_777_216,
    outputCharsMax: 100_000,
    exclude: [],
    tools: {},
    allowHttp: false,
  },
} as const satisfies {
  listen: CallgateSection['listen'];
  ledger: Required<LedgerSection>;
  auth: AuthSection;
  issuer: Partial<IssuerEntry>;
  limits: CallgateSection['limits'];
  server: CompleteOptions;
};
