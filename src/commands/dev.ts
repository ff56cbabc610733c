import { randomBytes } from 'node:crypto';
import { openDevIssuer } from '../auth/dev-issuer.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import { LedgerRefused } from '../ledger/settings.ts';
import type { RunningService } from '../main.ts';
import type { Binding } from '../tools/registry.ts';
import { devFile, loadForCommand, readPort } from './configuration.ts';
import { type CommandOptions, exitConfiguration } from './options.ts';
import { readLevel, runService } from './run-service.ts';
import { devClient, devScopes, keyFolder } from './token.ts';

const tokenTtlS = 43_200;
const toolsToldMax = 40;
const standardError = 2;

/** `callgate dev`: runs on loopback with a local key pair, and says how to make a first call. */
export async function dev(options: CommandOptions): Promise<number> {
  const port = readPort(options.port);
  const file = options.config ?? devFile();
  const configuration = await loadForCommand(file, { dev: true, ledgerFolder: process.cwd() });
  if (configuration === undefined) return exitConfiguration;
  const issuer = await openDevIssuer({ folder: keyFolder() });
  const token = await issuer.mint({
    subject: 'dev',
    client: devClient,
    scopes: [...devScopes],
    ttlS: tokenTtlS,
  });
  const own = {
    ...configuration,
    listen: { ...configuration.listen, port: port ?? configuration.listen.port },
    auth: { ...configuration.auth, issuers: [...configuration.auth.issuers, issuer.settings] },
    // A second one beside the first must not fail over a port that nobody asked for.
    metrics:
      configuration.metrics && port !== undefined
        ? { ...configuration.metrics, port: 0 }
        : configuration.metrics,
  };
  const level = readLevel(options['log-level'], 'warn');
  const ended = runService(own, {
    level,
    // Whoever tries callgate out reads the terminal; a line for each call is there for the asking.
    isAudited: level === 'info' || level === 'debug',
    descriptor: standardError,
    onStarted: async (running) => {
      process.stdout.write(`callgate listens on ${running.url}\n`);
      await running.firstListings;
      process.stdout.write(greeting(running, file, token));
    },
  });
  return ended.catch((error: unknown) => {
    throw error instanceof LedgerRefused ? new LedgerRefused(`${error.message}\n${otherLedger}`) : error;
  });
}

const otherLedger =
  'A second `callgate dev` runs in another folder, or with a ledger of its own in a configuration file: "callgate": { "ledger": { "url": "sqlite:other.db" } }';

function greeting(running: RunningService, file: string, token: string): string {
  const { bindings } = running.service.dispatch.registry();
  // One that is idle has its tools in the list, and is started by the first call.
  const troubled = running.service
    .serverStatuses()
    .filter(({ state, stage }) => state !== 'ready' && stage !== 'idle');
  const first = bindings.find(({ target }) => target.class === 'read') ?? bindings[0];
  return [
    `configuration: ${file}`,
    '',
    'token (12 hours, every tool):',
    token,
    '',
    `declared tools (${bindings.length}):`,
    ...bindings.slice(0, toolsToldMax).map(({ name, target }) => `  ${name} (${target.class})`),
    ...(bindings.length > toolsToldMax ? [`  ... and ${bindings.length - toolsToldMax} more`] : []),
    ...troubled.map(
      ({ alias, state, lastError }) => `  ${alias}: ${state}, ${lastError ?? 'not connected yet'}`,
    ),
    '',
    ...(first === undefined ? [] : ['a first call:', curlLine(running.url, token, first)]),
    '',
  ].join('\n');
}

function curlLine(url: string, token: string, binding: Binding): string {
  const item = {
    type: 'function_call',
    // A fixed one would belong to the call of the last start, whose record may be there still.
    call_id: `call_${randomBytes(4).toString('hex')}`,
    name: binding.name,
    arguments: JSON.stringify(sampleArguments(binding.inputSchema)),
  };
  const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  return `curl -s ${url}/v1/calls -H ${quote(`Authorization: Bearer ${token}`)} -H 'Content-Type: application/json' -d ${quote(JSON.stringify(item))}`;
}

/** Something for each required argument, so that the call shows an answer and not a complaint. */
function sampleArguments(schema: JsonObject): JsonObject {
  const properties = (schema.properties ?? {}) as Record<string, JsonObject>;
  const required = Array.isArray(schema.required)
    ? schema.required.filter((name) => typeof name === 'string')
    : [];
  return Object.fromEntries(required.map((name) => [name, sampleValue(properties[name] ?? {})]));
}

function sampleValue(schema: JsonObject): JsonValue {
  if (schema.default !== undefined) return schema.default;
  for (const list of [schema.examples, schema.enum])
    if (Array.isArray(list) && list.length > 0) return list[0];
  switch (schema.type) {
    case 'number':
    case 'integer':
      return typeof schema.minimum === 'number' ? schema.minimum : 1;
    case 'boolean':
      return true;
    case 'array':
      return [];
    case 'object':
      return sampleArguments(schema);
    default:
      return 'hello';
  }
}
