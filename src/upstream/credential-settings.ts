/** How callgate shows an authorization server that it is the client (RFC 6749 2.3, RFC 7523 2.2). */
export type ClientAuthentication =
  | { readonly method: 'client_secret_basic' | 'client_secret_post'; readonly secret: string }
  | {
      readonly method: 'private_key_jwt';
      /** PKCS #8, as PEM. */
      readonly privateKey: string;
      readonly algorithm: string;
      readonly keyId: string | undefined;
    };

/** Where the tokens for one server come from, and for whom they are. */
export interface CredentialSettings {
  /**
   * `client_credentials`: one token of callgate's own for everybody (RFC 6749 4.4). `token_exchange`: the caller's
   * token is exchanged for one with this server's audience (RFC 8693); the server's own connection, which lists its
   * tools, has one by client credentials.
   */
  readonly kind: 'client_credentials' | 'token_exchange';
  /** The authorization server; undefined where the operator left it to the server to name it (RFC 9728). */
  readonly issuer: string | undefined;
  /** The token endpoint; undefined where the metadata of the authorization server name it (RFC 8414). */
  readonly tokenUrl: string | undefined;
  readonly clientId: string;
  readonly authentication: ClientAuthentication;
  /** Asked for, separated by spaces. */
  readonly scope: string | undefined;
  /** `audience` of RFC 8693 and of several vendors. */
  readonly audience: string | undefined;
  /** `resource` of RFC 8707; the server's URL where nothing else is said. */
  readonly resource: string | undefined;
}
