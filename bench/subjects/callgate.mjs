// The product as an operator runs it: `serve` with an identity provider, log and metrics on, every check on. A call carries a
// token, a grant is looked up, arguments are checked against the schema.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { startIssuer } from '../issuer.mjs';
import { loadHttp } from '../load.mjs';
import { echoServer, freePort, startProgram } from '../processes.mjs';

const script = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const text = 'a short text that comes back';
let calls = 0;

/** A call that callgate has not seen: a known `call_id` would be answered from its record. */
function nextCall() {
  calls += 1;
  const callId = `call_${calls}`;
  const item = {
    type: 'function_call',
    call_id: callId,
    name: 'echo__echo',
    arguments: JSON.stringify({ text }),
  };
  const output = JSON.stringify({ ok: true, content: [{ type: 'text', text }] });
  return { body: JSON.stringify(item), expected: `"call_id":"${callId}","output":${JSON.stringify(output)}` };
}

export async function startCallgate(folder, { tools } = {}) {
  const issuer = await startIssuer();
  const [port, metricsPort] = [await freePort(), await freePort()];
  const config = path.join(folder, `callgate-${port}.json`);
  await writeFile(
    config,
    JSON.stringify({
      mcpServers: { echo: echoServer({ tools }) },
      callgate: {
        listen: { host: '127.0.0.1', port, metrics: `127.0.0.1:${metricsPort}` },
        auth: { issuers: [issuer.settings] },
        // 256 callers on one server: they must all fit, as they do in the other subjects, which have no such limit.
        defaults: { concurrencyMax: 256 },
      },
    }),
  );
  const headers = {
    authorization: `Bearer ${await issuer.token('tools:echo:*')}`,
    'content-type': 'application/json',
  };
  const request = { port, method: 'POST', path: '/v1/calls', headers, next: nextCall };
  const program = await startProgram({
    folder,
    name: `callgate-${port}`,
    script,
    args: ['serve', '--config', config],
    env: { NODE_ENV: 'production' },
    request,
  });
  return {
    name: 'callgate',
    ...program,
    port,
    headers,
    countedCalls: () => countedCalls(metricsPort),
    load: (shape) => loadHttp(request, shape),
    stop: async () => {
      await program.stop();
      issuer.stop();
    },
  };
}

/** The calls that callgate's metrics have counted. */
async function countedCalls(metricsPort) {
  const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`);
  const counts = (await response.text()).matchAll(/^callgate_calls_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}
