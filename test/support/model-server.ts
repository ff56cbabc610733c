import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

type Item = Readonly<Record<string, unknown>>;

interface ModelRequest {
  readonly model: string;
  readonly input: readonly Item[];
  readonly tools: readonly Item[];
}

/** A model that follows a script. */
export interface ModelServer {
  /** As `OPENAI_BASE_URL` wants it. */
  readonly url: string;
  readonly requests: readonly ModelRequest[];
  stop(): void;
}

/** A call that the scripted model asks for. */
export const functionCall = (callId: string, name: string, input: unknown): Item => ({
  type: 'function_call',
  id: `fc_${callId}`,
  call_id: callId,
  name,
  arguments: JSON.stringify(input),
  status: 'completed',
});

/** A final text of the scripted model. */
export const message = (text: string): Item => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
});

/**
 * Speaks enough of `POST /v1/responses` to try a tool loop: each request gets the next list of output items. Like the
 * real API it refuses a conversation in which a call has no output, or more than one.
 */
export async function startModelServer(script: readonly (readonly Item[])[]): Promise<ModelServer> {
  const requests: ModelRequest[] = [];
  const answer = (body: ModelRequest): readonly [status: number, body: unknown] => {
    const unanswered = callWithoutOneOutput(body.input);
    if (unanswered !== undefined) {
      return [400, { error: { message: `No tool output found for function call ${unanswered}.` } }];
    }
    const output = script[requests.length];
    if (output === undefined) return [500, { error: { message: 'the script is over' } }];
    requests.push(body);
    const id = `resp_${requests.length}`;
    return [200, { id, object: 'response', status: 'completed', model: body.model, output }];
  };
  const server = createServer((request, response) => {
    const send = ([status, body]: readonly [number, unknown]): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (request.method !== 'POST' || request.url !== '/v1/responses')
      send([404, { error: { message: 'no route' } }]);
    else if (request.headers.authorization !== 'Bearer model-key')
      send([401, { error: { message: 'wrong key' } }]);
    else void json(request).then((body) => send(answer(body as ModelRequest)));
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    stop: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function callWithoutOneOutput(input: readonly Item[]): unknown {
  const answered = input.filter((item) => item.type === 'function_call_output').map((item) => item.call_id);
  return input
    .filter((item) => item.type === 'function_call')
    .map((item) => item.call_id)
    .find((callId) => answered.filter((id) => id === callId).length !== 1);
}
