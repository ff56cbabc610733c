// Durable writes with their records in PostgreSQL beside records in SQLite, both on the same disk.
import { interleave } from '../interleave.mjs';
import { startPostgres } from '../postgres-server.mjs';
import { atLeast, notMeasured, number, range, table } from '../report.mjs';
import { ratioOf, spreadOf } from '../statistics.mjs';
import { startCallgate } from '../subjects/callgate.mjs';

const inFlight = 64;
const title = 'PostgreSQL beside SQLite';
const goalName = `calls/s of a durable write at ${inFlight} in flight, PostgreSQL / SQLite`;

export async function measurePostgres(folder, { rounds, seconds }) {
  const server = await startPostgres();
  if (server === undefined) return notMeasured(title, [goalName], 'no PostgreSQL server was found');
  const classes = { echo: 'write' };
  const sqlite = { ...(await startCallgate(folder, { classes })), name: 'SQLite' };
  const postgres = { ...(await startCallgate(folder, { classes, ledger: server.url })), name: 'PostgreSQL' };
  const subjects = [sqlite, postgres];
  const counts = [1, inFlight];
  const samples = await interleave(subjects, { rounds, seconds, inFlight: counts });
  for (const subject of subjects) await subject.stop();
  await server.stop();

  const rows = counts.flatMap((count) =>
    subjects.map(({ name }) => {
      const figure = (key) => spreadOf(samples, name, count, key);
      return [
        name,
        count,
        range(figure('cpuUsPerCall')),
        range(figure('callsPerS')),
        number(figure('p50Ms').median, 2),
        number(figure('p99Ms').median, 2),
      ];
    }),
  );
  const ratio = ratioOf(samples, [postgres.name, sqlite.name], inFlight, 'callsPerS');
  return {
    title,
    text: [
      table(['writes, records in', 'in flight', 'CPU us per call', 'calls/s', 'p50 ms', 'p99 ms'], rows),
      'CPU is that of callgate; the database server uses its own beside it.',
    ],
    goals: [atLeast(goalName, ratio, 0.5)],
  };
}
