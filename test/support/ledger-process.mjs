// A process with a SQLite ledger of its own, for tests that end it, starve it or lock it out.
// Each line of its input is a JSON list [operation, ...]; each line of its output the JSON of what came of it.
import { createInterface } from 'node:readline';
import { openSqlite } from '../../dist/ledger/sqlite.js';

const [file] = process.argv.slice(2);
const hourMs = 3_600_000;
const settings = {
  store: { kind: 'sqlite', file },
  outputRetentionMs: 24 * hourMs,
  readOutputRetentionMs: hourMs,
  tombstoneRetentionMs: 168 * hourMs,
  bytesMax: 2 ** 30,
  actorBytesMax: 2 ** 30,
  actorRecordsMax: 100_000,
};
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const deps = {
  nowMs: Date.now,
  log: { info: () => {}, warn: () => {}, error: () => {} },
  isHeld: () => true,
  onCancelRequested: () => {},
};

let ledger;
try {
  ledger = await openSqlite(file, settings, deps, { upkeepMs: 100 });
} catch (error) {
  say({ refused: error.constructor.name, message: error.message });
  process.exit(78);
}
say({ opened: true });

for await (const line of createInterface({ input: process.stdin })) {
  const [operation, ...operands] = JSON.parse(line);
  try {
    if (operation === 'claim') say(await ledger.claim(operands[0], 'started'));
    else if (operation === 'settle') say(await ledger.settle(operands[0], operands[1]));
    else if (operation === 'save_tool_list') say({ saved: (await ledger.saveToolList(operands[0])) ?? true });
    else if (operation === 'fault') say({ fault: ledger.fault() ?? null });
    else if (operation === 'close') break;
  } catch (error) {
    say({ failed: error.constructor.name, message: error.message });
  }
}
await ledger.close();
say({ closed: true });
