// The control: the SDK's client calls the echo server over stdio, with nothing between them. It runs in the benchmark's own
// process, which does nothing else in the meantime.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { loadFunction } from '../load.mjs';
import { echoServer } from '../processes.mjs';

const text = 'a short text that comes back';

export async function startDirect() {
  const client = new Client({ name: 'callgate-bench', version: '1.0.0' });
  await client.connect(new StdioClientTransport(echoServer()));
  const call = async () => {
    const { content } = await client.callTool({ name: 'echo', arguments: { text } });
    if (content[0].text !== text) throw new Error(`unexpected answer: ${JSON.stringify(content)}`);
  };
  return {
    name: 'direct',
    pid: process.pid,
    load: (shape) => loadFunction(call, shape),
    stop: () => client.close(),
  };
}
