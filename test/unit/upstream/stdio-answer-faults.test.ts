import { McpError } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import { edgeId, faultAnswer, localFault, wellFormedAnswer } from '../../../src/upstream/answer-faults.ts';

describe('the id of an answer of which only the edges are known', () => {
  test.each([
    ['{"jsonrpc":"2.0","id":7,"result":{"content":[', '"}]}}', 7],
    ['{"id":7,"jsonrpc":"2.0","result":{', '}}', 7],
    [' { "jsonrpc" : "2.0" , "id" : 7 , "error" : {', '}}', 7],
    ['{"result":{"content":[', '"}]},"jsonrpc":"2.0","id":7}', 7],
    ['{"jsonrpc":"2.0","result":{', '},"id":7}\r', 7],
    ['{"result":{', '},"id":7,"jsonrpc":"2.0"}', 7],
  ])('%s ... %s', (head, tail, id) => {
    expect(edgeId(head, tail)).toBe(id);
  });

  test.each([
    ['a request of the server', '{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{', '}}'],
    [
      'a request with its id last',
      '{"jsonrpc":"2.0","method":"sampling/createMessage","params":{',
      '},"id":7}',
    ],
    ['an id inside the result', '{"jsonrpc":"2.0","result":{"id":7,"content":[', ']}}'],
    ['an id inside the result, at its end', '{"jsonrpc":"2.0","result":{"content":[],"id":7}', ',"id":7}}'],
    ['an id inside a text', '{"jsonrpc":"2.0","result":{"text":"', ',\\"id\\":7}"}}'],
    ['a text id', '{"jsonrpc":"2.0","id":"7","result":{', '}}'],
    ['noise', 'xxxxxxxx', ',"id":7}'],
  ])('%s is not taken for it', (_name, head, tail) => {
    expect(edgeId(head, tail)).toBeUndefined();
  });
});

test('only errors made here are recognised, however alike those of a server are', () => {
  for (const fault of ['malformed_answer', 'oversize'] as const) {
    const answer = faultAnswer(1, fault);
    if (!('error' in answer)) throw new Error('an error was expected');
    const { code, message, data } = answer.error;
    expect(localFault(McpError.fromError(code, message, data))).toBe(fault);
    const copy: unknown = JSON.parse(JSON.stringify(data));
    expect(localFault(McpError.fromError(code, message, copy))).toBeUndefined();
  }
  expect(localFault(undefined)).toBeUndefined();
  expect(localFault(new Error('other'))).toBeUndefined();
});

test('a well-formed answer has only the members that are read, however odd the others are', () => {
  const result = { content: [], _meta: { trace: 'x' }, took: 3 };
  expect(wellFormedAnswer(1, { jsonrpc: '2.0', id: 1, result, error: null, took: 3 })).toEqual({
    jsonrpc: '2.0',
    id: 1,
    result: { content: [] },
  });
  expect(wellFormedAnswer(1, { result: { _meta: null } })).toEqual({ jsonrpc: '2.0', id: 1, result: {} });
  const error = { code: -32602, message: 'no such tool', data: { name: 'x' } };
  expect(wellFormedAnswer(1, { jsonrpc: '2.0', id: 1, error, result: null })).toEqual({
    jsonrpc: '2.0',
    id: 1,
    error,
  });
});

test.each([
  { result: null },
  { result: 'text' },
  { result: [] },
  { result: {}, error: { code: 1, message: 'x' } },
  { error: 'text' },
  { error: { code: 'E', message: 'x' } },
  { error: { code: 1.5, message: 'x' } },
  { error: { code: 1 } },
  {},
])('%j is not an answer', (value) => {
  expect(wellFormedAnswer(1, value)).toBeUndefined();
});
