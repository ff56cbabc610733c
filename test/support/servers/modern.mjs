// An MCP server of protocol 2026-07-28, made with the SDK 2.x, with one tool for each way to behave.
// `node modern.mjs` speaks over stdio; with `--http [port]` over HTTP on a loopback port, whose URL it prints; with
// `--dual` it speaks the earlier versions too.
import { createServer } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { createMcpHandler, fromJsonSchema, inputRequired, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const isDual = process.argv.includes('--dual');
const atHttp = process.argv.indexOf('--http');
const ask = {
  method: 'elicitation/create',
  params: { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } },
};

const hanging = new Set();
let cancelled = 0;
let hasMore = false;

const tools = {
  echo: {
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    run: ({ text: value }) => text(value),
  },
  list: {
    outputSchema: { type: 'array', items: { type: 'integer' } },
    run: () => ({ ...text('[1,2,3]'), structuredContent: [1, 2, 3] }),
  },
  meta: { run: (_, context) => text(JSON.stringify(context.mcpReq._meta)) },
  fail: { run: () => ({ isError: true, ...text('quota exceeded') }) },
  slow: {
    inputSchema: { type: 'object', properties: { steps: { type: 'integer' }, ms: { type: 'integer' } } },
    async run({ steps, ms }, { mcpReq }) {
      const { progressToken } = mcpReq._meta;
      for (let progress = 1; progress <= steps; progress++) {
        await new Promise((resolve) => setTimeout(resolve, ms));
        const params = { progressToken, progress, total: steps, message: `step ${progress}` };
        await mcpReq.notify({ method: 'notifications/progress', params });
      }
      return text('slow but sure');
    },
  },
  // Answers over stdio although it was cancelled, as servers do that are made without the SDK.
  deaf: {
    run: (_, { mcpReq }) =>
      new Promise(() => {
        mcpReq.signal.addEventListener('abort', () => {
          const answer = { jsonrpc: '2.0', id: mcpReq.id, result: text('deaf') };
          process.stdout.write(`${JSON.stringify(answer)}\n`);
        });
      }),
  },
  hang: {
    run: (_, { mcpReq }) =>
      new Promise(() => {
        hanging.add(mcpReq.id);
        mcpReq.signal.addEventListener('abort', () => {
          hanging.delete(mcpReq.id);
          cancelled += 1;
        });
      }),
  },
  hanging: { run: () => text(JSON.stringify({ hanging: hanging.size, cancelled })) },
  ask: { run: () => inputRequired({ inputRequests: { sure: ask } }) },
  wait: { run: () => inputRequired({ requestState: 'later' }) },
  crash: { run: () => process.exit(3) },
  large: { run: () => text('x'.repeat(2_000_000)) },
  mirrored: {
    inputSchema: {
      type: 'object',
      properties: {
        region: { type: 'string', 'x-mcp-header': 'Region' },
        place: { type: 'object', properties: { zip: { type: 'integer', 'x-mcp-header': 'Zip' } } },
      },
    },
    run(_, { http }) {
      const names = ['mcp-method', 'mcp-name', 'mcp-param-region', 'mcp-param-zip', 'mcp-session-id'];
      return text(
        JSON.stringify(Object.fromEntries(names.map((name) => [name, http?.req.headers.get(name)]))),
      );
    },
  },
  faulty_mirror: {
    inputSchema: { type: 'object', properties: { n: { type: 'array', 'x-mcp-header': 'N' } } },
    run: () => text('never'),
  },
  // One more tool is offered from now on; each call of this one tells everybody so.
  grow: {
    async run(_, __, server) {
      if (handler === undefined && !hasMore) offer(server, 'more', more);
      hasMore = true;
      if (handler === undefined) await server.server.sendToolListChanged();
      else handler.notify.toolsChanged();
      return text('grown');
    },
  },
};
const more = { run: () => text('more') };

function offer(server, name, { inputSchema, outputSchema, run }) {
  const definition = {
    description: `The ${name} tool.`,
    inputSchema: fromJsonSchema(inputSchema ?? { type: 'object' }),
    ...(outputSchema === undefined ? {} : { outputSchema: fromJsonSchema(outputSchema) }),
  };
  server.registerTool(name, definition, (args, context) => run(args, context, server));
}

function factory() {
  const capabilities = { tools: { listChanged: true } };
  const server = new McpServer({ name: 'modern', version: '1.0.0' }, { capabilities });
  for (const [name, tool] of Object.entries(hasMore ? { ...tools, more } : tools)) offer(server, name, tool);
  return server;
}

const eras = isDual ? {} : { legacy: 'reject' };
const handler = atHttp === -1 ? undefined : createMcpHandler(factory, eras);
if (handler === undefined) serveStdio(factory, eras);
else {
  const listener = getRequestListener(handler.fetch);
  const server = createServer((request, response) => void listener(request, response));
  server.listen(Number(process.argv[atHttp + 1] ?? 0), '127.0.0.1', () => {
    console.log(`http://127.0.0.1:${server.address().port}/mcp`);
  });
}
