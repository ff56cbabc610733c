import { McpError } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import { connectFailure, listFailure } from '../../../src/upstream/connect-failure.ts';
import { CredentialsRefused } from '../../../src/upstream/credentials.ts';
import { HttpFault } from '../../../src/upstream/fault.ts';
import { NotSentError } from '../../../src/upstream/stdio/batch-writer.ts';

const facts = { isConnectionOpen: true, exitCode: undefined };

describe('which answers to initialize are those of a server of the later era', () => {
  test.each([-32022, -32601, -32020])('the JSON-RPC error %i, whichever way it comes', (code) => {
    const fault = new HttpFault('status', 'it answered with HTTP 400', { status: 400, rpcCode: code });
    const missing = new HttpFault('refused', 'there is no MCP endpoint', { status: 404, rpcCode: code });
    for (const error of [new McpError(code, 'no'), fault, missing]) {
      expect(connectFailure(error, facts)).toHaveProperty('needsModern', true);
    }
  });

  test.each([
    new McpError(-32602, 'Unsupported protocol version'),
    new McpError(-32000, 'busy'),
    new HttpFault('status', 'it answered with HTTP 400', { status: 400 }),
    new HttpFault('refused', 'there is no MCP endpoint', { status: 404 }),
    new HttpFault('unreachable', 'it refused the connection'),
  ])('not: %s', (error) => {
    expect(connectFailure(error, facts)).not.toHaveProperty('needsModern');
  });

  test('an answer in a version that is not spoken here, but no end of the process before it', () => {
    const error = new Error("Server's protocol version is not supported: 2026-07-28");
    expect(connectFailure(error, facts)).toMatchObject({
      reason: 'its answer to initialize is not one of a protocol version that is spoken here',
      needsModern: true,
    });
    const ended = connectFailure(new McpError(-32000, 'Connection closed'), {
      isConnectionOpen: false,
      exitCode: 3,
    });
    expect(ended).toEqual({
      stage: 'initialize',
      reason: 'its process ended before it had answered initialize (exit code 3)',
    });
  });

  test('no end of the process right after its answer, before it was told that the handshake is over', () => {
    expect(connectFailure(new NotSentError('the server has closed its output'), facts)).toEqual({
      stage: 'initialize',
      reason: 'its process ended before it had answered initialize',
    });
  });

  test('nothing that is said to server/discover', () => {
    const modern = { ...facts, opening: 'server/discover' } as const;
    expect(connectFailure(new McpError(-32601, 'no'), modern)).toEqual({
      stage: 'initialize',
      reason: 'it refused server/discover (JSON-RPC code -32601)',
      detail: 'MCP error -32601: no',
    });
    expect(connectFailure(new McpError(-32022, 'no'), modern)).toEqual({
      stage: 'initialize',
      reason: 'it speaks no version of the MCP protocol that is spoken here',
    });
  });
});

test('credentials that cannot be got are a stage of their own, with what operators may see of the reason', () => {
  const fault = new HttpFault('refused', 'the issuer refused');
  fault.cause = new CredentialsRefused('the issuer refused', 'invalid_client');
  expect(connectFailure(fault, facts)).toEqual({
    stage: 'credentials',
    reason: 'the issuer refused',
    detail: 'invalid_client',
  });
});

test('what is kept of a long text is the beginning of it', () => {
  const { detail = '' } = connectFailure(new McpError(-32000, 'x'.repeat(1_000_000)), facts);
  expect(detail).toMatch(/^MCP error -32000: x/);
  expect(detail.length).toBeLessThan(20_000);
  expect(listFailure(new Error('y'.repeat(1_000_000))).detail?.length).toBeLessThan(20_000);
});
