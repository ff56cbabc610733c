// A ledger with a million records beside an empty one: what a call costs, how long the start takes.
import { rmSync } from 'node:fs';
import path from 'node:path';
import { fillLedger } from '../fill-ledger.mjs';
import { interleave } from '../interleave.mjs';
import { atMost, number, range, table } from '../report.mjs';
import { ratioOf, spread, spreadOf } from '../statistics.mjs';
import { sqliteUrl, startCallgate } from '../subjects/callgate.mjs';

const many = 1_000_000;
const inFlight = 64;
const classes = { pay: 'write', look: 'read' };
const kinds = Object.entries(classes);

export async function measureRecords(folder, { rounds, seconds }) {
  const file = path.join(folder, 'many-records.db');
  const filledMs = await fillLedger(file, many);
  const full = await startCallgate(folder, { classes, ledger: sqliteUrl(file) });
  const empty = await startCallgate(folder, { classes });
  const subjectsOf = ({ pid, loadOf }, ledger) =>
    kinds.map(([alias, kind]) => ({
      name: `${kind}, ${ledger}`,
      pid,
      load: (shape) => loadOf(alias, shape),
    }));
  const subjects = [...subjectsOf(empty, 'empty'), ...subjectsOf(full, 'full')];
  const samples = await interleave(subjects, { rounds, seconds, inFlight: [inFlight] });
  for (const subject of [full, empty]) await subject.stop();

  const startsMs = { full: [], empty: [] };
  const emptyFile = path.join(folder, 'no-records.db');
  for (let round = 0; round < rounds; round += 1) {
    for (const [ledger, place] of Object.entries({ full: file, empty: emptyFile })) {
      const started = await startCallgate(folder, { classes, ledger: sqliteUrl(place) });
      startsMs[ledger].push(started.start.listeningMs);
      await started.stop();
    }
  }
  rmSync(file);

  const million = `${many.toLocaleString('en')} records`;
  const figure = (name, key) => spreadOf(samples, name, inFlight, key);
  return {
    title: million,
    text: [
      table(
        ['', 'CPU us per call', 'calls/s', 'p50 ms', 'p99 ms'],
        subjects.map(({ name }) => [
          name,
          range(figure(name, 'cpuUsPerCall')),
          range(figure(name, 'callsPerS')),
          number(figure(name, 'p50Ms').median, 2),
          number(figure(name, 'p99Ms').median, 2),
        ]),
      ),
      `From the start to the first HTTP answer: ${range(spread(startsMs.full))} ms, with an empty ledger ${range(spread(startsMs.empty))} ms.`,
      `The records were written through the ledger itself, in ${number(filledMs / 1000)} s.`,
    ],
    goals: [
      ...kinds.map(([, kind]) =>
        atMost(
          `CPU per ${kind} with ${million}, times that with none`,
          ratioOf(samples, [`${kind}, full`, `${kind}, empty`], inFlight, 'cpuUsPerCall'),
          1.2,
        ),
      ),
      atMost(`from the start to the first HTTP answer with ${million}, ms`, spread(startsMs.full), 2000),
    ],
  };
}
