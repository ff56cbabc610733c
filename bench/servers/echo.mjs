// The MCP server that all subjects call: stdio, the official SDK, one tool that gives back its text. Another
// one, `big`, whose result is as long as it is asked to be, is not listed.
// TOOLS=n declares n more tools of a usual size, which are only ever listed.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const echo = {
  name: 'echo',
  description: 'Gives back its text',
  inputSchema: {
    type: 'object',
    properties: { text: { type: 'string', maxLength: 10_000 } },
    required: ['text'],
    additionalProperties: false,
  },
};

const extra = (number) => ({
  name: `lookup_${number}`,
  description: `Looks up the entries of collection ${number} that match a filter, newest first, one page at a time.`,
  inputSchema: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'Words to look for' },
      state: { type: 'string', enum: ['open', 'closed', 'all'], description: 'Which entries' },
      limit: { type: 'integer', minimum: 1, maximum: 100, description: 'Entries on a page' },
      labels: { type: 'array', items: { type: 'string' }, description: 'Labels that an entry must have' },
    },
    required: ['query'],
  },
});

const tools = [echo, ...Array.from({ length: Number(process.env.TOOLS ?? 0) }, (_, number) => extra(number))];
const server = new Server({ name: 'echo', version: '1.0.0' }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, () => ({ tools }));
server.setRequestHandler(CallToolRequestSchema, ({ params }) => ({
  content: [{ type: 'text', text: textOf(params) }],
}));

/** Words, quotes and line ends, as a result has them. */
const pattern = 'Some words with "quotes", one after another, and the end of a line.\n';
const textOf = ({ name, arguments: args }) =>
  name === 'big' ? pattern.repeat(Math.ceil(args.chars / pattern.length)).slice(0, args.chars) : args.text;

await server.connect(new StdioServerTransport());
