import type { AuthSection, CallgateSection, CompleteOptions, IssuerEntry } from './file.ts';

/**
 * Every default of the configuration, by the place it has in the file. A test holds them against
 * `config.schema.json` and `docs/configuration.md`.
 */
export const defaults = {
  listen: { host: '127.0.0.1', port: 8787, metrics: '127.0.0.1:9464' },
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
    drainMs: 25_000,
    bodyTimeoutMs: 30_000,
    bodyBytesMax: 1_048_576,
    turnBytesMax: 16_777_216,
    intentsMax: 64,
    readyAfterMs: 10_000,
  },
  server: {
    connection: 'shared',
    trustAnnotations: false,
    concurrencyMax: 16,
    queueMax: 64,
    connectTimeoutMs: 30_000,
    listTimeoutMs: 30_000,
    timeoutMs: 60_000,
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
  auth: AuthSection;
  issuer: Partial<IssuerEntry>;
  limits: CallgateSection['limits'];
  server: CompleteOptions;
};
