// Measures callgate beside a direct SDK call and mcp-hub, on loopback only. Options:
//   --only=calls,start,tools,token,servers,bulkhead,stdio,http,slow-disk,postgres,records   --rounds=7   --seconds=0.5   --conc=1,16,64,256   --write=docs/performance.md
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { measureBulkhead } from './parts/bulkhead.mjs';
import { measureCalls } from './parts/calls.mjs';
import { measureDeclarations } from './parts/declarations.mjs';
import { measureHttp } from './parts/http.mjs';
import { measurePostgres } from './parts/postgres.mjs';
import { measureRecords } from './parts/records.mjs';
import { measureServers } from './parts/servers.mjs';
import { measureSlowDisk } from './parts/slow-disk.mjs';
import { measureStart } from './parts/start.mjs';
import { measureStdio } from './parts/stdio.mjs';
import { measureToken } from './parts/token.mjs';
import { measureTools } from './parts/tools.mjs';
import { measureTurns } from './parts/turns.mjs';
import { report, writeInto } from './report.mjs';

const parts = {
  calls: measureCalls,
  turns: measureTurns,
  start: measureStart,
  tools: measureTools,
  declarations: measureDeclarations,
  token: measureToken,
  servers: measureServers,
  bulkhead: measureBulkhead,
  stdio: measureStdio,
  http: measureHttp,
  'slow-disk': measureSlowDisk,
  postgres: measurePostgres,
  records: measureRecords,
};

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: Object.keys(parts).join(',') },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '0.5' },
    conc: { type: 'string', default: '1,16,64,256' },
    write: { type: 'string' },
  },
});
const options = {
  rounds: Number(values.rounds),
  seconds: Number(values.seconds),
  inFlight: values.conc.split(',').map(Number),
};

const folder = await mkdtemp(path.join(tmpdir(), 'callgate-bench-'));
try {
  const results = [];
  for (const name of values.only.split(',')) {
    console.error(`measuring: ${name}`);
    results.push(await parts[name](folder, options));
  }
  const text = report(results, options);
  console.log(text);
  if (values.write !== undefined) await writeInto(values.write, text);
  process.exitCode = results.some(({ goals }) => goals.some(({ isMet }) => isMet === false)) ? 1 : 0;
} finally {
  await rm(folder, { recursive: true, force: true });
}
