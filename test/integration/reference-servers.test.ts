import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Callgate, startCallgate } from '../support/callgate.ts';
import { everythingServer, referenceServer } from '../support/reference-servers.ts';

/** Arguments for one call of a tool, and something its output has to show. Tried from top to bottom. */
type Sample = readonly [tool: string, input: Readonly<Record<string, unknown>>, shows: RegExp];

interface Withheld {
  readonly tool: string;
  readonly reason: string;
}

const everythingSamples: readonly Sample[] = [
  ['echo', { message: 'hello' }, /Echo: hello/],
  [
    'get-annotated-message',
    { messageType: 'success', includeImage: true },
    /Operation completed successfully/,
  ],
  ['get-env', {}, /PATH/],
  ['get-resource-links', { count: 2 }, /\[resource link\]/],
  ['get-resource-reference', { resourceType: 'Text', resourceId: 1 }, /demo:\/\/resource/],
  ['get-structured-content', { location: 'Chicago' }, /temperature/],
  ['get-sum', { a: 2, b: 40 }, /42/],
  ['get-tiny-image', {}, /\[image image\/png, \d+ bytes, attached\]/],
  // A data URL, so that nothing is fetched from a network.
  [
    'gzip-file-as-resource',
    { name: 'a.gz', data: 'data:text/plain,hello', outputType: 'resource' },
    /application\/gzip/,
  ],
  ['toggle-simulated-logging', {}, /logging/],
  ['toggle-subscriber-updates', {}, /updates/],
  ['trigger-long-running-operation', { duration: 0.1, steps: 2 }, /completed/],
];

const memorySamples: readonly Sample[] = [
  [
    'create_entities',
    {
      entities: [
        { name: 'callgate', entityType: 'service', observations: ['runs tools'] },
        { name: 'model', entityType: 'caller', observations: [] },
      ],
    },
    /runs tools/,
  ],
  ['create_relations', { relations: [{ from: 'model', to: 'callgate', relationType: 'asks' }] }, /asks/],
  [
    'add_observations',
    { observations: [{ entityName: 'model', contents: ['writes calls'] }] },
    /writes calls/,
  ],
  ['read_graph', {}, /writes calls/],
  ['search_nodes', { query: 'writes' }, /model/],
  ['open_nodes', { names: ['callgate'] }, /runs tools/],
  [
    'delete_observations',
    { deletions: [{ entityName: 'model', observations: ['writes calls'] }] },
    /deleted/,
  ],
  ['delete_relations', { relations: [{ from: 'model', to: 'callgate', relationType: 'asks' }] }, /deleted/],
  ['delete_entities', { entityNames: ['model'] }, /deleted/],
];

const filesystemSamples = (folder: string): readonly Sample[] => {
  const note = join(folder, 'note.txt');
  return [
    ['write_file', { path: note, content: 'one\ntwo\n' }, /Successfully wrote/],
    ['read_file', { path: note }, /one/],
    ['read_text_file', { path: note, tail: 2 }, /two/],
    ['read_multiple_files', { paths: [note] }, /one/],
    ['edit_file', { path: note, edits: [{ oldText: 'two', newText: 'three' }] }, /three/],
    ['read_media_file', { path: join(folder, 'dot.png') }, /\[image image\/png, 3 bytes, attached\]/],
    ['create_directory', { path: join(folder, 'shelf') }, /shelf/],
    ['list_directory', { path: folder }, /note\.txt/],
    ['list_directory_with_sizes', { path: folder, sortBy: 'size' }, /note\.txt/],
    ['directory_tree', { path: folder }, /shelf/],
    ['search_files', { path: folder, pattern: '*.txt' }, /note\.txt/],
    ['get_file_info', { path: note }, /isFile/],
    ['move_file', { source: note, destination: join(folder, 'shelf', 'note.txt') }, /moved/],
    ['list_allowed_directories', {}, /Allowed/],
  ];
};

