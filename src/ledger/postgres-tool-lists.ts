import type { ClientBase } from 'pg';
import { ask, type Statement } from './postgres-connections.ts';
import { describeFailure, isInDoubt } from './postgres-errors.ts';
import { LoadBudget, replacesKept, type ToolListFound, type ToolListRow } from './tool-lists.ts';

/** `$1`: alias; `$2`: source; `$3`: when it was read; `$4`: the list. */
export const saveToolListStatement: Statement = {
  name: 'callgate_save_tool_list',
  text: `
    INSERT INTO callgate.tool_lists AS t (alias, source, read_at, list) VALUES ($1, $2, $3, $4)
    ON CONFLICT (alias) DO UPDATE SET source = EXCLUDED.source, read_at = EXCLUDED.read_at, list = EXCLUDED.list
    WHERE ${replacesKept('t', 'EXCLUDED')}`,
};

/** The parameters of `saveToolListStatement`. */
export const toolListParameters = ({ alias, source, readAtMs, list }: ToolListRow): readonly unknown[] => [
  alias,
  source,
  readAtMs,
  list,
];

const aliasesStatement: Statement = {
  name: 'callgate_tool_list_aliases',
  text: 'SELECT alias FROM callgate.tool_lists ORDER BY read_at DESC',
};

/** `$1`: alias. */
const toolListStatement: Statement = {
  name: 'callgate_tool_list',
  text: 'SELECT source, read_at, list FROM callgate.tool_lists WHERE alias = $1',
};

/** Reads all lists, the newest first, one at a time; `take` gets each. @throws where the database is lost meanwhile */
export async function eachToolList(client: ClientBase, take: (found: ToolListFound) => void): Promise<void> {
  const budget = new LoadBudget();
  for (const [alias] of await ask<readonly [alias: string]>(client, aliasesStatement, [])) {
    const found = await findToolList(client, alias, budget.overrun);
    if (found === undefined) continue;
    if ('list' in found) budget.spend(found);
    take(found);
  }
}

async function findToolList(
  client: ClientBase,
  alias: string,
  overrun: string | undefined,
): Promise<ToolListFound | undefined> {
  if (overrun !== undefined) return { alias, fault: overrun };
  try {
    const rows = await ask<readonly [source: string, readAtMs: number, list: string]>(
      client,
      toolListStatement,
      [alias],
    );
    const [row] = rows;
    return row === undefined ? undefined : { alias, source: row[0], readAtMs: row[1], list: row[2] };
  } catch (error) {
    if (isInDoubt(error)) throw error;
    return { alias, fault: describeFailure(error) };
  }
}
