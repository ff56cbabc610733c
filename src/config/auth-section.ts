import { access, constants } from 'node:fs/promises';
import { resolve } from 'node:path';
import { parseGrant } from '../access/grants.ts';
import { adminScopes } from '../auth/scopes.ts';
import type { AuthSettings, DenyLists, IssuerSettings, KeySource } from '../auth/settings.ts';
import { isLoopbackHost } from '../core/hosts.ts';
import { checkUrl } from './addresses.ts';
import { defaults } from './defaults.ts';
import type { AuthSection, IssuerEntry } from './file.ts';
import { nearest } from './nearest.ts';
import type { Path } from './source.ts';

interface Context {
  readonly folder: string;
  /** `callgate dev` adds an issuer of its own and lets `tools:*:*` count. */
  readonly dev: boolean;
  /** Whether a configuration without an issuer is of no use. */
  readonly needsIssuer: boolean;
  /** Whether what stands at a path fits the schema; `path` starts at `callgate.auth`, as it does for `report`. */
  readonly isSound: (path: Path) => boolean;
  readonly report: (path: Path, message: string) => void;
}

/** Turns `callgate.auth` into settings, and reports each combination that is not safe (MT-18). */
export async function readAuth(section: AuthSection, context: Context): Promise<AuthSettings> {
  const entries = Array.isArray(section.issuers) ? (section.issuers as readonly IssuerEntry[]) : [];
  if (entries.length === 0 && context.isSound(['issuers']) && context.needsIssuer) {
    context.report(
      ['issuers'],
      'no issuer of tokens is configured, so nobody could call anything: add one to callgate.auth.issuers (issuer, audience, and jwksUri or jwksFile), or try callgate out with `callgate dev`, which makes one of its own',
    );
  }
  const globalWildcards = context.dev || (section.globalWildcards ?? defaults.auth.globalWildcards);
  const issuers: IssuerSettings[] = [];
  const names = new Set<string>();
  for (const [index, entry] of entries.entries()) {
    if (!context.isSound(['issuers', index])) continue;
    const report = (key: string, message: string) => context.report(['issuers', index, key], message);
    if (names.has(entry.issuer)) report('issuer', 'this issuer is configured twice: keep one entry for it');
    names.add(entry.issuer);
    checkNames(entry, report);
    checkGrants(entry, globalWildcards, (path, message) =>
      context.report(['issuers', index, ...path], message),
    );
    const keys = await readKeySource(entry, context.folder, report);
    if (keys !== undefined) issuers.push(createIssuer(entry, keys));
  }
  return {
    clockToleranceS: section.clockToleranceS ?? defaults.auth.clockToleranceS,
    globalWildcards,
    issuers,
    deny: readDenyLists(section, context, names),
  };
}

type Report = (key: string, message: string) => void;

function checkNames({ issuer, audience, allowHttp }: IssuerEntry, report: Report): void {
  if (/^http:/i.test(issuer) && allowHttp !== true) {
    report(
      'issuer',
      'an issuer with a plain http URL can be imitated on the network: use https, or set "allowHttp": true for it',
    );
  }
  if (audience.includes('*')) {
    report(
      'audience',
      'a wildcard audience would take tokens that were made for other services: name the audience of this one',
    );
  }
}

/** A right that is no right would be missed by the callers only, long after the start. */
function checkGrants(entry: IssuerEntry, globalWildcards: boolean, report: Context['report']): void {
  const isRight = (text: string, wildcards: boolean): boolean =>
    adminScopes.includes(text) || parseGrant(text, { globalWildcards: wildcards }) !== undefined;
  const grammar = `is neither a grant (\`tools:<alias>:<tool, start* or *>\`, with \`:read\` or \`:write\` where wanted) nor one of ${adminScopes.join(', ')}`;
  for (const [index, text] of (entry.grantsMax ?? []).entries()) {
    if (!isRight(text, true)) report(['grantsMax', index], `"${text}" ${grammar}`);
  }
  for (const [scope, texts] of Object.entries(entry.scopeMap ?? {})) {
    for (const [index, text] of texts.entries()) {
      if (isRight(text, globalWildcards)) continue;
      const reason = isRight(text, true) ? 'means nothing without "globalWildcards": true' : grammar;
      report(['scopeMap', scope, index], `"${text}" ${reason}`);
    }
  }
}

