import { failed } from '../../src/core/outcome.ts';
import type {
  ClaimResult,
  Ledger,
  RecordQuery,
  StoredToolList,
  ToolListStore,
} from '../../src/dispatch/ports.ts';
import { LedgerUnavailable } from '../../src/dispatch/ports.ts';
import {
  type CallEnd,
  type CallRecord,
  type Claim,
  isFinal,
  isOpenRead,
  type RecordedCall,
} from '../../src/dispatch/record.ts';
import type { LedgerSettings } from '../../src/ledger/settings.ts';

type Retention = Pick<LedgerSettings, 'outputRetentionMs' | 'readOutputRetentionMs' | 'tombstoneRetentionMs'>;

/**
 * The ledger as it is meant: a map and the rules of the state machine, nothing durable. The property test holds the
 * real ledgers against it; tests of what lies above the ledger use it for its speed.
 */
export class MemoryLedger implements Ledger, ToolListStore {
  readonly records = new Map<string, CallRecord>();
  readonly toolLists = new Map<string, StoredToolList>();
  readonly cancelRequests: string[] = [];
  /** While set, everything fails. */
  brokenBy: string | undefined;

  find(key: string): CallRecord | undefined | Promise<CallRecord | undefined> {
    if (this.brokenBy !== undefined) return Promise.reject(new LedgerUnavailable(this.brokenBy));
    const record = this.records.get(key);
    return record === undefined ? undefined : Promise.resolve(record);
  }

  async claim(call: RecordedCall, status: 'received' | 'started'): Promise<ClaimResult> {
    this.#check();
    const old = this.records.get(call.key);
    if (old !== undefined && !mayBeTakenOver(old, call)) return { kind: 'known', record: old };
    const kept = old === undefined ? call : { ...call, id: old.id, createdAtMs: old.createdAtMs };
    const attempt = (old?.attempt ?? 0) + 1;
    this.records.set(call.key, {
      ...kept,
      status,
      attempt,
      attempts: old?.attempts ?? 0,
      updatedAtMs: call.createdAtMs,
      outcome: undefined,
      isExpired: false,
    });
    return { kind: 'claimed', claim: { call: kept, attempt } };
  }

  async start({ call, attempt }: Claim): Promise<boolean> {
    this.#check();
    const record = this.records.get(call.key);
    if (record?.attempt !== attempt || record.status !== 'received') return false;
    this.records.set(call.key, { ...record, status: 'started' });
    return true;
  }

  async settle({ call, attempt }: Claim, end: CallEnd): Promise<boolean> {
    this.#check();
    const record = this.records.get(call.key);
    if (record === undefined || record.attempt !== attempt) return false;
    const { status } = end.outcome;
    const isOpen = record.status === 'received' || record.status === 'started';
    const isLate =
      record.status === 'unknown' && !record.isExpired && (status === 'succeeded' || status === 'failed');
    if (!isOpen && !isLate) return false;
    this.records.set(call.key, this.#ended(record, record.attempts, end));
    return true;
  }

  async record(call: RecordedCall, end: CallEnd): Promise<void> {
    this.#check();
    const old = this.records.get(call.key);
    const isOpen = old !== undefined && old.id === call.id && isOpenRead(old, call);
    if (old !== undefined && !isOpen && !mayBeTakenOver(old, call)) return;
    const kept = old === undefined ? call : { ...call, id: old.id, createdAtMs: old.createdAtMs };
    const attempt = isOpen ? old.attempt : (old?.attempt ?? 0) + 1;
    this.records.set(
      call.key,
      this.#ended({ ...kept, attempt, isExpired: false } as CallRecord, old?.attempts ?? 0, end),
    );
  }

  async get(actor: string, id: string): Promise<CallRecord | undefined> {
    this.#check();
    return [...this.records.values()].find((record) => record.actor === actor && record.id === id);
  }

  async list(query: RecordQuery): Promise<readonly CallRecord[]> {
    this.#check();
    return [...this.records.values()]
      .filter(
        (record) =>
          record.actor === query.actor &&
          (query.callId === undefined || record.callId === query.callId) &&
          (query.run === undefined || record.run === query.run) &&
          (query.turn === undefined || record.turn === query.turn) &&
          (query.status === undefined || record.status === query.status) &&
          (query.before === undefined || record.id < query.before),
      )
      .sort((a, b) => (a.id < b.id ? 1 : -1))
      .slice(0, query.limit);
  }

  async requestCancel({ id }: CallRecord): Promise<void> {
    this.#check();
    this.cancelRequests.push(id);
  }

  async loadToolLists(): Promise<readonly StoredToolList[]> {
    this.#check();
    return [...this.toolLists.values()];
  }

  async saveToolList(list: StoredToolList): Promise<void> {
    this.#check();
    const kept = this.toolLists.get(list.alias);
    if (kept?.source === list.source && kept.readAtMs > list.readAtMs) return;
    this.toolLists.set(list.alias, list);
  }

  /** Ends the calls on their way that nobody works on any more. */
  endLost(isHeld: (id: string) => boolean, nowMs: number): void {
    for (const [key, record] of this.records) {
      if (isFinal(record.status) || isHeld(record.id)) continue;
      const outcome =
        record.status === 'started'
          ? failed('interrupted', 'interrupted')
          : failed('interrupted', 'interrupted', {
              status: 'not_sent',
              mayHaveExecuted: false,
              retryable: true,
            });
      this.records.set(key, { ...record, status: outcome.status, outcome, updatedAtMs: nowMs });
    }
  }

  /** Drops what has been kept for its time. */
  expire(nowMs: number, retention: Retention): void {
    for (const [key, record] of this.records) {
      if (!isFinal(record.status)) continue;
      const ageMs = nowMs - record.updatedAtMs;
      const isWrite = record.status !== 'rejected' && record.tool?.target.class === 'write';
      const resultMs = isWrite ? retention.outputRetentionMs : retention.readOutputRetentionMs;
      // What may be tried anew in any case needs nothing that says so.
      const leavesTombstone = record.status !== 'rejected' && record.status !== 'not_sent';
      if (ageMs < resultMs) continue;
      if (!leavesTombstone || ageMs >= retention.tombstoneRetentionMs) this.records.delete(key);
      else this.records.set(key, { ...record, outcome: undefined, isExpired: true });
    }
  }

  fault(): string | undefined {
    return this.brokenBy;
  }

  #check(): void {
    if (this.brokenBy !== undefined) throw new LedgerUnavailable(this.brokenBy);
  }

  #ended(record: CallRecord, attemptsBefore: number, { outcome, attempts, atMs }: CallEnd): CallRecord {
    return {
      ...record,
      status: outcome.status,
      outcome,
      attempts: attemptsBefore + attempts,
      updatedAtMs: atMs,
    };
  }
}

/** Whether nothing has happened under the key of a record that could happen twice. */
const mayBeTakenOver = (old: CallRecord, call: RecordedCall): boolean =>
  old.status === 'rejected' ||
  (old.fingerprint === call.fingerprint &&
    (old.status === 'not_sent' ||
      (old.status === 'unknown' &&
        !old.isExpired &&
        old.tool?.isRepeatable === true &&
        call.tool?.isRepeatable === true)));
