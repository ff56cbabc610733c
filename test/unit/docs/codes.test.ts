import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { outcomeCodes, problemCodes } from '../../../src/core/errors.ts';

const page = readFileSync(new URL('../../../docs/codes.md', import.meta.url), 'utf8');

/** The rows of the table under a heading, cell by cell, without its head. */
const tableUnder = (heading: string): readonly (readonly string[])[] =>
  (page.split(`## ${heading}\n`)[1]?.split('\n## ')[0] ?? '')
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );

const yesOrNo = (value: boolean): string => (value ? 'yes' : 'no');

describe('docs/codes.md', () => {
  test('lists every problem code with its status', () => {
    const documented = tableUnder('Problems').map(([code, status]) => [code, status]);
    const known = Object.entries(problemCodes).map(([code, { status }]) => [`\`${code}\``, String(status)]);
    expect(documented).toEqual(known);
  });

  test('lists every outcome code with its state and facts', () => {
    const documented = tableUnder('Outcomes').map((cells) => cells.slice(0, 4));
    const known = Object.entries(outcomeCodes).map(([code, { status, mayHaveExecuted, retryable }]) => [
      `\`${code}\``,
      status,
      yesOrNo(mayHaveExecuted),
      yesOrNo(retryable),
    ]);
    expect(documented).toEqual(known);
  });

  test('says of every code what it means and what the caller does', () => {
    for (const cells of [...tableUnder('Problems'), ...tableUnder('Outcomes')]) {
      expect(
        cells.slice(-2).every((cell) => cell !== ''),
        cells[0],
      ).toBe(true);
    }
  });
});
