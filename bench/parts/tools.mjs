// 10,000 declared tools beside one: what a call costs, what the declarations cost, how long the start takes.
import { interleave } from '../interleave.mjs';
import { loadHttp } from '../load.mjs';
import { atMost, number, range, table } from '../report.mjs';
import { ratioOf, spread, spreadOf } from '../statistics.mjs';
import { startCallgate } from '../subjects/callgate.mjs';

const many = 10_000;

export async function measureTools(folder, { rounds, seconds }) {
  const small = { ...(await startCallgate(folder)), name: 'one tool' };
  const large = { ...(await startCallgate(folder, { tools: many })), name: `${many} tools` };
  const { first, etag } = await firstDeclarations(large);
  const declarations = (name, headers, status, expected) => ({
    name,
    pid: large.pid,
    load: (shape) =>
      loadHttp(
        {
          port: large.port,
          method: 'GET',
          path: '/v1/declarations',
          headers: { ...large.headers, ...headers },
          status,
          next: () => ({ body: '', expected }),
        },
        shape,
      ),
  });
  const whole = declarations('declarations, 200', {}, 200, 'echo__echo');
  const unchanged = declarations('declarations, 304', { 'if-none-match': etag }, 304, '304');

  const inFlight = 64;
  const samples = await interleave([small, large], { rounds, seconds, inFlight: [inFlight] });
  const served = await interleave([whole, unchanged], { rounds, seconds, inFlight: [1] });
  const besides = [];
  for (let round = 0; round < rounds; round += 1) {
    const shape = { inFlight: 1, seconds };
    const [call] = await Promise.all([large.load(shape), whole.load(shape)]);
    besides.push(call.p99Ms);
  }
  for (const subject of [small, large]) await subject.stop();

  const callRatio = ratioOf(samples, [large.name, small.name], inFlight, 'cpuUsPerCall');
  const cpuMs = (name) => {
    const { min, median, max } = spreadOf(served, name, 1, 'cpuUsPerCall');
    return { min: min / 1000, median: median / 1000, max: max / 1000 };
  };
  return {
    title: `${many} tools`,
    text: [
      table(
        ['', 'CPU ms of callgate', 'ms until received'],
        [
          [`first declarations, ${number(first.bytes / 1e6, 1)} MB`, '', number(first.ms)],
          ...[whole, unchanged].map(({ name }) => [
            name,
            range(cpuMs(name), 2),
            range(spreadOf(served, name, 1, 'p50Ms'), 2),
          ]),
        ],
      ),
      `A call at ${inFlight} in flight costs ${range(spreadOf(samples, large.name, inFlight, 'cpuUsPerCall'))} us of CPU, with one tool ${range(spreadOf(samples, small.name, inFlight, 'cpuUsPerCall'))} us.`,
      `While the whole declarations are fetched without a pause, the p99 of a call beside them is ${range(spread(besides), 2)} ms.`,
      `From the start to the first successful call: ${number(large.start.firstCallMs)} ms, with one tool ${number(small.start.firstCallMs)} ms.`,
    ],
    goals: [
      atMost(`CPU per call with ${many} tools, times that with one`, callRatio, 1.5),
      atMost('CPU of unchanged declarations (304), ms', cpuMs(unchanged.name), 1),
    ],
  };
}

async function firstDeclarations({ port, headers }) {
  const startedMs = performance.now();
  const response = await fetch(`http://127.0.0.1:${port}/v1/declarations`, { headers });
  const { byteLength: bytes } = await response.arrayBuffer();
  if (!response.ok) throw new Error(`GET /v1/declarations: ${response.status}`);
  return { first: { ms: performance.now() - startedMs, bytes }, etag: response.headers.get('etag') };
}
