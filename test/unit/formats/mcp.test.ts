import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../src/core/json.ts';
import { failed, type Outcome, succeeded, type ToolResult } from '../../../src/core/outcome.ts';
import { toolError } from '../../../src/dispatch/outcomes.ts';
import { mcp } from '../../../src/formats/mcp.ts';
import { faultsAgainst } from '../../support/contract.ts';

const call = { callId: 'c1', name: 'lab__x', arguments: {} };
const text = (value: string) => ({ type: 'text', text: value });

function resultOf(outcome: Outcome): JsonObject {
  const item = mcp.output(call, outcome, 'text');
  expect(faultsAgainst('/components/schemas/McpOutput', item)).toBe('');
  expect(item).toMatchObject({ id: 'c1', name: 'lab__x' });
  return item.result as JsonObject;
}

describe('an output of the neutral format', () => {
  test('is the result of the server, with all its blocks', () => {
    const result: ToolResult = {
      content: [
        text('shot'),
        { type: 'image', data: 'QUJD', mimeType: 'image/png' },
        { type: 'resource_link', uri: 'https://example.com/a', name: 'A' },
        { type: 'hologram', x: 1 },
      ],
      structuredContent: { total: 36 },
      isError: false,
    };
    expect(resultOf(succeeded(result))).toEqual(result);
  });

  test('has an empty content where the server sent none', () => {
    expect(resultOf(succeeded({ content: [], isError: false }))).toEqual({ content: [], isError: false });
    expect(resultOf(succeeded({ content: [], structuredContent: null, isError: false }))).toEqual({
      content: [],
      structuredContent: null,
      isError: false,
    });
  });

  test('flags the failure of a tool, keeps its words and tells programs the code (O07)', () => {
    const outcome = toolError({
      content: [text('quota exceeded')],
      structuredContent: { error: 1 },
      isError: true,
    });
    expect(resultOf(outcome)).toMatchObject({
      content: [text('quota exceeded')],
      structuredContent: { error: 1 },
      isError: true,
      _meta: { 'callgate/error': { code: 'tool_error', may_have_executed: true } },
    });
    expect(resultOf(toolError({ content: [], isError: true })).content).toEqual([
      text('the tool reported an error without text'),
    ]);
  });

  test('puts an error of callgate into words', () => {
    expect(
      resultOf(failed('forbidden', 'it needs a grant', { details: { missing_grant: 'tools:a:b:read' } })),
    ).toEqual({
      content: [text('forbidden: it needs a grant')],
      isError: true,
      _meta: {
        'callgate/error': {
          code: 'forbidden',
          message: 'it needs a grant',
          may_have_executed: false,
          retryable: false,
          missing_grant: 'tools:a:b:read',
        },
      },
    });
  });

  test('carries remarks apart from the content', () => {
    expect(resultOf(succeeded({ content: [text('saved')], isError: false }, ['a remark']))).toEqual({
      content: [text('saved')],
      isError: false,
      _meta: { 'callgate/warnings': ['a remark'] },
    });
  });
});

describe('calls of the neutral format', () => {
  test('are read from a list or alone', () => {
    const read = { callId: '1', name: 'lab__x', arguments: { a: 1 } };
    const item = { id: '1', name: 'lab__x', arguments: { a: 1 } };
    expect(mcp.readTurn(item)).toEqual({ ok: true, value: [{ index: 0, pointer: '', call: read }] });
    expect(mcp.readTurn([item])).toEqual({ ok: true, value: [{ index: 0, pointer: '/0', call: read }] });
    expect(mcp.readTurn([])).toEqual({ ok: true, value: [] });
  });

  test('are refused with the place of every fault', () => {
    const read = mcp.readTurn([{ id: '', name: 5 }, 'x']);
    expect(read).toMatchObject({
      ok: false,
      error: [{ pointer: '/0/id' }, { pointer: '/0/name' }, { pointer: '/1' }],
    });
    expect(mcp.readTurn('x').ok).toBe(false);
  });
});
