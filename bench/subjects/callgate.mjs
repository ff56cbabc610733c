// The product as an operator runs it: `serve` with an identity provider, ledger, log and metrics on, every check on. A call
// carries a token, a grant is looked up, arguments are checked against the schema.
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
function nextCall(alias) {
  calls += 1;
  const callId = `call_${calls}`;
  const item = {
    type: 'function_call',
    call_id: callId,
    name: `${alias}__echo`,
    arguments: JSON.stringify({ text }),
  };
  const output = JSON.stringify({ ok: true, content: [{ type: 'text', text }] });
  return { body: JSON.stringify(item), expected: `"call_id":"${callId}","output":${JSON.stringify(output)}` };
}

/**
 * Starts callgate with one echo server for each alias of `classes`, its tool classed as told; `servers` says how to start
 * those that are others, `settings` what is particular about them. `load` calls the first of all, `loadOf` the one it is
 * given, `loadOver` several in turn; `loadTurns` posts turns in a format. The ledger is a new SQLite file, unless `ledger`
 * names another one.
 */
export async function startCallgate(
  folder,
  { tools, classes = { echo: 'read' }, servers = {}, settings = {}, ledger, env } = {},
) {
  const issuer = await startIssuer();
  const [port, metricsPort] = [await freePort(), await freePort()];
  const config = path.join(folder, `callgate-${port}.json`);
  const aliases = Object.keys(classes);
  const perAlias = (value) => Object.fromEntries(aliases.map((alias) => [alias, value(alias)]));
  await writeFile(
    config,
    JSON.stringify({
      mcpServers: perAlias((alias) => servers[alias] ?? echoServer({ tools })),
      callgate: {
        listen: { host: '127.0.0.1', port, metrics: `127.0.0.1:${metricsPort}` },
        ledger: { url: ledger ?? sqliteUrl(path.join(folder, `ledger-${port}.db`)) },
        auth: { issuers: [issuer.settings] },
        // 256 callers on one server: they must all fit, as they do in the other subjects, which have no such limit.
        defaults: { concurrencyMax: 256 },
        servers: perAlias((alias) => ({ ...settings[alias], tools: { echo: { class: classes[alias] } } })),
      },
    }),
  );
  const headers = {
    authorization: `Bearer ${await issuer.token(aliases.map((alias) => `tools:${alias}:*`).join(' '))}`,
    'content-type': 'application/json',
  };
  let turn = 0;
  const callsTo = (...called) => ({
    port,
    method: 'POST',
    path: '/v1/calls',
    headers,
    next: () => nextCall(called[turn++ % called.length]),
  });
  const post = async (alias) => {
    const { body, expected } = nextCall(alias);
    const response = await fetch(`http://127.0.0.1:${port}/v1/calls`, { method: 'POST', headers, body });
    return (await response.text()).includes(expected);
  };
  const program = await startProgram({
    folder,
    name: `callgate-${port}`,
    script,
    args: ['serve', '--config', config],
    env: { NODE_ENV: 'production', ...env },
    request: callsTo(aliases[0]),
  });
  return {
    name: 'callgate',
    ...program,
    port,
    headers,
    metrics: () => fetchText(metricsPort, '/metrics'),
    load: (shape) => loadHttp(callsTo(aliases[0]), shape),
    loadOf: (alias, shape) => loadHttp(callsTo(alias), shape),
    loadOver: (called, shape) => loadHttp(callsTo(...called), shape),
    /** Makes one call, and tells whether it was answered as it should be. */
    post,
    loadTurns: (format, next, shape) =>
      loadHttp({ port, method: 'POST', path: `/v1/turns?format=${format}`, headers, next }, shape),
    stop: async () => {
      await program.stop();
      issuer.stop();
    },
  };
}

export const sqliteUrl = (file) => `sqlite:${file}`;

/** The calls that callgate's metrics have counted. */
export function countedCalls(metrics) {
  const counts = metrics.matchAll(/^callgate_calls_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

async function fetchText(port, route) {
  const response = await fetch(`http://127.0.0.1:${port}${route}`);
  return response.text();
}
