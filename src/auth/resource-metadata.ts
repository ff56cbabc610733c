import type { IssuerSettings } from './settings.ts';

/** Protected-resource metadata (RFC 9728 2), in wire spelling. */
export interface ResourceMetadata {
  readonly resource: string;
  readonly authorization_servers: readonly string[];
  readonly bearer_methods_supported: readonly ['header'];
  readonly scopes_supported?: readonly string[];
}

/**
 * The metadata of the resource with this identifier; undefined where no issuer makes tokens for it.
 * AUTH-21: the identifier is the audience that is enforced, so issuers with another audience are not named.
 */
export function resourceMetadata(
  resource: string,
  issuers: readonly IssuerSettings[],
): ResourceMetadata | undefined {
  const own = issuers.filter(({ audience }) => audience === resource);
  if (own.length === 0) return undefined;
  // The scopes an operator mapped are few and meant to be asked for; grants would tell which tools exist.
  const scopes = [...new Set(own.flatMap(({ scopeMap }) => Object.keys(scopeMap)))].sort();
  return {
    resource,
    authorization_servers: own.map(({ issuer }) => issuer),
    bearer_methods_supported: ['header'],
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
  };
}
