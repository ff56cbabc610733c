// A stdio MCP server without the SDK that misbehaves on demand.
//
//   node fault-server.mjs [mode ...]
//
// A word on the command line picks an entry of `modes`, which changes the server before it starts; `word=value`
// hands the value over. A `tools/call` picks an entry of `tools` by its name. Both tables, and `methods`, are meant to
// grow: an entry gets what it needs as arguments and answers through `reply`, `refuse` or `raw`.

import { appendFileSync, closeSync, existsSync, writeFileSync } from 'node:fs';

/** Writes one line, whatever it is. */
const raw = (text) => process.stdout.write(`${text}\n`);
const message = (value) => raw(JSON.stringify(value));
/** Answers a request with a result. */
const reply = (id, result) => message({ jsonrpc: '2.0', id, result });
/** Answers a request with a JSON-RPC error. */
const refuse = (id, code, text, data) =>
  message({ jsonrpc: '2.0', id, error: { code, message: text, data } });
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const noise = () => process.stdout.write('server ready\n\n\u001b[31mred\u001b[0m\n{"not":"rpc"}\n');

/** Takes the answers of the client to requests of this server. */
let onAnswer = () => {};

/** The calls that wait for each other in the tool `gather`. */
const gathered = [];
/** How often each tool was called. */
const counts = {};
/** The calls that came, and the requests that were cancelled, for the tool `seen`. */
const seen = { calls: [], cancelled: [] };
/** The progress token of the call that is being answered. */
let progressToken;
const progress = (token, more) =>
  message({ jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: token, ...more } });

/** Tells progress every `everyMs`, so many times, and then answers; without `times` it never answers. */
const work = (id, { times = Number.POSITIVE_INFINITY, everyMs = 100 }) => {
  const token = progressToken;
  let told = 0;
  const timer = setInterval(() => {
    told += 1;
    if (told <= times) progress(token, { progress: told, message: `step ${told}` });
    else {
      clearInterval(timer);
      reply(id, text('worked'));
    }
  }, everyMs);
};

