// The peer: mcp-hub, the npm gateway with a plain HTTP route for tool calls. It checks no token and no arguments.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { loadHttp } from '../load.mjs';
import { echoServer, freePort, startProgram } from '../processes.mjs';

const script = fileURLToPath(import.meta.resolve('mcp-hub'));
const text = 'a short text that comes back';

export async function startMcpHub(folder) {
  const port = await freePort();
  const config = path.join(folder, 'mcp-hub.json');
  await writeFile(config, JSON.stringify({ mcpServers: { echo: echoServer() } }));
  const message = {
    body: JSON.stringify({ server_name: 'echo', tool: 'echo', arguments: { text } }),
    expected: text,
  };
  const request = {
    port,
    method: 'POST',
    path: '/api/servers/tools',
    headers: { 'content-type': 'application/json' },
    next: () => message,
  };
  const program = await startProgram({
    folder,
    name: 'mcp-hub',
    script,
    args: ['--port', String(port), '--config', config],
    // Its own log and marketplace cache stay out of the home of whoever runs this.
    env: { HOME: folder, XDG_CONFIG_HOME: folder, XDG_STATE_HOME: folder, XDG_DATA_HOME: folder },
    request,
  });
  return { name: 'mcp-hub', ...program, load: (shape) => loadHttp(request, shape) };
}
