import { setImmediate } from 'node:timers/promises';
import type { EventLog } from '../core/events.ts';
import { isObject } from '../core/json.ts';
import { LedgerUnavailable, type StoredToolList, ToolListTooLarge } from '../dispatch/ports.ts';
import type { ToolDefinition, WithheldTool } from '../tools/definition.ts';
import { DamagedText } from './row.ts';

/** What one list may take in a store, as JSON. A call that comes while it is written waits for that. */
const toolListBytesMax = 8_388_608;
/** What all lists together may take that one start loads, and how long it may go on: the start waits for it. */
const loadedCharsMax = 268_435_456;
const loadMaxMs = 3_000;
/** How long the text of a list may keep the event loop before everybody else gets a turn. */
const sliceMs = 5;

/** A tool list as a store has it. */
export interface ToolListRow {
  readonly alias: string;
  readonly source: string;
  readonly readAtMs: number;
  /** JSON: the tools, and those that are withheld. */
  readonly list: string;
}

/** What a store has under an alias, or why it cannot be had. */
export type ToolListFound = ToolListRow | { readonly alias: string; readonly fault: string };

/** When a list takes the place of the one that is kept, in the SQL of both stores: see `ToolListStore`. */
export const replacesKept = (kept: string, given: string): string =>
  `${kept}.source <> ${given}.source OR ${kept}.read_at <= ${given}.read_at`;

/** How much a load may still bring. What is over it is left out: a list that is missing costs less than a late start. */
export class LoadBudget {
  readonly #endMs = performance.now() + loadMaxMs;
  #chars = 0;

  spend({ list }: ToolListRow): void {
    this.#chars += list.length;
  }

  /** Why no other list is loaded; undefined while there is room. */
  get overrun(): string | undefined {
    if (this.#chars >= loadedCharsMax) return 'newer lists of other servers take all the room there is';
    return performance.now() > this.#endMs ? 'it took too long to read the lists before it' : undefined;
  }
}

/** Gathers the lists of a store. One that cannot be read is left out, and said so in the log. */
export class LoadedToolLists {
  readonly lists: StoredToolList[] = [];
  readonly #log: EventLog;

  constructor(log: EventLog) {
    this.#log = log;
  }

  add(found: ToolListFound): void {
    if ('fault' in found) {
      this.#leaveOut(found.alias, found.fault);
      return;
    }
    try {
      this.lists.push(toolListOf(found));
    } catch (error) {
      if (!(error instanceof DamagedText)) throw error;
      this.#leaveOut(found.alias, error.message);
    }
  }

  #leaveOut(alias: string, reason: string): void {
    this.#log.warn('ledger.tool_list_left_out', { server: alias, reason });
  }
}

/** Writes a list into the store within this time. @throws LedgerUnavailable */
type Write = (row: ToolListRow, leftMs: number) => Promise<void>;

/** Saves tool lists one after another, so that the text of no more than one is in memory. */
export class ToolListSaving {
  readonly #write: Write;
  readonly #maxMs: number;
  #last: Promise<void> = Promise.resolve();

  /** @param maxMs how long a list may take, with its wait for those before it */
  constructor(write: Write, maxMs: number) {
    this.#write = write;
    this.#maxMs = maxMs;
  }

  /** @throws LedgerUnavailable, ToolListTooLarge */
  save(list: StoredToolList): Promise<void> {
    const untilMs = performance.now() + this.#maxMs;
    const saving = this.#last.then(() => this.#save(list, untilMs));
    this.#last = saving.catch(() => {});
    return saving;
  }

  async #save(list: StoredToolList, untilMs: number): Promise<void> {
    const text = performance.now() < untilMs ? await toolListText(list) : '';
    const leftMs = untilMs - performance.now();
    if (leftMs <= 0) throw new LedgerUnavailable('too many tool lists are to be saved at once');
    const { alias, source, readAtMs } = list;
    await this.#write({ alias, source, readAtMs, list: text }, leftMs);
  }
}

/** The JSON text of a list, made in slices: it may be as long as a server likes. @throws ToolListTooLarge */
async function toolListText({ alias, tools, refused }: StoredToolList): Promise<string> {
  const texts: [string[], string[]] = [[], []];
  let bytes = 0;
  let endMs = performance.now() + sliceMs;
  for (const [index, entries] of [tools, refused].entries()) {
    for (const entry of entries) {
      const text = JSON.stringify(entry);
      bytes += Buffer.byteLength(text) + 1;
      if (bytes > toolListBytesMax) throw new ToolListTooLarge(alias, toolListBytesMax);
      texts[index]?.push(text);
      if (performance.now() < endMs) continue;
      await setImmediate();
      endMs = performance.now() + sliceMs;
    }
  }
  const [ofTools, ofRefused] = texts;
  return `{"tools":[${ofTools.join(',')}],"refused":[${ofRefused.join(',')}]}`;
}

/** A list as it was saved. @throws DamagedText */
function toolListOf({ alias, source, readAtMs, list }: ToolListRow): StoredToolList {
  const { tools, refused } = parsed(list);
  if (typeof source !== 'string' || typeof readAtMs !== 'number') throw damaged();
  if (!isListOf(tools, isTool) || !isListOf(refused, isWithheld)) throw damaged();
  return { alias, source, tools, refused, readAtMs };
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // What the parser says would show a piece of it.
  }
  throw damaged();
}

const damaged = (): DamagedText => new DamagedText('the text of the list cannot be read');

const isListOf = <T>(value: unknown, isOne: (entry: unknown) => entry is T): value is readonly T[] =>
  Array.isArray(value) && value.every(isOne);

const isTool = (value: unknown): value is ToolDefinition =>
  isObject(value) &&
  typeof value.name === 'string' &&
  isObject(value.inputSchema) &&
  isTextOrNothing(value.title) &&
  isTextOrNothing(value.description) &&
  (value.annotations === undefined || isObject(value.annotations));

const isWithheld = (value: unknown): value is WithheldTool =>
  isObject(value) && typeof value.tool === 'string' && typeof value.reason === 'string';

const isTextOrNothing = (value: unknown): boolean => value === undefined || typeof value === 'string';