/** name: (id, args) => void */
const tools = {
  echo: (id, args) => reply(id, text(String(args.text ?? ''))),
  counts: (id) => reply(id, text(JSON.stringify(counts))),
  wait: (id, args) => setTimeout(() => reply(id, text('waited')), args.ms ?? 600),
  never: () => {},
  /** Answers nobody until so many calls have come. */
  gather: (id, args) => {
    gathered.push(id);
    if (gathered.length === args.count)
      for (const each of gathered.splice(0)) reply(each, text('all are here'));
  },
  length: (id, args) => reply(id, text(String(args.text.length))),
  seen: (id) => reply(id, text(JSON.stringify(seen))),
  work,
  late_error: (id, args) => setTimeout(refuse, args.ms, id, -32603, 'too late and wrong'),
  late_garbage: (id, args) => setTimeout(message, args.ms, { jsonrpc: '2.0', id }),
  /** Has its effect and dies before it can say so. */
  pay: (_id, args) => {
    appendFileSync(args.file, 'x');
    process.exit(1);
  },
  /** Dies the first time, and answers the second. */
  get: (id, args) => {
    if (existsSync(args.file)) return reply(id, text('got'));
    writeFileSync(args.file, '');
    process.exit(1);
  },
  /** Answers the first time with what is no answer. */
  get_garbage: (id) => (counts.get_garbage === 1 ? message({ jsonrpc: '2.0', id }) : reply(id, text('got'))),
  progress_flood: (id, args) => {
    const line = JSON.stringify({
      jsonrpc: '2.0',
      method: 'notifications/progress',
      params: { progressToken, progress: 1, message: 'x'.repeat(200) },
    });
    process.stdout.write(`${line}\n`.repeat(args.lines));
    reply(id, text('after the flood'));
  },
  surroundings: (id) =>
    reply(
      id,
      text(JSON.stringify({ env: process.env, cwd: process.cwd(), pid: process.pid, ppid: process.ppid })),
    ),

  // Answers that are valid, in unusual clothes.
  big: (id, args) => {
    const result = text('x'.repeat(args.bytes ?? 1_048_576));
    message(args.idLast ? { result, jsonrpc: '2.0', id } : { jsonrpc: '2.0', id, result });
  },
  structures: (id, args) =>
    reply(id, {
      content: [],
      structuredContent: { items: Array.from({ length: args.items ?? 10 }, (_, n) => ({ id: n, n })) },
    }),
  halves: (id, args) => {
    const line = Buffer.from(
      `${JSON.stringify({ jsonrpc: '2.0', id, result: text(args.text ?? 'zweite H\u00e4lfte') })}\n`,
    );
    // The cut lies inside a character of two bytes where there is one.
    const cut = Math.max(line.indexOf(0xc3) + 1, Math.floor(line.length / 2));
    process.stdout.write(line.subarray(0, cut));
    setTimeout(() => process.stdout.write(line.subarray(cut)), 50);
  },
  noise: (id) => {
    noise();
    reply(id, text('after the noise'));
    noise();
  },
  junk_lines: (id, args) => {
    process.stdout.write('just a log line\n'.repeat(args.lines ?? 1000));
    reply(id, text('after the junk'));
  },
  junk_bytes: (id, args) => {
    raw('j'.repeat(args.bytes ?? 1_048_576));
    reply(id, text('after the junk'));
  },
  extra_member: (id) => message({ jsonrpc: '2.0', id, result: text('with extras'), error: null, took: 3 }),
  twice: (id) => {
    reply(id, text('first'));
    reply(id, text('second'));
  },
  big_integer: (id) =>
    raw(`{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":{"n":9007199254740993}}}`),
  tool_error: (id) => reply(id, { ...text('it went wrong'), isError: true }),
  rpc_error: (id, args) => refuse(id, args.code ?? -32603, args.message ?? 'internal', args.data),

  no_content: (id) => reply(id, {}),

  // Answers that are not JSON-RPC.
  null_result: (id) => message({ jsonrpc: '2.0', id, result: null }),
  no_result: (id) => message({ jsonrpc: '2.0', id }),
  array_result: (id) => message({ jsonrpc: '2.0', id, result: [] }),
  both: (id) =>
    message({ jsonrpc: '2.0', id, result: text('x'), error: { code: -32603, message: 'and an error' } }),
  string_error_code: (id) => message({ jsonrpc: '2.0', id, error: { code: 'E_FAIL', message: 'no' } }),
  null_meta: (id) => message({ jsonrpc: '2.0', id, result: { ...text('x'), _meta: null } }),

  // Answers to nobody.
  string_id: (id) => reply(String(id), text('under another id')),
  foreign_id: (id) => reply(id + 1_000_000, text('nobody asked')),
  odd_id: (id) => {
    raw('{"jsonrpc":"2.0","id":{"toString":null},"result":{}}');
    reply(id, text('after it'));
  },
  deep_id: (id) => {
    raw(`{"jsonrpc":"2.0","id":${'['.repeat(50_000)}${']'.repeat(50_000)},"result":{}}`);
    reply(id, text('after it'));
  },
  deep_method: (id) => {
    raw(`{"jsonrpc":"2.0","method":${'['.repeat(50_000)}${']'.repeat(50_000)}}`);
    raw(
      `{"jsonrpc":"2.0","method":"ping","id":"p","params":${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}}`,
    );
    reply(id, text('after it'));
  },
  garbage: () => raw('{"jsonrpc":"2.0","id":'),

  // Floods.
  pings: (id, args) => {
    let answered = 0;
    const pings = Array.from({ length: args.count }, (_, n) => ({ jsonrpc: '2.0', id: n, method: 'ping' }));
    process.stdout.write(`${pings.map((ping) => JSON.stringify(ping)).join('\n')}\n`);
    onAnswer = (answer) => {
      if (answer.id === 'last') reply(id, text(JSON.stringify({ answered, later: true })));
      else answered += 1;
      if (answered === 1) setTimeout(message, 100, { jsonrpc: '2.0', id: 'last', method: 'ping' });
    };
  },
  flood: (id, args) => {
    reply(id, text('it begins'));
    const stream = args.where === 'err' ? process.stderr : process.stdout;
    const lines = '{\n'.repeat(32_768);
    const pour = () => {
      stream.write(lines, () => setImmediate(pour));
    };
    pour();
  },

  // stderr
  stderr_flood: (id, args) =>
    process.stderr.write('e'.repeat(args.bytes ?? 2_097_152), () => reply(id, text('flooded'))),
  stderr_line: (id, args) => process.stderr.write(`${args.text}\n`, () => reply(id, text('written'))),

  // Life and death.
  exit: (_id, args) => process.exit(args.code ?? 1),
  half_then_exit: (id) => process.stdout.write(`{"jsonrpc":"2.0","id":${id},"resu`, () => process.exit(1)),
  answer_then_exit: (id) =>
    process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result: text('last words') }), () =>
      process.exit(0),
    ),
  stop_reading: (id) => {
    process.stdin.pause();
    reply(id, text('not reading any more'));
  },
  close_stdin: (id) => {
    setInterval(() => {}, 1000);
    process.stdin.once('close', () => {
      closeSync(0);
      reply(id, text('stdin closed'));
    });
    process.stdin.destroy();
  },
};

