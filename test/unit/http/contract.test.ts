import { describe, expect, test } from 'vitest';
import { outcomeCodes, problemCodes } from '../../../src/core/errors.ts';
import { formats } from '../../../src/formats/formats.ts';
import { endpoints } from '../../../src/http/app.ts';
import { escapeStep, faultsAgainst, follow, openapi } from '../../support/contract.ts';

type Node = Readonly<Record<string, unknown>>;
const schema = (name: string): Node => follow(`/components/schemas/${name}`).node;

/** Every object of the document with its place. */
function* nodes(value: unknown, pointer = ''): Generator<[string, Node]> {
  if (typeof value !== 'object' || value === null) return;
  yield [pointer, value as Node];
  for (const [key, member] of Object.entries(value)) yield* nodes(member, `${pointer}/${escapeStep(key)}`);
}

describe('openapi.yaml', () => {
  test('documents every route that is served, and no other', () => {
    const documented = Object.entries(openapi.paths as Node).flatMap(([path, item]) =>
      Object.keys(item as Node).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(documented.sort()).toEqual(endpoints.map(({ method, path }) => `${method} ${path}`).sort());
  });

  test('names the same codes as the tables in the code', () => {
    expect(schema('ProblemCode').enum).toEqual(Object.keys(problemCodes));
    expect(schema('OutcomeCode').enum).toEqual(Object.keys(outcomeCodes));
    const statuses = new Set(Object.values(outcomeCodes).map(({ status }) => status));
    for (const status of statuses) expect(schema('CallStatus').enum).toContain(status);
  });

  test('gives every problem code the status of the table', () => {
    const documented = Object.keys(follow('/components/responses').node).flatMap((name) => {
      const at = `/components/responses/${name}/content/application~1problem+json/schema/allOf/1/properties`;
      const { status, code } = follow(at).node as { status: Node; code: Node };
      return (code.enum as string[]).map((each) => [each, status.const] as const);
    });
    expect(Object.fromEntries(documented)).toEqual(
      Object.fromEntries(Object.entries(problemCodes).map(([code, { status }]) => [code, status])),
    );
  });

  test('names the formats that are spoken', () => {
    expect(schema('FormatName').enum).toEqual([...formats.keys()]);
  });

  test('every reference leads somewhere', () => {
    const references = [...nodes(openapi)].flatMap(([, node]) =>
      typeof node.$ref === 'string' ? [node.$ref] : [],
    );
    expect(references.length).toBeGreaterThan(100);
    for (const reference of references) expect(follow(reference.slice(1)).node, reference).toBeDefined();
  });

  test('every part of it is used', () => {
    const text = JSON.stringify(openapi);
    const parts = Object.entries(openapi.components as Node)
      .filter(([kind]) => kind !== 'securitySchemes')
      .flatMap(([kind, members]) =>
        Object.keys(members as Node).map((name) => `#/components/${kind}/${name}`),
      );
    expect(parts.filter((part) => !text.includes(`"${part}"`))).toEqual([]);
  });

  test('every body has an example, and every example fits its schema', () => {
    let count = 0;
    for (const [pointer, node] of nodes(openapi)) {
      if (/\/(examples?|default)(\/|$)/.test(pointer) || node.schema === undefined) continue;
      const examples = [
        ...('example' in node ? [node.example] : []),
        ...Object.values((node.examples ?? {}) as Record<string, Node>).map(({ value }) => value),
      ];
      if (pointer.includes('/content/')) expect(examples, pointer).not.toEqual([]);
      for (const example of examples) {
        expect(faultsAgainst(`${pointer}/schema`, example), pointer).toBe('');
        count += 1;
      }
    }
    expect(count).toBeGreaterThan(30);
  });

  test('the envelopes in its examples fit the schema of envelopes', () => {
    const envelopes = [...nodes(openapi)].flatMap(([, node]) =>
      typeof node.output === 'string' && node.output.startsWith('{"ok":') ? [node.output] : [],
    );
    expect(envelopes.length).toBeGreaterThan(1);
    for (const envelope of envelopes) {
      expect(faultsAgainst('/components/schemas/Envelope', JSON.parse(envelope))).toBe('');
    }
  });

  test('every operation has an id, a summary and a tag of its own words', () => {
    const operations = [...nodes(openapi.paths)].filter(([pointer]) =>
      /^\/[^/]+\/(get|post|delete)$/.test(pointer),
    );
    const ids = operations.map(([, node]) => node.operationId);
    expect(new Set(ids).size).toBe(endpoints.length);
    for (const [pointer, node] of operations) {
      expect(node.summary, pointer).toBeTypeOf('string');
      expect(node.tags, pointer).toHaveLength(1);
    }
  });
});
