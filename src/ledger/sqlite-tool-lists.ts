import { type Database, sqliteFault } from './sqlite-driver.ts';
import type { Transaction } from './sqlite-transaction.ts';
import { LoadBudget, replacesKept, type ToolListFound, type ToolListRow } from './tool-lists.ts';

/** The tool lists in a SQLite ledger, as the thread that writes sees them. They count to no bound of the calls. */
export class SqliteToolLists {
  readonly #transaction: Transaction;
  readonly #statements: ReturnType<typeof prepare>;

  constructor(database: Database, transaction: Transaction) {
    this.#transaction = transaction;
    this.#statements = prepare(database);
  }

  /** In a transaction of its own, so that no call fails with it. @throws what the driver throws */
  save({ alias, source, readAtMs, list }: ToolListRow): void {
    try {
      this.#transaction.write(list.length);
      this.#statements.save.run([alias, source, readAtMs, list]);
      this.#transaction.commit();
    } catch (error) {
      this.#transaction.rollback();
      throw error;
    }
  }

  /** All lists, the newest first; each step reads one. */
  *load(): Generator<ToolListFound, void> {
    const budget = new LoadBudget();
    for (const { alias } of this.#statements.aliases.all([])) {
      const found = this.#find(alias as string, budget.overrun);
      if (found === undefined) continue;
      if ('list' in found) budget.spend(found);
      yield found;
    }
  }

  #find(alias: string, overrun: string | undefined): ToolListFound | undefined {
    if (overrun !== undefined) return { alias, fault: overrun };
    try {
      const row = this.#statements.find.get([alias]);
      if (row === undefined) return undefined;
      const { source, read_at, list } = row;
      return { alias, source: source as string, readAtMs: read_at as number, list: list as string };
    } catch (error) {
      return { alias, fault: sqliteFault(error).message };
    }
  }
}

const prepare = (database: Database) => ({
  save: database.prepare(
    `INSERT INTO tool_lists VALUES (?, ?, ?, ?)
     ON CONFLICT (alias) DO UPDATE SET source = excluded.source, read_at = excluded.read_at, list = excluded.list
     WHERE ${replacesKept('tool_lists', 'excluded')}`,
  ),
  aliases: database.prepare('SELECT alias FROM tool_lists ORDER BY read_at DESC'),
  find: database.prepare('SELECT source, read_at, list FROM tool_lists WHERE alias = ?'),
});
