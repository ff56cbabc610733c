// An MCP server for tests: it lists its tools in pages and holds one tool for each way to behave.
// `node lab.mjs` speaks over stdio, `node lab.mjs --http` over Streamable HTTP on a free loopback port, which it prints.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const pageLength = 3;
const text = (value) => ({ type: 'text', text: value });
const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const waiting = [];
let inside = 0;

const tools = {
  echo: {
    inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    run: ({ text: value }) => ({ content: [text(value)] }),
  },
  where: {
    inputSchema: { type: 'object' },
    run: () => ({
      content: [
        text(
          JSON.stringify({
            pid: process.pid,
            cwd: process.cwd(),
            args: process.argv.slice(2),
            env: process.env,
          }),
        ),
      ],
    }),
  },
  // Answers once so many calls are waiting here at the same time.
  meet: {
    inputSchema: { type: 'object', properties: { party: { type: 'integer' } }, required: ['party'] },
    run: ({ party }) =>
      new Promise((resolve) => {
        waiting.push(resolve);
        if (waiting.length < party) return;
        for (const answer of waiting.splice(0)) answer({ content: [text(`met ${party}`)] });
      }),
  },
  // Says how many calls were in here at the same time.
  count: {
    inputSchema: { type: 'object' },
    async run() {
      inside += 1;
      const seen = inside;
      await new Promise((resolve) => setTimeout(resolve, 10));
      inside -= 1;
      return { content: [text(String(seen))] };
    },
  },
  fail: {
    inputSchema: { type: 'object' },
    run: () => ({ isError: true, content: [text('quota exceeded')] }),
  },
  throw: {
    inputSchema: { type: 'object' },
    run() {
      throw new Error('the disk is full');
    },
  },
  hang: { inputSchema: { type: 'object' }, run: () => new Promise(() => {}) },
  crash: { inputSchema: { type: 'object' }, run: () => process.exit(1) },
  long: {
    inputSchema: { type: 'object', properties: { chars: { type: 'integer' } }, required: ['chars'] },
    run: ({ chars }) => ({ content: [text('x'.repeat(chars))] }),
  },
  media: {
    inputSchema: { type: 'object' },
    run: () => ({
      content: [
        text('a picture and a sound'),
        { type: 'image', data: png, mimeType: 'image/png' },
        { type: 'audio', data: png, mimeType: 'audio/wav' },
        { type: 'resource_link', name: 'manual', uri: 'https://example.com/manual' },
        {
          type: 'resource',
          resource: { uri: 'file:///note.txt', mimeType: 'text/plain', text: 'an embedded note' },
        },
      ],
    }),
  },
  // A schema as careless servers send it: neither `type` nor `properties`.
  loose: { inputSchema: { required: ['a'] }, run: (input) => ({ content: [text(JSON.stringify(input))] }) },
};

function createLab(headers) {
  const server = new Server({ name: 'lab', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
    const start = Number(params?.cursor ?? 0);
    const names = Object.keys(tools).slice(start, start + pageLength);
    const end = start + names.length;
    return {
      tools: names.map((name) => ({
        name,
        description: `The lab's ${name}.`,
        inputSchema: tools[name].inputSchema,
      })),
      ...(end < Object.keys(tools).length ? { nextCursor: String(end) } : {}),
    };
  });
  server.setRequestHandler(CallToolRequestSchema, ({ params }, { requestId }) => {
    const execution = {
      server: 'lab',
      tool: params.name,
      arguments: params.arguments,
      requestId,
      pid: process.pid,
      headers,
    };
    if (process.env.EXECUTIONS_LOG)
      appendFileSync(process.env.EXECUTIONS_LOG, `${JSON.stringify(execution)}\n`);
    return tools[params.name].run(params.arguments ?? {});
  });
  return server;
}

if (process.argv.includes('--http')) {
  const serve = async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await createLab(request.headers).connect(transport);
    await transport.handleRequest(request, response);
  };
  const http = createServer((request, response) => void serve(request, response));
  http.listen(0, '127.0.0.1', () => process.stdout.write(`http://127.0.0.1:${http.address().port}/mcp\n`));
} else {
  await createLab().connect(new StdioServerTransport());
}
