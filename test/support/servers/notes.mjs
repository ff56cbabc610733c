// A stdio MCP server without the SDK that keeps state: `note` adds a text to its notes and answers all of them. It
// writes its start into the file of the first argument; with `forgetful` as second one it lists a tool that it does not
// know the first time, with `mute` it answers nothing but says so on stderr. A call with `exit` ends it.
import { appendFileSync } from 'node:fs';

const notes = [];
let lists = 0;
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
if (process.argv[2]) appendFileSync(process.argv[2], `start ${process.pid}\n`);

const methods = {
  initialize: ({ id, params }) =>
    send({
      id,
      result: {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'notes', version: '1.0.0' },
      },
    }),
  'tools/list': ({ id }) => {
    const name = process.argv[3] === 'forgetful' && lists++ === 0 ? 'old' : 'note';
    send({ id, result: { tools: [{ name, inputSchema: { type: 'object' } }] } });
  },
  'tools/call': ({ id, params }) => {
    if (params.arguments.silent) return;
    if (params.arguments.exit) process.exit(params.arguments.exit);
    if (params.name !== 'note') {
      send({ id, error: { code: -32602, message: `Unknown tool: ${params.name}` } });
      return;
    }
    notes.push(params.arguments.text);
    send({ id, result: { content: [{ type: 'text', text: JSON.stringify({ pid: process.pid, notes }) }] } });
  },
  ping: ({ id }) => send({ id, result: {} }),
};

if (process.argv[3] === 'mute') {
  methods.initialize = () => console.error('waiting for a key');
}

let rest = '';
process.stdin.setEncoding('utf8').on('data', (chunk) => {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop();
  for (const line of lines) {
    const message = JSON.parse(line);
    methods[message.method]?.(message);
  }
});
process.stdin.on('end', () => process.exit(0));
