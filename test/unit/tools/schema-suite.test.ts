import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { JsonValue } from '../../../src/core/json.ts';
import { gateSchema } from '../../../src/tools/schema-gate.ts';
import { compileValidator } from '../../../src/tools/validator.ts';
import { describeWithShared, sharedPath } from '../../support/shared.ts';
import expected from './schema-suite.expected.json' with { type: 'json' };

interface Group {
  readonly description: string;
  readonly schema: JsonValue;
  readonly tests: readonly {
    readonly description: string;
    readonly data: JsonValue;
    readonly valid: boolean;
  }[];
}

/** What callgate does with a group or a test, where it is not what the suite asks for. */
type Verdict = 'withheld' | 'does not compile' | 'accepts invalid' | 'refuses valid';

const suite = 'vectors/json-schema-test-suite/tests';
const dialects = {
  draft7: 'http://json-schema.org/draft-07/schema#',
  'draft2019-09': 'https://json-schema.org/draft/2019-09/schema',
  'draft2020-12': 'https://json-schema.org/draft/2020-12/schema',
};

/** Every known failure: by dialect, file and name, its verdict and the reason. */
const known: Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>>> =
  expected;

function deviationsOf(group: Group, dialect: string): [name: string, verdict: Verdict][] {
  // Tools have objects as schemas; a boolean one is wrapped.
  const schema = typeof group.schema === 'boolean' ? { allOf: [group.schema] } : group.schema;
  const gated = gateSchema({ $schema: dialect, ...(schema as object) }, 'output');
  if (!gated.ok) return [[group.description, 'withheld']];
  const validator = compileValidator(gated.value);
  if (!validator.ok) return [[group.description, 'does not compile']];
  return group.tests.flatMap(({ description, data, valid }): [string, Verdict][] =>
    (validator.value(data).length === 0) === valid
      ? []
      : [[`${group.description} > ${description}`, valid ? 'refuses valid' : 'accepts invalid']],
  );
}

describeWithShared(suite, 'the official JSON Schema suite', () => {
  for (const [folder, dialect] of Object.entries(dialects)) {
    test(`${folder} fails where it is known to fail, and nowhere else`, () => {
      const files = readdirSync(sharedPath(`${suite}/${folder}`)).filter((name) => name.endsWith('.json'));
      expect(files.length).toBeGreaterThan(30);
      for (const file of files) {
        const groups = JSON.parse(readFileSync(sharedPath(`${suite}/${folder}/${file}`), 'utf8')) as Group[];
        const found = Object.fromEntries(groups.flatMap((group) => deviationsOf(group, dialect)));
        const listed = Object.entries(known[folder]?.[file] ?? {}).map(([name, [verdict]]) => [
          name,
          verdict,
        ]);
        expect(found, `${folder}/${file}`).toEqual(Object.fromEntries(listed));
      }
    });
  }

  test('every known failure has a reason, and those that accept invalid data are the two of SC-11', () => {
    const entries = Object.values(known).flatMap((files) =>
      Object.values(files).flatMap((names) => Object.entries(names)),
    );
    for (const [name, [, reason]] of entries) expect(reason, name).toMatch(/^[A-Z]+-?\d*: \S/);
    expect(
      new Set(entries.filter(([, [verdict]]) => verdict === 'accepts invalid').map(([name]) => name)),
    ).toEqual(
      new Set([
        'unevaluatedItems with nested items > with invalid additional item',
        'unevaluatedProperties with if/then/else, then not defined > when if is false and has unevaluated properties',
      ]),
    );
  });
});
