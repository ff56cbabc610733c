// An MCP server over stdio in a few lines, without the SDK, so that a hundred of them start quickly and take little memory. Its
// tool `echo` gives back its text. Started with `dies` it ends at once, with `hangs` it never answers a call, with `slow` it
// takes its time for each.
const mood = process.argv[2];
const slowMs = 200;
if (mood === 'dies') process.exit(1);

const inputSchema = {
  type: 'object',
  properties: { text: { type: 'string', maxLength: 10_000 } },
  required: ['text'],
  additionalProperties: false,
};
const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: 'raw', version: '1.0.0' },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools: [{ name: 'echo', description: 'Gives back its text', inputSchema }] }),
  'tools/call': (params) => ({ content: [{ type: 'text', text: params.arguments.text }] }),
};

let rest = '';
process.stdin.setEncoding('utf8').on('data', (chunk) => {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop();
  let answers = '';
  for (const line of lines) {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) continue;
    const answer = `${JSON.stringify({ jsonrpc: '2.0', id, result: methods[method](params) })}\n`;
    if (method !== 'tools/call' || mood === undefined) answers += answer;
    else if (mood === 'slow') setTimeout(() => process.stdout.write(answer), slowMs);
  }
  if (answers !== '') process.stdout.write(answers);
});
