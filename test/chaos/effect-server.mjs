// A stdio MCP server without the SDK for the chaos runs. It writes every effect down before it answers, one line per effect,
// appended in a single write, so that a kill leaves a whole line or none. The arguments say how it behaves:
// `beforeMs` and `afterMs` around the effect, and `mode`.
import { openSync, writeSync } from 'node:fs';

const { EFFECTS_LOG, ALIAS, GATE } = process.env;
const log = openSync(EFFECTS_LOG, 'a');
const write = (entry) => writeSync(log, `${JSON.stringify(entry)}\n`);
const raw = (text) => process.stdout.write(text);
const send = (message) => raw(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
const wait = (ms) => new Promise((resolve) => (ms > 0 ? setTimeout(resolve, ms) : resolve()));
let effects = 0;
let open = 0;
let hasEnded = false;

const inputSchema = {
  type: 'object',
  properties: {
    canary: { type: 'string' },
    beforeMs: { type: 'integer' },
    afterMs: { type: 'integer' },
    mode: { type: 'string' },
  },
  required: ['canary'],
  additionalProperties: false,
};
const tools = ['charge', 'upsert', 'look'].map((name) => ({ name, inputSchema }));

const textResult = (text, isError = false) => ({ content: [{ type: 'text', text }], isError });

async function call({ id, params }) {
  const { canary, beforeMs = 0, afterMs = 0, mode = 'answer' } = params.arguments;
  const progressToken = params._meta?.progressToken;
  await wait(beforeMs);
  if (mode === 'refuse') {
    send({ id, error: { code: -32602, message: 'not these arguments' } });
    return;
  }
  if (mode === 'die-before') process.exit(1);
  effects += 1;
  const text = `${canary} #${process.pid}.${effects}`;
  const call = params._meta?.['callgate/call'];
  write({ canary, id: call, text, process: GATE, pid: process.pid, atMs: Date.now() });
  if (mode === 'progress' && progressToken !== undefined) {
    send({ method: 'notifications/progress', params: { progressToken, progress: 1 } });
  }
  await wait(afterMs);
  switch (mode) {
    case 'die-after':
      process.exit(0);
      break;
    case 'die-half':
      raw(`{"jsonrpc":"2.0","id":${id},"resu`);
      process.exit(1);
      break;
    case 'silent':
      break;
    case 'garbage':
      send({ id, result: null });
      break;
    case 'fault':
      send({ id, error: { code: -32603, message: 'it broke' } });
      break;
    case 'tool-error':
      send({ id, result: textResult(text, true) });
      break;
    case 'twice':
      send({ id, result: textResult(text) });
      send({ id, result: textResult(`${text} again`) });
      break;
    default:
      send({ id, result: textResult(text) });
  }
}

const methods = {
  initialize: ({ id, params }) =>
    send({
      id,
      result: {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: 'effects', version: '1.0.0' },
      },
    }),
  'tools/list': ({ id }) => send({ id, result: { tools } }),
  'tools/call': (message) => {
    open += 1;
    void call(message).finally(() => {
      open -= 1;
      if (hasEnded && open === 0) process.exit(0);
    });
  },
  ping: ({ id }) => send({ id, result: {} }),
};

write({ alias: ALIAS, pid: process.pid, process: GATE });
// Whoever reads the answers may be gone; what was asked for is still done.
process.stdout.on('error', () => {});
let rest = '';
process.stdin.setEncoding('utf8').on('data', (chunk) => {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop();
  for (const line of lines) {
    const message = JSON.parse(line);
    methods[message.method]?.(message);
  }
});
process.stdin.on('end', () => {
  hasEnded = true;
  if (open === 0) process.exit(0);
});
