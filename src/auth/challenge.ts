/** What a `WWW-Authenticate` header tells the caller. */
export interface Challenge {
  /** Where the protected-resource metadata is served (RFC 9728 5.1); undefined where the public URL is not known. */
  readonly metadataUrl: string | undefined;
  /** RFC 6750 3.1: absent when no credentials were sent. */
  readonly error?: 'invalid_request' | 'invalid_token' | 'insufficient_scope';
  /** The smallest scope that would do, with `insufficient_scope`. */
  readonly scope?: string;
}

/** The value of a `WWW-Authenticate` header (AUTH-20). */
export function challenge({ metadataUrl, error, scope }: Challenge): string {
  const parameters = Object.entries({ error, scope, resource_metadata: metadataUrl })
    .filter((entry): entry is [string, string] => entry[1] !== undefined)
    .map(([name, value]) => `${name}="${value.replace(/[\\"]/g, '\\$&')}"`);
  return ['Bearer', parameters.join(', ')].join(' ').trimEnd();
}
