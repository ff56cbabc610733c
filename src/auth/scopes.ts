import { formatGrant, type Grant, parseGrant, withinMax } from '../access/grants.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { IssuerSettings } from './settings.ts';

/** What the scopes of a token confer. */
export interface Rights {
  readonly grants: readonly Grant[];
  readonly adminScopes: ReadonlySet<string>;
  /** Texts that look like rights and confer nothing: malformed, too wide here, or beyond `grantsMax` (AZ-4). */
  readonly ignored: number;
}

type Claims = Readonly<Record<string, unknown>>;

const grantsPerTokenMax = 500;

/** Scopes that open callgate's own operations rather than tools; they count only where `grantsMax` names them. */
export const adminScopes: readonly string[] = ['callgate:approve', 'callgate:operate'];

/** Prepares the reading of one issuer's scopes: from the named claims alone, word by word (AUTH-19). */
export function createScopeReader(
  issuer: IssuerSettings,
  options: { readonly globalWildcards: boolean },
): (claims: Claims) => Result<Rights, string> {
  const scopeMap = new Map(Object.entries(issuer.scopeMap));
  // As a cap `tools:*:*` confers nothing, so it needs no permission to be written.
  const caps = issuer.grantsMax?.flatMap((text) => parseGrant(text, { globalWildcards: true }) ?? []);
  const adminScopesMax = adminScopes.filter((scope) => issuer.grantsMax?.includes(scope));

  return (claims) => {
    const words = new Set<string>();
    for (const claim of issuer.scopeClaims) {
      const found = scopeWords(findClaim(claims, claim));
      if (found === undefined)
        return fail(`the scope claim ${claim} is neither a string nor an array of strings`);
      for (const word of found) words.add(word);
    }

    const conferred = new Set<string>();
    for (const word of words) for (const text of scopeMap.get(word) ?? [word]) conferred.add(text);

    let asked = 0;
    let ignored = 0;
    const grants = new Map<string, Grant>();
    const admin = new Set<string>();
    for (const text of conferred) {
      if (adminScopesMax.includes(text)) {
        admin.add(text);
        continue;
      }
      const grant = parseGrant(text, options);
      if (grant === undefined) {
        if (/^(tools|callgate):/i.test(text)) ignored += 1;
        continue;
      }
      asked += 1;
      const capped = caps === undefined ? [grant] : withinMax(grant, caps);
      if (capped.length === 0) ignored += 1;
      for (const part of capped) grants.set(formatGrant(part), part);
    }
    if (asked > grantsPerTokenMax) return fail(`it carries more than ${grantsPerTokenMax} grants`);
    return ok({ grants: [...grants.values()], adminScopes: admin, ignored });
  };
}

/** A claim by its whole name, which may hold dots itself (`https://example.com/roles`), else by the path it spells. */
function findClaim(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  let value: unknown = claims;
  for (const step of name.split('.')) {
    // A path that ends in a plain value is a wrong shape, as `null` is; that value is not the claim that was named.
    if (typeof value !== 'object' || value === null) return null;
    if (!Object.hasOwn(value, step)) return undefined;
    value = (value as Claims)[step];
  }
  return value;
}

/** The words of a scope claim; undefined when its shape is wrong, so that no part of it counts (field case O20). */
function scopeWords(claim: unknown): readonly string[] | undefined {
  if (claim === undefined) return [];
  if (typeof claim === 'string') return claim.split(' ').filter((word) => word !== '');
  if (!Array.isArray(claim)) return undefined;
  return claim.every((word): word is string => typeof word === 'string') ? claim : undefined;
}
