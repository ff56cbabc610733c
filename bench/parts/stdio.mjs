// What callgate's own connection over stdio costs beside the SDK's client and its transport, on servers of their own. All of
// them live in the benchmark's process, one working at a time.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { Cancellation } from '../../dist/core/cancellation.js';
import { Deadline } from '../../dist/upstream/deadline.js';
import { LegacyConnection } from '../../dist/upstream/legacy-connection.js';
import { cpuUs } from '../cpu.mjs';
import { interleave } from '../interleave.mjs';
import { loadFunction } from '../load.mjs';
import { echoServer } from '../processes.mjs';
import { atMost, range, table } from '../report.mjs';
import { ratioOf, spread, spreadOf } from '../statistics.mjs';

const bigChars = 9_000_000;
const inFlight = 64;
const text = 'a short text that comes back';

export async function measureStdio(_folder, { rounds, seconds }) {
  const subjects = [
    { name: 'callgate', ...(await openConnection()) },
    { name: 'SDK', ...(await openClient()) },
  ];
  const echoes = subjects.map(({ name, call }) => ({
    name,
    pid: process.pid,
    load: (shape) => loadFunction(() => call('echo', { text }, text.length), shape),
  }));
  const small = await interleave(echoes, { rounds, seconds, inFlight: [1, inFlight] });

  const big = subjects.map(() => []);
  for (let round = -1; round < rounds; round += 1) {
    for (const [index, { call }] of subjects.entries()) {
      const before = cpuUs(process.pid);
      await call('big', { chars: bigChars }, bigChars);
      // The first one of each warms up.
      if (round >= 0) big[index].push((cpuUs(process.pid) - before) / 1000);
    }
  }
  for (const { close } of subjects) await close();

  const [ours, theirs] = big;
  const bigRatio = spread(ours.map((cpuMs, round) => cpuMs / theirs[round]));
  const smallRatio = ratioOf(small, ['callgate', 'SDK'], inFlight, 'cpuUsPerCall');
  return {
    title: 'Connection over stdio',
    text: [
      table(
        ['client', 'CPU us per call, 1 in flight', `${inFlight} in flight`, 'CPU ms of a result of 9 MB'],
        subjects.map(({ name }, index) => [
          name,
          range(spreadOf(small, name, 1, 'cpuUsPerCall'), 1),
          range(spreadOf(small, name, inFlight, 'cpuUsPerCall'), 1),
          range(spread(big[index])),
        ]),
      ),
    ],
    goals: [
      atMost("CPU of a result of 9 MB, times the SDK's client", bigRatio, 1, 0.5),
      atMost(`CPU per call at ${inFlight} in flight, times the SDK's client`, smallRatio, 0.8, 0.5),
    ],
  };
}

async function openClient() {
  const client = new Client({ name: 'callgate-bench', version: '1.0.0' });
  // By default the SDK gives up at 10 MiB, which a result of this size comes close to.
  await client.connect(new StdioClientTransport({ ...echoServer(), maxBufferSize: 2 * bigChars }));
  const call = async (name, args, chars) => check(await client.callTool({ name, arguments: args }), chars);
  return { call, close: () => client.close() };
}

async function openConnection() {
  const { command, args, env } = echoServer();
  const settings = {
    alias: 'echo',
    transport: { kind: 'stdio', command, args, env, cwd: process.cwd() },
    connectTimeoutMs: 30_000,
    listTimeoutMs: 30_000,
    stopGraceMs: 5_000,
    resultBytesMax: 2 * bigChars,
  };
  const log = { info() {}, warn: console.error, error: console.error };
  const ignore = () => {};
  const deps = {
    log,
    redact: (shown) => shown,
    credentials: undefined,
    onLost: ignore,
    onToolsChanged: ignore,
  };
  const connection = new LegacyConnection(settings, deps);
  const failure = await connection.open();
  if (failure !== undefined) throw new Error(`the echo server could not be started: ${failure.reason}`);
  const nowMs = () => performance.now();
  let calls = 0;
  const call = async (tool, args, chars) => {
    calls += 1;
    const signal = new Cancellation();
    const whole = { alias: 'echo', tool, arguments: args, id: `call-${calls}`, signal };
    const deadline = new Deadline(nowMs, 60_000, 600_000);
    const result = await connection.callTool(
      { ...whole, onProgress: ignore, onLateAnswer: ignore },
      deadline,
      1,
    );
    if (!result.ok) throw new Error(`a call failed: ${result.error.message}`);
    check(result.value, chars);
  };
  return { call, close: () => connection.close() };
}

function check({ content }, chars) {
  if (content[0].text.length !== chars)
    throw new Error(`unexpected answer: ${JSON.stringify(content).slice(0, 200)}`);
}