function readDenyLists(
  { deny = {} }: AuthSection,
  context: Context,
  issuers: ReadonlySet<string>,
): DenyLists {
  if (!context.isSound(['deny']) || !context.isSound(['issuers'])) return noDenyLists;
  for (const list of ['tokens', 'subjects', 'keys'] as const) {
    for (const [index, { issuer }] of (deny[list] ?? []).entries()) {
      // A denial with a mistyped issuer would protect from nothing. The issuer of `callgate dev` is not in the file.
      if (context.dev || issuers.has(issuer)) continue;
      const near = nearest(issuer, issuers);
      const hint = near === undefined ? '' : `; did you mean "${near}"?`;
      context.report(
        ['deny', list, index, 'issuer'],
        `"${issuer}" is not among callgate.auth.issuers${hint}`,
      );
    }
  }
  return { ...noDenyLists, ...deny };
}

const noDenyLists: DenyLists = { tokens: [], subjects: [], keys: [] };

async function readKeySource(
  entry: IssuerEntry,
  folder: string,
  report: Report,
): Promise<KeySource | undefined> {
  const { jwksUri, jwksFile } = entry;
  if ((jwksUri === undefined) === (jwksFile === undefined)) {
    report(
      'jwksUri',
      'an issuer needs "jwksUri" (where its public keys are) or "jwksFile" (a file with them), and only one of the two',
    );
    return undefined;
  }
  if (jwksFile !== undefined) {
    const path = resolve(folder, jwksFile);
    const isReadable = await access(path, constants.R_OK).then(
      () => true,
      () => false,
    );
    if (!isReadable) report('jwksFile', `there is no file ${path} that callgate may read`);
    return { kind: 'file', path };
  }
  const complaint = complaintAboutKeysUrl(jwksUri ?? '', entry.allowHttp === true);
  if (complaint !== undefined) report('jwksUri', `"jwksUri" ${complaint}`);
  return {
    kind: 'url',
    jwksUri: jwksUri ?? '',
    maxAgeMs: entry.jwksMaxAgeMs ?? defaults.issuer.jwksMaxAgeMs,
    cooldownMs: entry.jwksCooldownMs ?? defaults.issuer.jwksCooldownMs,
    timeoutMs: entry.jwksTimeoutMs ?? defaults.issuer.jwksTimeoutMs,
    staleMaxMs: entry.jwksStaleMaxMs ?? defaults.issuer.jwksStaleMaxMs,
  };
}

/** AUTH-11: whoever can change the keys on the way is the issuer. */
function complaintAboutKeysUrl(text: string, allowHttp: boolean): string | undefined {
  const checked = checkUrl(text);
  if (!checked.ok) return checked.error;
  const { protocol, hostname, username, password } = checked.value;
  if (username !== '' || password !== '')
    return 'has a user part, which key sets are not fetched with: take it out';
  if (protocol === 'https:') return undefined;
  if (!isLoopbackHost(hostname))
    return `must be https: over plain http anybody on the way to ${hostname} could replace the keys`;
  return allowHttp
    ? undefined
    : 'must be https; plain http on this machine needs "allowHttp": true for this issuer';
}

function createIssuer(entry: IssuerEntry, keys: KeySource): IssuerSettings {
  const scopeClaim = entry.scopeClaim ?? defaults.issuer.scopeClaim;
  return {
    issuer: entry.issuer,
    audience: entry.audience,
    keys,
    algorithms: entry.algorithms ?? defaults.issuer.algorithms,
    profile: entry.profile ?? defaults.issuer.profile,
    scopeClaims: typeof scopeClaim === 'string' ? [scopeClaim] : scopeClaim,
    scopeMap: entry.scopeMap ?? defaults.issuer.scopeMap,
    grantsMax: entry.grantsMax,
    lifetimeMaxS: entry.lifetimeMaxS ?? defaults.issuer.lifetimeMaxS,
  };
}
