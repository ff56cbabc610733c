import { McpError } from '@modelcontextprotocol/sdk/types.js';
import { expect, test } from 'vitest';
import { NotSentError } from '../../../src/upstream/batch-writer.ts';
import { CallTimeout, ConnectionEnded } from '../../../src/upstream/call-channel.ts';
import { type CallFacts, classifyFault, HttpFault, type HttpFaultKind } from '../../../src/upstream/fault.ts';

const facts: CallFacts = {
  alias: 'docs',
  timeoutMs: 60_000,
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
  expect(classifyFault(new CallTimeout(), facts)).toMatchObject({
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
