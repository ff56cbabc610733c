// A stdio MCP server without the SDK whose manners are chosen from outside, while it runs:
//
//   node tormented-server.mjs <control socket> <alias>
//
// It tells the socket who it is, serves once it is told in which mood to start, and takes orders from then on, each one
// line of JSON, `{ "do": name, ... }`.
import { connect } from 'node:net';

const [path, alias] = process.argv.slice(2);

const message = (value) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...value })}\n`);
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

/** Writes as fast as somebody reads, for so long. */
async function pour(stream, bytes, ms) {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs) {
    if (!stream.write(bytes)) await new Promise((resolve) => stream.once('drain', resolve));
    await nextTurn();
  }
}

/** Takes the place of the answer to the next call. */
let onCall;
let mood = 'well';

const junk = Buffer.concat([
  Buffer.from('starting up ...\n\n{"jsonrpc":"2.0","id":\n\u001b[31mred\u001b[0m {"level":"info"}\n[1,2\n'),
  Buffer.from([0xff, 0xfe, 0x00, 0x0a, 0xc3, 0x0a]),
  Buffer.from('{"jsonrpc":"2.0","id":"nobody","result":{}}\n{"jsonrpc":"2.0","id":null,"error":{}}\n'),
]);
const notice = `${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' })}\n`;

/** name: (order) => void */
const orders = {
  junk: () => process.stdout.write(junk),
  flood_stdout: ({ ms }) => pour(process.stdout, 'nobody asked for this\n'.repeat(2_000), ms),
  flood_stderr: ({ ms }) => pour(process.stderr, 'this is how I feel\n'.repeat(2_000), ms),
  flood_notices: ({ ms }) => pour(process.stdout, notice.repeat(500), ms),
  endless_line: ({ ms }) =>
    pour(process.stdout, 'x'.repeat(65_536), ms).then(() => process.stdout.write('\n')),
  oversize: ({ bytes }) => {
    onCall = (id) => message({ id, result: text('x'.repeat(bytes)) });
  },
  halves: ({ ms }) => {
    onCall = (id, value) => {
      const line = `${JSON.stringify({ jsonrpc: '2.0', id, result: text(value) })}\n`;
      process.stdout.write(line.slice(0, 30));
      setTimeout(() => process.stdout.write(line.slice(30)), ms);
    };
  },
  half_and_die: () => {
    onCall = (id) => process.stdout.write(`{"jsonrpc":"2.0","id":${id},"resu`, () => process.exit(1));
  },
  malformed: () => {
    onCall = (id) => message({ id, result: null });
  },
  /** Neither reads nor answers. */
  hang: ({ ms }) => {
    process.stdin.pause();
    setTimeout(() => process.stdin.resume(), ms);
  },
};

/** method: (id, params) => void */
const methods = {
  initialize: (id, { protocolVersion }) => {
    const result = {
      protocolVersion,
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: alias, version: '1' },
    };
    if (mood === 'mute') return;
    if (mood === 'garbage') process.stdout.write(junk);
    message({ id, result });
  },
  'tools/list': (id) => {
    const inputSchema = { type: 'object', properties: { text: { type: 'string' } } };
    message({ id, result: { tools: [{ name: 'echo', inputSchema }] } });
    if (mood === 'exit_after_list') process.stdout.write('', () => process.exit(0));
  },
  'tools/call': (id, params) => {
    const answer = onCall ?? (() => message({ id, result: text(params.arguments.text) }));
    onCall = undefined;
    answer(id, params.arguments.text);
  },
};

function serve() {
  readLines(process.stdin, ({ id, method, params }) => {
    if (id === undefined) return;
    const answer = methods[method];
    if (answer === undefined) message({ id, error: { code: -32601, message: `no method ${method}` } });
    else answer(id, params);
  });
  process.stdin.on('end', () => process.exit(0));
}

function readLines(stream, take) {
  let rest = '';
  stream.setEncoding('utf8').on('data', (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
  });
}

// What the other end has closed is nobody's concern here: the end of stdin says when to leave.
process.stdout.on('error', () => process.exit(0));
process.stderr.on('error', () => {});

const control = connect(path, () => control.write(`${JSON.stringify({ alias, pid: process.pid })}\n`));
control.on('error', () => {});
readLines(control, (order) => {
  if (order.do !== 'start') {
    orders[order.do](order);
    return;
  }
  mood = order.mood;
  if (mood === 'exit') process.exit(3);
  serve();
});
