import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { createTestService, functionCall, tool } from '../../support/service.ts';

const scopes = ['tools:slow:*', 'tools:plain:*'];
const object = (schema: JsonObject): JsonObject => ({ type: 'object', ...schema });
const tree = (levels: number): JsonObject =>
  levels === 0 ? { type: 'string' } : { anyOf: [tree(levels - 1), tree(levels - 1)] };

describe('schemas and patterns that would stop the process (O23)', () => {
  const service = createTestService({
    servers: [
      {
        alias: 'slow',
        tools: [
          tool('pattern', object({ properties: { p: { type: 'string', pattern: '^(a+)+$' } } })),
          tool('names', object({ patternProperties: { '^(a+)+$': false } })),
          tool('heavy', object({ properties: { p: { pattern: '^((a{0,30}){0,30})$' } } })),
          tool('tree', object({ properties: { p: tree(14) } })),
          tool('list', object({ properties: { p: { enum: Array.from({ length: 500_000 }, String) } } })),
        ],
      },
      { alias: 'plain', tools: [tool('echo')] },
    ],
  });
  const codeOf = async (name: string, input: unknown): Promise<string | null> =>
    (await service.post('/v1/calls', functionCall(name, name, input), { scopes })).headers.get(
      'callgate-code',
    );

  test('end with an answer, or are withheld when the list is read, and harm no other tool', async () => {
    const evil = `${'a'.repeat(30)}!`;
    expect(await codeOf('slow__pattern', { p: evil })).toBe('invalid_arguments');
    expect(await codeOf('slow__names', { [evil]: 1 })).toBeNull();
    expect(await codeOf('slow__heavy', { p: `${'a'.repeat(300_000)}!` })).toBe('invalid_arguments');
    const { withheld } = service.service.dispatch.registry();
    expect(withheld.get('slow')?.map((one) => one.tool)).toEqual(['tree', 'list']);
    expect(await codeOf('plain__echo', {})).toBeNull();
  }, 30_000);

  // Not by the clock: what counts is that the event loop turns between two of them, however long each one takes.
  test('let everything else go on between any two slow validations of one turn', async () => {
    const clock = { monotonicMs: () => performance.now(), nowMs: () => Date.now() };
    Object.assign(service.service.dispatch, { clock });
    const input = { p: `${'a'.repeat(200_000)}!` };
    const slow = Array.from({ length: 5 }, (_, index) => functionCall(`c${index}`, 'slow__heavy', input));
    const before = service.finished.length;
    const seen = [0];
    let isOver = false;
    const look = (): void => {
      seen.push(service.finished.length - before);
      if (!isOver) setImmediate(look);
    };
    look();
    await service.post('/v1/turns', slow, { scopes });
    isOver = true;
    seen.push(service.finished.length - before);

    expect(seen.at(-1)).toBe(slow.length);
    const jumps = seen.slice(1).map((count, index) => count - (seen[index] ?? 0));
    expect(Math.max(...jumps)).toBe(1);
  }, 30_000);
});
