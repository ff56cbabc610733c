import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import type { CallRecord } from '../../../src/dispatch/record.ts';
import type { LedgerDeps, OpenLedger } from '../../../src/ledger/settings.ts';
import type { Bounds, LedgerStore } from '../../integration/ledger/bench.ts';
import { testLedgerRules } from '../../integration/ledger/suite.ts';
import { MemoryLedger } from '../../support/memory-ledger.ts';

/** The model as a process has it open: it has no store but its map, and no background but what is asked for. */
class OpenMemoryLedger extends MemoryLedger implements OpenLedger {
  readonly bounds: Bounds;
  readonly deps: LedgerDeps;

  constructor(records: ReadonlyMap<string, CallRecord>, bounds: Bounds, deps: LedgerDeps) {
    super();
    this.bounds = bounds;
    this.deps = deps;
    for (const [key, record] of records) this.records.set(key, record);
    this.endLost(() => false, deps.nowMs());
  }

  override async requestCancel(record: CallRecord): Promise<void> {
    await super.requestCancel(record);
    this.deps.onCancelRequested(record.id);
  }

  async close(): Promise<void> {
    this.brokenBy = 'the ledger is closed';
  }
}

/** What is left of a ledger that has been left. */
function memoryStore(): LedgerStore {
  let records: ReadonlyMap<string, CallRecord> = new Map();
  return {
    open: async (bounds, deps) => {
      const ledger = new OpenMemoryLedger(records, bounds, deps);
      records = ledger.records;
      return ledger;
    },
    crash: async (ledger) => ledger.close(),
    maintain: async (ledger) => {
      if (!(ledger instanceof OpenMemoryLedger)) throw new LedgerUnavailable('this is another ledger');
      const { bounds, deps } = ledger;
      ledger.endLost(deps.isHeld, deps.nowMs());
      ledger.expire(deps.nowMs(), bounds);
    },
    remove: async () => {},
  };
}

testLedgerRules('the model of the ledger', async () => memoryStore());
