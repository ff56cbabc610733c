import { appendFileSync } from 'node:fs';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

/** Serves a table of tools, `{ name: { description, inputSchema, run } }`, as an MCP server over stdio. */
export async function serveTools(serverName, tools) {
  const server = new Server({ name: serverName, version: '1.0.0' }, { capabilities: { tools: {} } });

  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: Object.entries(tools).map(([name, { run, ...definition }]) => ({ name, ...definition })),
  }));

  server.setRequestHandler(CallToolRequestSchema, ({ params }, { requestId }) => {
    const tool = Object.hasOwn(tools, params.name) ? tools[params.name] : undefined;
    if (tool === undefined) throw new Error(`There is no tool "${params.name}".`);
    recordExecution({ server: serverName, tool: params.name, arguments: params.arguments, requestId });
    return tool.run(params.arguments ?? {});
  });

  await server.connect(new StdioServerTransport());
}

// The server's own count of what it ran, so that a test can tell what never got here.
function recordExecution(execution) {
  const file = process.env.EXECUTIONS_LOG;
  if (file) appendFileSync(file, `${JSON.stringify({ ...execution, pid: process.pid })}\n`);
}

/** A result of one text. */
export const say = (text) => ({ content: [{ type: 'text', text }] });

/** A result that tells the model that the tool did not do it, and why. */
export const refuse = (text) => ({ ...say(text), isError: true });

/** The schema of an object with these properties and no others. */
export const object = (properties, required) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});
