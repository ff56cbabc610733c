/**
 * Where the requests of one connection get their credentials from. One source is shared by all connections that send
 * the same ones, so that many requests that need a new token ask for it once.
 */
export interface Credentials {
  /**
   * The headers that show who sends a request; at once where a token is at hand that is still good.
   * @throws CredentialsRefused
   */
  headers(): Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>;
  /**
   * The server answered 401 to a request that carried these headers: whether there are other ones now, with which it
   * may be sent once more. False where new ones would be of no use; none can be got where it throws.
   * @param challenge its `WWW-Authenticate` header
   * @throws CredentialsRefused
   */
  renew(refused: Readonly<Record<string, string>>, challenge: string | undefined): Promise<boolean>;
}

/** No credentials can be got; nothing was sent to the MCP server. The message is for anybody, models included. */
export class CredentialsRefused extends Error {
  /** More, for operators; may hold foreign text. */
  readonly detail: string | undefined;

  constructor(message: string, detail?: string) {
    super(message);
    this.detail = detail;
  }
}
