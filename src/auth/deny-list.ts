import type { DenyLists } from './settings.ts';

/** What a deny list looks at in a verified token. */
export interface DeniableToken {
  readonly issuer: string;
  readonly subject: string;
  readonly jti: string | undefined;
  /** Of the key that verified the token. */
  readonly kid: string | undefined;
  readonly issuedAtS: number;
}

/** Prepares deny lists; the function gives the reason why a token is denied, if it is. */
export function createDenyList(lists: DenyLists | undefined): (token: DeniableToken) => string | undefined {
  const tokens = new Set(lists?.tokens.map(({ issuer, jti }) => pair(issuer, jti)));
  const keys = new Set(lists?.keys.map(({ issuer, kid }) => pair(issuer, kid)));
  const subjects = new Map<string, number>();
  for (const { issuer, subject, issuedBeforeS } of lists?.subjects ?? []) {
    const key = pair(issuer, subject);
    subjects.set(key, Math.max(issuedBeforeS, subjects.get(key) ?? 0));
  }
  return ({ issuer, subject, jti, kid, issuedAtS }) => {
    if (jti !== undefined && tokens.has(pair(issuer, jti))) return 'its `jti` is denied';
    if (kid !== undefined && keys.has(pair(issuer, kid))) return 'its key is denied';
    if (issuedAtS < (subjects.get(pair(issuer, subject)) ?? 0))
      return 'tokens of its subject that old are denied';
    return undefined;
  };
}

const pair = (issuer: string, id: string): string => JSON.stringify([issuer, id]);
