import { expect, test } from 'vitest';
import { ledger } from '../../../src/commands/ledger.ts';
import { type CommandOptions, UsageError } from '../../../src/commands/options.ts';

const id = '01890000-0000-7000-8000-000000000000';

test.each<[readonly string[], CommandOptions, string]>([
  [[], {}, 'ledger takes one of list, show, settle, export'],
  [['toString'], {}, 'ledger takes one of list, show, settle, export'],
  [['list'], { state: 'lost' }, '--state takes one of received, '],
  [['list'], { limit: '0' }, '--limit takes a number from 1 to 10000'],
  [['list'], { limit: '1e2' }, '--limit takes a number from 1 to 10000'],
  [['list', 'more'], {}, 'ledger list takes no argument "more"'],
  [['list'], { as: 'failed' }, 'ledger list does not take --as'],
  [['show'], {}, 'ledger show takes the id of a call'],
  [['show', 'call_echo'], {}, 'ledger show takes the id of a call'],
  [['show', id], { json: true }, 'ledger show does not take --json'],
  [['settle', id], { note: 'x' }, 'needs --as succeeded or --as failed'],
  [['settle', id], { as: 'unknown', note: 'x' }, 'needs --as succeeded or --as failed'],
  [['settle', id], { as: 'failed', note: ' ' }, 'needs --note'],
  [['settle', id], { as: 'failed', note: 'x'.repeat(1_001) }, 'needs --note with 1 to 1000 characters'],
])('ledger %j with %j is refused before anything is opened', async (words, options, text) => {
  const run = ledger({ config: '/nowhere.json', ...options }, words);
  await expect(run).rejects.toThrow(UsageError);
  await expect(run).rejects.toThrow(text);
});
