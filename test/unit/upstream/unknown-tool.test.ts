import { describe, expect, test } from 'vitest';
import { fail, ok } from '../../../src/core/result.ts';
import { malformed } from '../../../src/upstream/fault.ts';
import { saysUnknownTool } from '../../../src/upstream/unknown-tool.ts';

const answered = (text: string, isError = true) => ok({ content: [{ type: 'text', text }], isError });
const refused = (json_rpc_code: number) =>
  fail({ ...malformed('one', 'x'), code: 'server_error' as const, details: { json_rpc_code } });

describe('a server says that it does not know a tool', () => {
  test.each([
    answered('Unknown tool: search'),
    answered('MCP error -32602: Tool search not found'),
    answered('Error: tool "search" does not exist'),
    answered('No such tool'),
    refused(-32601),
    refused(-32602),
    refused(-32020),
  ])('%j', (answer) => {
    expect(saysUnknownTool(answer)).toBe(true);
  });
});

describe('a server says something else', () => {
  test.each([
    answered('Unknown tool: search', false),
    answered('the file was not found'),
    answered(`${'x'.repeat(300)} unknown tool`),
    ok({ content: [], isError: true }),
    ok({ content: [{ type: 'image', data: '' }], isError: true }),
    refused(-32000),
    fail(malformed('one', 'tool not found')),
  ])('%j', (answer) => {
    expect(saysUnknownTool(answer)).toBe(false);
  });
});
