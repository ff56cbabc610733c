// A stdio MCP server without the SDK whose tools stand in a JSON file, the only argument: a list of
// `{ definition, result?, waitsFor?, dies? }`. A tool answers with its result, else with the arguments that it got; with
// `waitsFor` not before that file is there; with `dies` never, for the process ends. Definitions are sent as they are.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';

const tools = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

function call({ id, params }, raw) {
  const tool = tools.find(({ definition }) => definition.name === params.name);
  if (process.env.EXECUTIONS_LOG) {
    const execution = {
      server: 'scripted',
      tool: params.name,
      arguments: params.arguments,
      pid: process.pid,
    };
    appendFileSync(process.env.EXECUTIONS_LOG, `${JSON.stringify({ ...execution, requestId: id, raw })}\n`);
  }
  if (tool.dies) process.exit(1);
  const result = tool.result ?? { content: [{ type: 'text', text: JSON.stringify(params.arguments) }] };
  const answer = () => {
    if (tool.waitsFor === undefined || existsSync(tool.waitsFor)) send({ id, result });
    else setTimeout(answer, 10);
  };
  answer();
}

const methods = {
  initialize: ({ id, params }) =>
    send({
      id,
      result: {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'scripted', version: '1.0.0' },
      },
    }),
  'tools/list': ({ id }) => send({ id, result: { tools: tools.map(({ definition }) => definition) } }),
  'tools/call': call,
  ping: ({ id }) => send({ id, result: {} }),
};

let rest = '';
process.stdin.setEncoding('utf8').on('data', (chunk) => {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop();
  for (const line of lines) {
    const message = JSON.parse(line);
    methods[message.method]?.(message, line);
  }
});
process.stdin.on('end', () => process.exit(0));
