// callgate as the client under test of the MCP conformance suite. The suite appends the URL of its mock server; this script
// puts callgate in front of it, calls every tool once over callgate's own HTTP API, and stops.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const cli = fileURLToPath(new URL('../dist/cli.js', import.meta.url));
const serverUrl = process.argv.at(-1);
const scenarioMs = 25_000;

const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');

/** The OAuth client that the suite made for the scenario, if it made one. */
function credentials() {
  if (context.client_id === undefined) return undefined;
  return {
    type: 'client_credentials',
    clientId: context.client_id,
    clientSecret: context.client_secret,
    privateKey: context.private_key_pem,
    algorithm: context.signing_algorithm,
  };
}

/** Starts `callgate dev` with the server of the scenario; resolves when it has printed its address and a token. */
async function startCallgate(folder) {
  const config = path.join(folder, 'callgate.json');
  const servers = { scenario: { auth: credentials() } };
  await writeFile(
    config,
    JSON.stringify({ mcpServers: { scenario: { url: serverUrl } }, callgate: { servers } }),
  );
  const child = spawn(process.execPath, [cli, 'dev', '--config', config, '--port', '0'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
    // The suite's own limit ends only the shell around this script.
    signal: AbortSignal.timeout(scenarioMs),
    killSignal: 'SIGKILL',
  });
  const exited = once(child, 'exit');
  let printed = '';
  for await (const chunk of child.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    printed += chunk;
    const [origin] = printed.match(/http:\/\/127\.0\.0\.1:\d+(?=\s)/) ?? [];
    const [token] = printed.match(/eyJ[\w-]+\.[\w-]+\.[\w-]+(?=\s)/) ?? [];
    if (origin === undefined || token === undefined) continue;
    child.stdout.resume();
    return { origin, headers: { authorization: `Bearer ${token}` }, child, exited };
  }
  throw new Error(`callgate ended without printing its address and a token. It printed: ${printed}`);
}

/** The declared tools, as soon as the server has been asked for them. */
async function declaredTools({ origin, headers }) {
  for (;;) {
    const response = await fetch(`${origin}/v1/declarations?format=mcp`, { headers });
    if (!response.ok) throw new Error(`GET /v1/declarations: ${response.status} ${await response.text()}`);
    const { tools, pending } = await response.json();
    if (pending.length === 0) return tools;
    await sleep(100);
  }
}

/** A plain value that the schema accepts, for the simple schemas of the scenarios. */
function exampleOf(schema) {
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum !== undefined) return schema.enum[0];
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, part]) => [name, exampleOf(part)]),
      );
    case 'array':
      return [];
    case 'integer':
    case 'number':
      return schema.minimum ?? 1;
    case 'boolean':
      return true;
    case 'null':
      return null;
    default:
      return 'text';
  }
}

/** callgate refuses a null that the schema does not allow; what it stands for in the scenarios is no argument. */
const withoutNull = (args) => Object.fromEntries(Object.entries(args).filter(([, value]) => value !== null));

/** The calls that the scenario wants, else one of each tool; a tool of the scenario is declared with its alias before it. */
function callsOf(tools) {
  const named = (name) => tools.find((tool) => tool.name.endsWith(`__${name}`));
  const focal = named('json_schema_2020_12_tool');
  if (focal !== undefined) return [{ tool: named('json_schema_echo'), args: { schema: focal.inputSchema } }];
  if (context.toolCalls !== undefined)
    return context.toolCalls.map(({ name, arguments: args }) => ({
      tool: named(name),
      args: withoutNull(args),
    }));
  return tools.map((tool) => ({ tool, args: exampleOf(tool.inputSchema) }));
}

async function call({ origin, headers }, { tool, args }, index) {
  const intent = {
    type: 'function_call',
    call_id: `call_${index}`,
    name: tool.name,
    arguments: JSON.stringify(args),
  };
  const response = await fetch(`${origin}/v1/calls`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(intent),
  });
  const body = await response.text();
  const status = response.headers.get('callgate-status');
  // Nobody gives the input that a tool asks for (MT-17); the scenario judges the rest.
  const asksForInput =
    status === 'failed' && JSON.parse(JSON.parse(body).output).error.code === 'input_required';
  if (status !== 'succeeded' && !asksForInput)
    throw new Error(`${tool.name}: HTTP ${response.status}, ${status}: ${body}`);
}

const folder = await mkdtemp(path.join(tmpdir(), 'callgate-conformance-'));
const callgate = await startCallgate(folder);
try {
  const tools = await declaredTools(callgate);
  for (const [index, wanted] of callsOf(tools).entries()) await call(callgate, wanted, index);
} finally {
  callgate.child.kill('SIGTERM');
  await callgate.exited;
  await rm(folder, { recursive: true, force: true });
}
