// A turn of 8 calls in each format, as a whole answer of a model, beside 8 intents of the native format alone.
import { formats } from '../../dist/formats/formats.js';
import { interleave } from '../interleave.mjs';
import { modelAnswers, nativeIntents } from '../model-answers.mjs';
import { atMost, number, range, table } from '../report.mjs';
import { ratioOf, spreadOf } from '../statistics.mjs';
import { startCallgate } from '../subjects/callgate.mjs';

const callsPerTurn = 8;
const inFlight = 8;
/** With more turns in flight their calls would be more than callgate lets wait for one server. */
const warmUp = { inFlight, seconds: 1 };
const native = 'native intents';
let turns = 0;

export async function measureTurns(folder, { rounds, seconds }) {
  const { pid, loadTurns, stop } = await startCallgate(folder);
  const subjectOf = (name, format, shape) => ({
    name,
    pid,
    bytes: Buffer.byteLength(nextTurn(shape).body),
    load: (load) => loadTurns(format, () => nextTurn(shape), load),
  });
  const subjects = [
    subjectOf(native, 'openai-responses', nativeIntents),
    ...[...formats.keys()].map((format) => subjectOf(format, format, modelAnswers[format])),
  ];
  const samples = await interleave(subjects, { rounds, seconds, inFlight: [inFlight], warmUp });
  await stop();

  const ratios = new Map(
    subjects.map(({ name }) => [name, ratioOf(samples, [name, native], inFlight, 'cpuUsPerCall')]),
  );
  const dearest = [...ratios.values()].reduce((a, b) => (b.median > a.median ? b : a));
  return {
    title: `Turns of ${callsPerTurn} calls`,
    text: [
      table(
        ['body', 'bytes', 'CPU us per turn', 'turns/s', 'CPU: times the native intents'],
        subjects.map(({ name, bytes }) => [
          name,
          number(bytes),
          range(spreadOf(samples, name, inFlight, 'cpuUsPerCall')),
          range(spreadOf(samples, name, inFlight, 'callsPerS')),
          range(ratios.get(name), 2),
        ]),
      ),
      `${inFlight} turns in flight, reads. Each body is a whole answer of a model with its text, as the SDK of its provider returns it; \`mcp\` is a list of calls, and the native intents are one too. Calls in \`ollama\` have no ids.`,
    ],
    goals: [
      atMost(
        `CPU of a turn of ${callsPerTurn} calls in the dearest format, times that of ${callsPerTurn} native intents`,
        dearest,
        1.3,
      ),
    ],
  };
}

/** A turn of calls that callgate has not seen, and all that is to be appended after it, in its order. */
function nextTurn({ answer, append }) {
  turns += 1;
  const calls = Array.from({ length: callsPerTurn }, (_, index) => ({
    id: `call_${String(turns).padStart(8, '0')}_${index}`,
    name: 'echo__echo',
    text: `short text ${index} that comes back`,
  }));
  return {
    body: JSON.stringify(answer(calls)),
    expected: `{"append":${JSON.stringify(append(calls))},"calls":`,
  };
}
