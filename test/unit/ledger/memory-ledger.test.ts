import { LedgerUnavailable, type StoredToolList } from '../../../src/dispatch/ports.ts';
import type { CallRecord } from '../../../src/dispatch/record.ts';
import type { LedgerDeps, OpenLedger } from '../../../src/ledger/settings.ts';
import type { Bounds, LedgerStore } from '../../integration/ledger/bench.ts';
import { testLedgerRules } from '../../integration/ledger/suite.ts';
import { MemoryLedger } from '../../support/memory-ledger.ts';

/** What is left of a ledger that has been left. */
interface Left {
  readonly records: ReadonlyMap<string, CallRecord>;
  readonly toolLists: ReadonlyMap<string, StoredToolList>;
}

/** The model as a process has it open: it has no store but its map, and no background but what is asked for. */
class OpenMemoryLedger extends MemoryLedger implements OpenLedger {
  readonly bounds: Bounds;
  readonly deps: LedgerDeps;

  constructor(left: Left, bounds: Bounds, deps: LedgerDeps) {
    super();
    this.bounds = bounds;
    this.deps = deps;
    for (const [key, record] of left.records) this.records.set(key, record);
    for (const [alias, list] of left.toolLists) this.toolLists.set(alias, list);
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

function memoryStore(): LedgerStore {
  let left: Left = { records: new Map(), toolLists: new Map() };
  return {
    open: async (bounds, deps) => {
      const ledger = new OpenMemoryLedger(left, bounds, deps);
      left = ledger;
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