/** method: (id, params) => void */
const methods = {
  initialize: (id, params) =>
    reply(id, {
      protocolVersion: params.protocolVersion,
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: 'fault-server', version: '1.0.0' },
    }),
  ping: (id) => reply(id, {}),
  'tools/list': (id) =>
    reply(id, {
      tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object', properties: {} } })),
    }),
  'tools/call': (id, params) => {
    counts[params.name] = (counts[params.name] ?? 0) + 1;
    progressToken = params._meta?.progressToken;
    if (params.name !== 'seen') seen.calls.push({ id, name: params.name, meta: params._meta });
    const tool = tools[params.name];
    if (tool === undefined) refuse(id, -32602, `Unknown tool: ${params.name}`);
    else tool(id, params.arguments ?? {});
  },
};

/** method: (params) => void */
const notifications = {
  'notifications/cancelled': ({ requestId, reason }) => seen.cancelled.push({ requestId, reason }),
};

/** word: (value) => void */
const modes = {
  noise,
  'ignore-sigterm': () => process.on('SIGTERM', () => {}),
  'ignore-stdin-end': () => {
    endsWithStdin = false;
    setInterval(() => {}, 1000);
  },
  'slow-initialize': (value) => {
    const answer = methods.initialize;
    methods.initialize = (id, params) => setTimeout(answer, Number(value ?? 500), id, params);
  },
  'silent-initialize': () => {
    methods.initialize = () => {};
  },
  /** The file says whether the server has run before. */
  'starts-once': (file) => {
    if (existsSync(file)) process.exit(4);
    writeFileSync(file, '');
  },
  'exit-at-start': (value) => {
    for (let line = 1; line <= 20; line += 1) process.stderr.write(`cannot start: reason ${line}\n`);
    process.exit(Number(value ?? 3));
  },
};

let endsWithStdin = true;
for (const word of process.argv.slice(2)) {
  const [name, value] = word.split('=', 2);
  const mode = modes[name];
  if (mode === undefined) throw new Error(`fault-server has no mode ${name}`);
  mode(value);
}

// A long line is put together once, not with each of its pieces.
let pieces = [];
process.stdin.setEncoding('utf8');
process.stdin.on('data', (chunk) => {
  pieces.push(chunk);
  if (!chunk.includes('\n')) return;
  const lines = pieces.join('').split('\n');
  pieces = [lines.pop()];
  for (const line of lines) {
    const { id, method, params = {} } = JSON.parse(line);
    if (id !== undefined && method === undefined) onAnswer({ id });
    if (id === undefined) notifications[method]?.(params);
    if (id === undefined || method === undefined) continue;
    const answer = methods[method];
    if (answer === undefined) refuse(id, -32601, `Unknown method: ${method}`);
    else answer(id, params);
  }
});
process.stdin.on('end', () => endsWithStdin && process.exit(0));
