import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { formats } from '../../../src/formats/formats.ts';

const page = readFileSync(new URL('../../../docs/formats.md', import.meta.url), 'utf8');

/** The rows of the table under a heading that begin with a format, cell by cell. */
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

test('docs/formats.md says of every format what it has', () => {
  const known = [...formats.values()].map(({ name, options, defaultRender, toolsMax }) => [
    `\`${name}\``,
    [...options].map((option) => `\`${option}\``).join(' '),
    `\`${defaultRender}\``,
    String(toolsMax ?? ''),
  ]);
  expect(tableUnder('The formats').map(([name, , ...facts]) => [name, ...facts])).toEqual(known);
});

test.each(['What is sent, and what comes back', 'What the caller keeps', 'What is lost'])(
  'docs/formats.md has every format under "%s"',
  (heading) => {
    expect(tableUnder(heading).map(([name]) => name)).toEqual(
      [...formats.keys()].map((name) => `\`${name}\``),
    );
  },
);

test('there is a loop for every format of a provider', () => {
  const loops = readdirSync(new URL('../../../examples/loops', import.meta.url));
  for (const name of formats.keys()) if (name !== 'mcp') expect(loops).toContain(`${name}.ts`);
});
