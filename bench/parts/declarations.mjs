// What it costs to make the declarations of 1,000 tools in each format, and whether others get their turn meanwhile. A
// request cannot show this apart from everything else, so the modules are called directly.
import { setTimeout as sleep } from 'node:timers/promises';
import { createActor } from '../../dist/access/actor.js';
import { parseGrant } from '../../dist/access/grants.js';
import { Declarations } from '../../dist/dispatch/declarations.js';
import { formats } from '../../dist/formats/formats.js';
import { inSlices } from '../../dist/in-slices.js';
import { bindServer } from '../../dist/tools/bind-server.js';
import { buildRegistry } from '../../dist/tools/registry.js';
import { atMost, number, range, table } from '../report.mjs';
import { spread } from '../statistics.mjs';

const many = 1_000;
const cachedTimes = 10_000;
const noOptions = { strict: 'off', namespaces: false, defer: false };

export async function measureDeclarations(_folder, { rounds }) {
  let registry = await list(0);
  const declarations = new Declarations({
    registry: () => registry,
    upstream: { hasListed: () => true },
    aliases: ['lab'],
    inSlices,
  });
  const actor = createActor({
    issuer: 'https://idp.test/',
    kind: 'client',
    subject: 'bench',
    client: 'bench',
    grants: [parseGrant('tools:lab:*', { globalWildcards: false })],
    adminScopes: new Set(),
  });
  const body = (format) =>
    declarations.body(actor, { format, options: noOptions, filter: { servers: [], tools: [] } });

  const results = new Map([...formats.keys()].map((name) => [name, { cpuMs: [], turnMs: [], cachedUs: [] }]));
  let bytes = 0;
  // The first round compiles the code, as the first change of a list does in a process that has just started.
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, format] of formats) {
      registry = await list(round);
      const watch = watchLoop();
      const beforeUs = usedUs();
      const made = await body(format);
      const madeUs = usedUs() - beforeUs;
      const turnMs = await watch.stop();
      const cachedBeforeUs = usedUs();
      for (let time = 0; time < cachedTimes; time += 1) {
        if (body(format) !== made) throw new Error(`the declarations for ${name} were made again`);
      }
      const cachedUs = (usedUs() - cachedBeforeUs) / cachedTimes;
      bytes = Math.max(bytes, made.bytes.byteLength);
      const isWhole = JSON.parse(Buffer.from(made.bytes).toString()).omitted.length === 0;
      if (!isWhole) throw new Error(`tools are missing from the declarations for ${name}`);
      if (round === 0) continue;
      const result = results.get(name);
      result.cpuMs.push(madeUs / 1_000);
      result.turnMs.push(turnMs);
      result.cachedUs.push(cachedUs);
    }
  }

  const rows = [...results].map(([name, { cpuMs, turnMs, cachedUs }]) => [
    name,
    range(spread(cpuMs), 1),
    range(spread(turnMs), 1),
    range(spread(cachedUs), 2),
  ]);
  const worst = (figure) =>
    [...results.values()]
      .map((result) => spread(result[figure]))
      .reduce((a, b) => (b.median > a.median ? b : a));
  return {
    title: `Declarations of ${number(many)} tools`,
    text: [
      `Up to ${number(bytes / 1e6, 1)} MB, made anew after each change of the list; \`mcp\` rewrites no schema.`,
      table(['format', 'CPU ms', 'longest turn, CPU ms', 'CPU us when made before'], rows),
    ],
    goals: [
      atMost(`declarations of ${number(many)} tools, CPU ms in the dearest format`, worst('cpuMs'), 50),
      atMost('longest turn of the event loop meanwhile, CPU ms', worst('turnMs'), 20),
    ],
  };
}

/** Tells how much CPU the longest turn of the event loop took; on a busy machine the clock would tell more. */
function watchLoop() {
  let lastUs = usedUs();
  let longestUs = 0;
  let isOn = true;
  const tick = () => {
    const nowUs = usedUs();
    longestUs = Math.max(longestUs, nowUs - lastUs);
    lastUs = nowUs;
    if (isOn) setImmediate(tick);
  };
  setImmediate(tick);
  return {
    stop: async () => {
      await sleep(1);
      isOn = false;
      return longestUs / 1_000;
    },
  };
}

function usedUs() {
  const { user, system } = process.cpuUsage();
  return user + system;
}

const policy = {
  alias: 'lab',
  descriptionPrefix: undefined,
  trustAnnotations: false,
  needsRun: false,
  offers: () => true,
  toolPolicy: () => ({
    class: 'read',
    idempotent: false,
    retry: 'safe',
    timeoutMs: 30_000,
    timeoutTotalMs: 300_000,
    outputCharsMax: 100_000,
    render: undefined,
    description: undefined,
  }),
};

/** A registry of tools that nobody has seen before. */
async function list(change) {
  const tools = Array.from({ length: many }, (_, index) => tool(index, change));
  return buildRegistry([await inSlices(bindServer(policy, tools, []))]);
}

/** A tool of a usual size; of the shapes that providers refuse, one in four has each. */
function tool(index, change) {
  const kind = index % 4;
  const inputSchema = {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    properties: {
      query: { type: 'string', description: 'Words to look for' },
      state: { type: 'string', enum: ['open', 'closed', 'all'], description: 'Which entries' },
      limit: { type: 'integer', minimum: 1, maximum: 100, description: 'Entries on a page' },
      [kind === 0 ? 'filter[labels]' : 'labels']: { type: 'array', items: { type: 'string' } },
      range: { $ref: '#/definitions/Range', description: 'When' },
      ...(kind === 1 ? { place: { type: 'array', items: [{ type: 'number' }, { type: 'number' }] } } : {}),
      ...(kind === 2 ? { mode: { oneOf: [{ const: 'fast' }, { const: 'whole' }] } } : {}),
    },
    required: ['query'],
    additionalProperties: false,
    ...(kind === 3 ? { anyOf: [{ required: ['state'] }, { required: ['labels'] }] } : {}),
    definitions: {
      Range: {
        type: 'object',
        properties: { from: { type: 'string', format: 'date' }, to: { type: 'string' } },
      },
      Unused: { type: 'object', properties: { a: { type: 'string' }, b: { type: 'number' } } },
    },
  };
  return {
    name: `lookup_${index}`,
    description: `Looks up the entries of collection ${index} that match a filter, newest first (${change}).`,
    inputSchema,
  };
}