/** Calls every declared tool of one server, and holds the table of samples against what is declared. */
async function callEveryTool(gate: Callgate, alias: string, samples: readonly Sample[]): Promise<void> {
  const token = await gate.token([`tools:${alias}:*`]);
  const path = `/v1/declarations?format=openai-responses&server=${alias}`;
  const { body } = await gate.get<{ tools: readonly { name: string }[] }>(path, { token });
  const expected = samples.map(([tool]) => `${alias}__${tool}`).sort();
  expect(body.tools.map((tool) => tool.name)).toEqual(expected);

  for (const [tool, input, shows] of samples) {
    const intent = {
      type: 'function_call',
      call_id: `call_${alias}_${tool}`,
      name: `${alias}__${tool}`,
      arguments: JSON.stringify(input),
    };
    const answer = await gate.post<{ output: unknown }>('/v1/calls', intent, { token });
    expect(answer.status, tool).toBe(200);
    expect(answer.headers.get('callgate-status'), `${tool}: ${JSON.stringify(answer.body)}`).toBe(
      'succeeded',
    );
    expect(outputText(answer.body.output), tool).toMatch(shows);
  }
}

/** The text of an output, whether it stands alone or before media. */
const outputText = (output: unknown): string =>
  typeof output === 'string' ? output : ((output as readonly { text: string }[])[0]?.text ?? '');

async function withheldTools(gate: Callgate, alias: string): Promise<readonly Withheld[]> {
  const token = await gate.token(['callgate:operate']);
  const { body } = await gate.get<{ servers: readonly { alias: string; withheld: readonly Withheld[] }[] }>(
    '/v1/servers',
    { token },
  );
  return body.servers.find((server) => server.alias === alias)?.withheld ?? [];
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Starts `server-everything` over Streamable HTTP and resolves once it says that it listens. */
async function startEverythingHttp(): Promise<{ child: ChildProcess; url: string }> {
  const port = await freePort();
  const child = spawn(process.execPath, [referenceServer('everything'), 'streamableHttp'], {
    env: { ...process.env, PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  await new Promise<void>((resolve, reject) => {
    child.stderr.on('data', (chunk) => {
      if (/listening/i.test(String(chunk))) resolve();
    });
    child.once('exit', (code) => reject(new Error(`server-everything ended with ${code}`)));
  });
  return { child, url: `http://127.0.0.1:${port}/mcp` };
}

describe('the reference servers from npm', () => {
  let gate: Callgate;
  let http: ChildProcess;
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'callgate-reference-')));
  const files = join(folder, 'files');

  beforeAll(async () => {
    mkdirSync(files);
    writeFileSync(join(files, 'dot.png'), Buffer.from([1, 2, 3]));
    const started = await startEverythingHttp();
    http = started.child;
    gate = await startCallgate({
      mcpServers: {
        everything: everythingServer,
        remote: { url: started.url },
        files: { command: process.execPath, args: [referenceServer('filesystem'), files] },
        memory: {
          command: process.execPath,
          args: [referenceServer('memory')],
          env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') },
        },
      },
    });
  });
  afterAll(async () => {
    await gate.stop();
    http.kill();
  });

  test('server-everything over stdio: every tool that can be called is called', async () => {
    await callEveryTool(gate, 'everything', everythingSamples);
  });

  test('server-everything over Streamable HTTP: every tool that can be called is called', async () => {
    await callEveryTool(gate, 'remote', everythingSamples);
  });

  test('server-everything: a tool that runs only as a task is withheld, with the reason', async () => {
    for (const alias of ['everything', 'remote']) {
      const withheld = await withheldTools(gate, alias);
      expect(withheld.map((entry) => entry.tool)).toEqual(['simulate-research-query']);
      expect(withheld[0]?.reason).toMatch(/task/);
    }
  });

  test('server-filesystem: every tool is called', async () => {
    await callEveryTool(gate, 'files', filesystemSamples(files));
    expect(await withheldTools(gate, 'files')).toEqual([]);
  });

  test('server-filesystem: its refusal of a path outside its folder is an output for the model', async () => {
    const token = await gate.token(['tools:files:*']);
    const { httpStatus, envelope } = await gate.call(token, 'call_out', 'files__read_text_file', {
      path: '/etc/hosts',
    });
    expect(httpStatus).toBe(200);
    expect(envelope).toMatchObject({ ok: false, error: { code: 'tool_error' } });
    expect(envelope.content[0]?.text).toMatch(/denied/);
  });

  test('server-memory: every tool is called', async () => {
    await callEveryTool(gate, 'memory', memorySamples);
    expect(await withheldTools(gate, 'memory')).toEqual([]);
  });
});
