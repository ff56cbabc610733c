import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createHttp2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { checkTools } from '../../support/provider-rules/index.ts';
import type { Asked, Provider, Seen } from './provider.ts';
import { type Body, demand, Refusal, schemaCheck } from './schema.ts';

/** A key that the servers take. */
export const modelKey = 'model-key';
/** What the model says when it has seen all results. */
export const lastWords = 'All is done.';

/** A model on loopback that asks for some calls at once, and then says its last words. */
export interface ModelServer {
  readonly url: string;
  readonly requests: readonly Body[];
  /** What was refused, and why. */
  readonly refusals: readonly string[];
  /** The results that it was given. */
  readonly seen: readonly Seen[];
  /** Looks at a request with results as if it had come. @throws Refusal */
  check(body: Body): void;
  stop(): void;
}

/** Starts a model of this provider that asks for these calls. */
export async function startModelServer(
  provider: Provider,
  wanted: readonly Omit<Asked, 'id'>[],
): Promise<ModelServer> {
  const checkRequest = schemaCheck(provider.request);
  const calls = wanted.map((call, index) => ({ ...call, id: provider.id?.(index) ?? '' }));
  const answer = provider.ask(calls);
  const requests: Body[] = [];
  const refusals: string[] = [];
  const seen: Seen[] = [];

  const check = (body: Body): readonly Seen[] => {
    checkRequest(body);
    return provider.results(body, answer, calls);
  };
  const reactTo = (body: Body): Body => {
    checkRequest(body);
    const faults = checkTools(provider.format, provider.tools(body));
    demand(faults.length === 0, faults.join('\n'));
    requests.push(body);
    if (requests.length === 1) {
      const tools = JSON.stringify(provider.tools(body));
      for (const { name } of calls) demand(tools.includes(`"name":"${name}"`), `${name} is not declared`);
      return answer;
    }
    demand(requests.length === 2, 'the script is over');
    seen.push(...check(body));
    return provider.say(lastWords);
  };
  const react = async (request: IncomingMessage): Promise<readonly [status: number, body: Body]> => {
    try {
      demand(provider.path.test(request.url ?? ''), `there is no route ${request.url}`);
      const { authorization, 'x-api-key': key, 'x-goog-api-key': googleKey } = request.headers;
      demand(provider.key.test(String(authorization ?? key ?? googleKey ?? '')), 'the key is wrong');
      return [200, reactTo((await json(request)) as Body)];
    } catch (error) {
      refusals.push(error instanceof Refusal ? error.message : String(error));
      return [400, provider.refusal(refusals.at(-1) ?? '')];
    }
  };
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    void react(request).then(([status, body]) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    });
  };
  const server = provider.http2 === true ? createHttp2Server() : createServer();
  // The requests and answers of HTTP/2 are the same here, under types of their own.
  server.on('request', serve);
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    refusals,
    seen,
    check,
    stop: () => void server.close(),
  };
}
