import { McpError } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import { faultAnswer } from '../../../src/upstream/answer-faults.ts';
import { CallCancelled, CallTimeout, ConnectionEnded } from '../../../src/upstream/call-channel.ts';
import {
  afterUnknown,
  type CallFacts,
  classifyFault,
  HttpFault,
  type HttpFaultKind,
  resendAfter,
} from '../../../src/upstream/fault.ts';
import { NotSentError } from '../../../src/upstream/stdio/batch-writer.ts';

const noSilence = { isServerSilent: false, isOldest: true };
const facts: CallFacts = {
  alias: 'docs',
  redact: (text) => text.replaceAll('T3', '[redacted]'),
};

test.each([-32700, -32600, -32601, -32602])('JSON-RPC %i says that the tool did not run', (code) => {
  expect(classifyFault(new McpError(code, 'no'), facts)).toMatchObject({
    code: 'server_error',
    sent: true,
    mayHaveExecuted: false,
    details: { json_rpc_code: code },
  });
});

test.each([-32603, -32000, -32001, 1])(
  'JSON-RPC %i leaves it open, whatever the SDK uses the code for',
  (code) => {
    expect(classifyFault(new McpError(code, 'no'), facts)).toMatchObject({
      code: 'server_error',
      mayHaveExecuted: true,
    });
  },
);

test('the words of a server are redacted, cut and kept on one line', () => {
  const { message } = classifyFault(new McpError(-32603, `T3\r\n${'x'.repeat(2_000)}`), facts);
  expect(message).toContain('error: [redacted] xxx');
  expect(message).not.toContain('MCP error');
  expect(message).not.toMatch(/[\r\n]/);
  expect(message.length).toBeLessThan(700);
});

test('the end of the connection and the end of the time are told apart', () => {
  expect(classifyFault(new ConnectionEnded(), facts)).toMatchObject({ code: 'connection_lost', sent: true });
  expect(classifyFault(new CallTimeout({ ms: 60_000, kind: 'answer' }, noSilence), facts)).toMatchObject({
    code: 'timeout',
    sent: true,
    message: expect.stringContaining('60000 ms'),
  });
});

test('a call that was never written was not sent', () => {
  expect(classifyFault(new NotSentError('x'), facts)).toMatchObject({
    code: 'server_unavailable',
    sent: false,
  });
});

test('an answer that the transport of the SDK cannot read is the fault of the peer', () => {
  const fault = classifyFault(new TypeError('secret detail'), facts);
  expect(fault).toMatchObject({ code: 'protocol_error', mayHaveExecuted: true });
  expect(fault.message).not.toContain('secret detail');
});

test.each<[HttpFaultKind, string, boolean]>([
  ['unreachable', 'server_unavailable', false],
  ['refused', 'server_unavailable', false],
  ['session_lost', 'server_unavailable', false],
  ['cut', 'connection_lost', true],
  ['malformed', 'protocol_error', true],
  ['oversize', 'output_too_large', true],
  ['status', 'protocol_error', true],
])('an HTTP exchange that ended %s is %s', (kind, code, wasSent) => {
  const data = new HttpFault(kind, 'for a reason');
  expect(classifyFault(new McpError(-32000, 'x', data), facts)).toMatchObject({
    code,
    sent: wasSent,
    mayHaveExecuted: wasSent,
  });
});

test('data that a server sent is never taken for a fault that was seen here', () => {
  const data = JSON.parse(JSON.stringify(new HttpFault('refused', 'x')));
  expect(classifyFault(new McpError(-32000, 'x', data), facts)).toMatchObject({
    code: 'server_error',
    sent: true,
  });
});

test.each([
  ['answer', 'did not answer within 500 ms'],
  ['silence', 'neither answered nor told of progress for 500 ms'],
  ['total', 'did not answer within 500 ms, the longest that a call of this tool may take'],
] as const)('a time-out names the limit that it met (%s)', (kind, words) => {
  const { message } = classifyFault(new CallTimeout({ ms: 500, kind }, noSilence), facts);
  expect(message).toContain(words);
  expect(message).toContain('check its effect before you call it again');
});

test.each([
  ['its caller has left', 'its caller has left'],
  [undefined, 'nobody waits for it any more'],
])('a cancelled call says why (%s)', (reason, words) => {
  const controller = new AbortController();
  controller.abort(reason);
  expect(classifyFault(new CallCancelled(controller.signal), facts)).toMatchObject({
    code: 'cancelled',
    sent: true,
    mayHaveExecuted: true,
    message: expect.stringContaining(words),
  });
});

describe('whether a call may be sent once more', () => {
  const http = (kind: HttpFaultKind, status?: number): Error =>
    new McpError(-32000, 'x', new HttpFault(kind, 'x', status === undefined ? {} : { status }));
  const mark = (fault: 'oversize' | 'malformed_answer'): Error => {
    const answer = faultAnswer(1, fault);
    return new McpError(-32603, 'x', 'error' in answer ? answer.error.data : undefined);
  };

  test.each<[string, Error, string]>([
    ['never written', new NotSentError('x'), 'always'],
    ['refused with its session', http('session_lost'), 'always'],
    ['cut by the end of the connection', new ConnectionEnded(), 'if_repeatable'],
    ['cut', http('cut'), 'if_repeatable'],
    ['answered with garbage', http('malformed'), 'if_repeatable'],
    ['answered with garbage over stdio', mark('malformed_answer'), 'if_repeatable'],
    ['HTTP 502', http('status', 502), 'if_repeatable'],
    ['HTTP 400', http('status', 400), 'never'],
    ['refused', http('refused', 401), 'never'],
    ['unreachable', http('unreachable'), 'never'],
    ['oversize', http('oversize'), 'never'],
    ['oversize over stdio', mark('oversize'), 'never'],
    ['out of time', new CallTimeout({ ms: 1, kind: 'answer' }, noSilence), 'never'],
    ['cancelled', new CallCancelled(AbortSignal.abort('x')), 'never'],
    ['a JSON-RPC error', new McpError(-32603, 'no'), 'never'],
    ['a wish for input', new McpError(-32042, 'open this'), 'never'],
  ])('%s', (_name, error, expected) => {
    expect(resendAfter(error, classifyFault(error, facts))).toBe(expected);
  });
});

test('after a sending that nobody knows the end of, no later one proves that nothing was run', () => {
  const earlier = classifyFault(new ConnectionEnded(), facts);
  expect(afterUnknown(earlier, classifyFault(new NotSentError('x'), facts))).toBe(earlier);
  expect(afterUnknown(earlier, classifyFault(new McpError(-32602, 'no'), facts))).toMatchObject({
    code: 'server_error',
    mayHaveExecuted: true,
  });
});
