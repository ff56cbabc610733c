import { userInfo } from 'node:os';
import { pipeline } from 'node:stream/promises';
import type { Configuration } from '../config/configuration.ts';
import { createRedactor } from '../core/redact.ts';
import { type CallRecord, callIdPattern, type RecordStatus, recordStatuses } from '../dispatch/record.ts';
import { openArchive } from '../ledger/open.ts';
import type { LedgerArchive } from '../ledger/settings.ts';
import { createAuditTrail } from '../telemetry/audit.ts';
import { LineSink, quietJson } from '../telemetry/line-sink.ts';
import { devFile, loadForCommand } from './configuration.ts';
import { overviewOf, recordJson, table } from './ledger-records.ts';
import { type CommandOptions, exitConfiguration, refuseOthers, UsageError } from './options.ts';

const exitRefused = 1;
const standardOutput = 1;

const limitUsual = 50;
const limitMax = 10_000;
const noteCharsMax = 1_000;
/** Records that are held in memory at once, with all their results. */
const pageMax = 100;

interface Task {
  readonly archive: LedgerArchive;
  readonly configuration: Configuration;
}

/** An action with its words and options read; what is wrong with those is told before anything is opened. */
type Prepare = (id: string | undefined, options: CommandOptions) => (task: Task) => Promise<number>;

const actions: Readonly<Record<string, { prepare: Prepare; takes: readonly string[]; takesId: boolean }>> = {
  list: { prepare: list, takes: ['state', 'limit', 'json'], takesId: false },
  show: { prepare: show, takes: [], takesId: true },
  settle: { prepare: settle, takes: ['as', 'note'], takesId: true },
  export: { prepare: exportAll, takes: [], takesId: false },
};

/** `callgate ledger`: shows the records of calls to an operator, and takes a word on those whose end is unknown. */
export async function ledger(options: CommandOptions, [name, word]: readonly string[]): Promise<number> {
  const action = name !== undefined && Object.hasOwn(actions, name) ? actions[name] : undefined;
  if (action === undefined) throw new UsageError(`ledger takes one of ${Object.keys(actions).join(', ')}`);
  refuseOthers(`ledger ${name}`, options, ['config', ...action.takes]);
  const id = word?.toLowerCase();
  if (action.takesId && (id === undefined || !callIdPattern.test(id))) {
    throw new UsageError(`ledger ${name} takes the id of a call, as \`callgate ledger list\` prints it`);
  }
  if (!action.takesId && word !== undefined)
    throw new UsageError(`ledger ${name} takes no argument ${JSON.stringify(word)}`);
  const run = action.prepare(id, options);

  const configuration = await loadForCommand(
    options.config ?? devFile(),
    // Nobody is let in, so nobody's tokens are needed; without a file it is the ledger of `callgate dev`.
    options.config === undefined ? { dev: true, ledgerFolder: process.cwd() } : { needsIssuer: false },
  );
  if (configuration === undefined) return exitConfiguration;
  const archive = await openArchive(configuration.ledger);
  try {
    return await run({ archive, configuration });
  } finally {
    await archive.close();
  }
}

function list(_id: string | undefined, options: CommandOptions): ReturnType<Prepare> {
  const status = readState(options.state);
  const limit = readLimit(options.limit);
  return async ({ archive }) => {
    const records = recordsOf(archive, limit, status);
    if (options.json === true) {
      await writeTexts(mapped(records, (record) => `${JSON.stringify(overviewOf(record))}\n`));
      return 0;
    }
    const rows: CallRecord[] = [];
    // Without their results, so that many rows take little.
    for await (const record of records) rows.push({ ...record, outcome: withoutResult(record.outcome) });
    process.stdout.write(table(rows));
    return 0;
  };
}

const withoutResult = (outcome: CallRecord['outcome']): CallRecord['outcome'] =>
  outcome?.error === undefined ? undefined : { status: outcome.status, error: outcome.error };

function show(id = ''): ReturnType<Prepare> {
  return async ({ archive }) => {
    const record = await archive.get(id);
    if (record === undefined) return refuse(`there is no call ${id} in this ledger`);
    process.stdout.write(`${quietJson(JSON.stringify(recordJson(record), undefined, 2))}\n`);
    return 0;
  };
}

function settle(id = '', { as: status, note = '' }: CommandOptions): ReturnType<Prepare> {
  if (status !== 'succeeded' && status !== 'failed')
    throw new UsageError('ledger settle needs --as succeeded or --as failed');
  if (note.trim() === '' || note.length > noteCharsMax)
    throw new UsageError(`ledger settle needs --note with 1 to ${noteCharsMax} characters: how you know`);
  return async ({ archive, configuration }) => {
    const user = userName();
    if (!(await archive.settle(id, status, note, user))) {
      const record = await archive.get(id);
      return refuse(
        record === undefined
          ? `there is no call ${id} in this ledger`
          : `the call ${id} is ${record.isExpired ? 'no longer kept' : record.status}; only one whose end is unknown can be settled`,
      );
    }
    const sink = new LineSink(createRedactor(configuration.secrets), standardOutput);
    createAuditTrail(sink).settledByOperator({ id, status, note, user });
    await sink.close();
    return 0;
  };
}

function exportAll(): ReturnType<Prepare> {
  return async ({ archive }) => {
    await writeTexts(mapped(recordsOf(archive), (record) => `${JSON.stringify(recordJson(record))}\n`));
    return 0;
  };
}

/** The records from the newest on, fetched as they are taken. */
async function* recordsOf(
  archive: LedgerArchive,
  limit = Number.POSITIVE_INFINITY,
  status?: RecordStatus,
): AsyncGenerator<CallRecord> {
  let before: string | undefined;
  for (let left = limit; left > 0; ) {
    const asked = Math.min(left, pageMax);
    const page = await archive.list({ status, before, limit: asked });
    yield* page;
    if (page.length < asked) return;
    left -= page.length;
    before = page.at(-1)?.id;
  }
}

async function* mapped<T>(items: AsyncIterable<T>, write: (item: T) => string): AsyncGenerator<string> {
  for await (const item of items) yield quietJson(write(item));
}

/** Writes as fast as the reader takes it; one that reads no further has seen enough. */
async function writeTexts(texts: AsyncIterable<string>): Promise<void> {
  try {
    await pipeline(texts, process.stdout, { end: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
  }
}

function refuse(message: string): number {
  process.stderr.write(`callgate: ${message}\n`);
  return exitRefused;
}

function readState(text: string | undefined): RecordStatus | undefined {
  const state = recordStatuses.find((candidate) => candidate === text);
  if (text !== undefined && state === undefined)
    throw new UsageError(`--state takes one of ${recordStatuses.join(', ')}`);
  return state;
}

function readLimit(text: string | undefined): number {
  if (text === undefined) return limitUsual;
  const limit = Number(text);
  if (!/^\d{1,5}$/.test(text) || limit < 1 || limit > limitMax)
    throw new UsageError(`--limit takes a number from 1 to ${limitMax}`);
  return limit;
}

function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // In a container the user often has a number and no name.
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
