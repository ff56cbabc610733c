import { DatabaseError } from 'pg';
import { expect, test } from 'vitest';
import { LedgerUnavailable } from '../../../src/dispatch/ports.ts';
import {
  DatabaseSilent,
  describeFailure,
  isConnectionFailure,
  isInDoubt,
} from '../../../src/ledger/postgres-errors.ts';

const withState = (code: string): DatabaseError =>
  Object.assign(new DatabaseError('x', 1, 'error'), { code });

test.for(['57P01', '57P02', '57P03'])('%s ends a connection, and leaves in doubt what ran on it', (code) => {
  expect(isConnectionFailure(withState(code))).toBe(true);
  expect(isInDoubt(withState(code))).toBe(true);
  expect(describeFailure(withState(code))).toMatch(/^the database (?!cannot be used)/);
});

test.for([
  ['a statement that the server has refused', withState('57014'), false],
  ['our own refusal', new LedgerUnavailable('too many'), false],
  ['silence', new DatabaseSilent('no answer'), true],
] as const)('%s is no lost connection', ([, error, mayBeDone]) => {
  expect(isConnectionFailure(error)).toBe(false);
  expect(isInDoubt(error)).toBe(mayBeDone);
});
