// The HTTP layer beside the SDK's own client of Streamable HTTP, both in this process, which does nothing else meanwhile.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { Deadline } from '../../dist/upstream/deadline.js';
import { LegacyConnection } from '../../dist/upstream/legacy-connection.js';
import { interleave } from '../interleave.mjs';
import { loadFunction } from '../load.mjs';
import { atMost, number, range, table } from '../report.mjs';
import { ratioOf, spreadOf } from '../statistics.mjs';

const inFlight = 32;
const timeoutMs = 60_000;
const text = 'a short text that comes back';
const framings = ['json', 'sse'];

export async function measureHttp(_folder, { rounds, seconds }) {
  const printWarnings = silenceWarnings();
  const child = fork(fileURLToPath(new URL('../servers/echo-http.mjs', import.meta.url)));
  const [port] = await once(child, 'message');
  const samples = {};
  try {
    for (const framing of framings) {
      const url = `http://127.0.0.1:${port}/${framing}`;
      const subjects = [await ours(url), await theirs(url)];
      samples[framing] = await interleave(subjects, { rounds, seconds, inFlight: [inFlight] });
      for (const subject of subjects) await subject.stop();
    }
  } finally {
    child.disconnect();
    printWarnings();
  }

  const ratio = (framing) => ratioOf(samples[framing], ['callgate', 'SDK'], inFlight, 'cpuUsPerCall');
  return {
    title: 'HTTP layer',
    text: [
      table(
        ['answers', 'client', 'CPU us per call', 'calls/s', 'p99 ms'],
        framings.flatMap((framing) =>
          ['callgate', 'SDK'].map((subject) => [
            framing,
            subject,
            range(spreadOf(samples[framing], subject, inFlight, 'cpuUsPerCall')),
            range(spreadOf(samples[framing], subject, inFlight, 'callsPerS')),
            number(spreadOf(samples[framing], subject, inFlight, 'p99Ms').median, 2),
          ]),
        ),
      ),
      `${inFlight} calls in flight on one connection; the server is a process of its own. The loop that sends the calls is in both figures.`,
    ],
    goals: framings.map((framing) =>
      atMost(`CPU of the HTTP layer (${framing}), times the SDK's client`, ratio(framing), 0.4),
    ),
  };
}

/** The SDK's client hands one signal to all its requests, and printing what Node says about that would be in its figure. */
function silenceWarnings() {
  const listeners = process.listeners('warning');
  process.removeAllListeners('warning');
  return () => {
    for (const listener of listeners) process.on('warning', listener);
  };
}

async function ours(url) {
  const settings = {
    alias: 'echo',
    transport: { kind: 'http', url, headers: {}, credentials: undefined },
    connectTimeoutMs: timeoutMs,
    listTimeoutMs: timeoutMs,
    concurrencyMax: inFlight,
    resultBytesMax: 16_777_216,
  };
  const log = { info() {}, warn: console.error, error: console.error };
  const connection = new LegacyConnection(settings, {
    log,
    redact: (value) => value,
    credentials: undefined,
    onLost: console.error,
    onToolsChanged() {},
  });
  const failure = await connection.open();
  if (failure !== undefined) throw new Error(failure.reason);
  const nothing = () => {};
  let calls = 0;
  return subject(
    'callgate',
    () => connection.close(),
    async () => {
      const call = {
        alias: 'echo',
        tool: 'echo',
        arguments: { text },
        id: `call-${calls++}`,
        timeoutMs,
        timeoutTotalMs: timeoutMs,
        mayRepeat: false,
        signal: new AbortController().signal,
        onProgress: nothing,
        onLateAnswer: nothing,
      };
      const deadline = new Deadline(() => performance.now(), timeoutMs);
      const result = await connection.callTool(call, deadline, 1);
      return result.ok ? result.value : result.error;
    },
  );
}

async function theirs(url) {
  const client = new Client({ name: 'callgate-bench', version: '1.0.0' });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return subject(
    'SDK',
    () => client.close(),
    () => client.callTool({ name: 'echo', arguments: { text } }, undefined, { timeout: timeoutMs }),
  );
}

const subject = (name, stop, call) => ({
  name,
  pid: process.pid,
  stop,
  load: (shape) =>
    loadFunction(async () => {
      const answer = await call();
      if (answer.content?.[0]?.text !== text) throw new Error(`unexpected answer: ${JSON.stringify(answer)}`);
    }, shape),
});
