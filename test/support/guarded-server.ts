import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import type { AuthorizationServer } from './authorization-server.ts';

/** An MCP server over HTTP that takes only tokens of one authorization server with its own URL as their audience. */
export class GuardedServer {
  readonly #authorization: AuthorizationServer;
  readonly #server = createServer((request, response) => void this.#handle(request, response));
  /** Every `Authorization` header that it was sent. */
  readonly shown: (string | undefined)[] = [];
  /** How often a `tools/call` came, taken or not. */
  calls = 0;
  /** All headers, paths and bodies, to look for what must not be there. */
  readonly heard: string[] = [];
  /** What its refusals say beside `Bearer`; by default where its metadata are. */
  challenge: string | undefined;
  /** Members of its metadata over the usual ones. */
  metadata: Readonly<Record<string, unknown>> = {};
  metadataPath = '/.well-known/oauth-protected-resource/mcp';
  /** The scope without which it refuses every token. */
  scope: string | undefined;
  /** Whether it takes no token at all. */
  takesNone = false;
  origin = '';

  private constructor(authorization: AuthorizationServer) {
    this.#authorization = authorization;
  }

  static async start(authorization: AuthorizationServer): Promise<GuardedServer> {
    const server = new GuardedServer(authorization);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    server.origin = `http://127.0.0.1:${(server.#server.address() as AddressInfo).port}`;
    return server;
  }

  get url(): string {
    return `${this.origin}/mcp`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    this.heard.push(JSON.stringify(request.headers), String(request.url), body);
    if (request.url === this.metadataPath) {
      const metadata = { resource: this.url, authorization_servers: [this.#authorization.origin] };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ ...metadata, ...this.metadata }));
      return;
    }
    if (request.url !== '/mcp') {
      response.writeHead(404).end();
      return;
    }
    const { authorization } = request.headers;
    this.shown.push(authorization);
    if (body.includes('"tools/call"')) this.calls += 1;
    const token = /^Bearer (.+)$/.exec(authorization ?? '')?.[1];
    const subject = this.takesNone ? undefined : this.#authorization.subjectOf(token, this.url);
    if (subject === undefined) {
      const said = this.challenge ?? `resource_metadata="${this.origin}${this.metadataPath}"`;
      response.writeHead(401, { 'www-authenticate': `Bearer ${said}` }).end();
      return;
    }
    if (this.scope !== undefined && !this.#authorization.hasScope(token, this.scope)) {
      const said = `error="insufficient_scope", scope="${this.scope}"`;
      response.writeHead(403, { 'www-authenticate': `Bearer ${said}` }).end();
      return;
    }
    if (request.method !== 'POST') {
      response.writeHead(405).end();
      return;
    }
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    await mcpFor(subject).connect(transport as Parameters<Server['connect']>[0]);
    await transport.handleRequest(request, response, JSON.parse(body));
  }
}

/** Has one tool, which says whose token came. */
function mcpFor(subject: string): Server {
  const server = new Server({ name: 'guarded', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: [{ name: 'whoami', inputSchema: { type: 'object', properties: {} } }],
  }));
  server.setRequestHandler(CallToolRequestSchema, () => ({ content: [{ type: 'text', text: subject }] }));
  return server;
}
