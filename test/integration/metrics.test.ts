import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Callgate, startCallgate } from '../support/callgate.ts';
import { labConfig } from '../support/lab.ts';

describe('the metrics, on a listener of their own', () => {
  let gate: Callgate;
  let url: string;
  let text: string;

  beforeAll(async () => {
    const config = labConfig();
    gate = await startCallgate({
      mcpServers: { ...config.mcpServers, gone: { command: process.execPath, args: ['-e', '0'] } },
      callgate: { listen: { host: '127.0.0.1', port: 0, metrics: '127.0.0.1:0' } },
    });
    const token = await gate.token(['tools:lab:*']);
    await gate.call(token, 'c1', 'lab__echo', { text: 'x' });
    await gate.call(token, 'c2', 'lab__echo', { text: 'x' });
    await gate.call(token, 'c3', 'lab__echo', {});
    await gate.call(token, 'c4', 'lab__fail', {});
    await gate.call(token, 'c5', 'lab__canary_unknown', {});
    await gate.call(await gate.token(['tools:other:*']), 'c6', 'lab__echo', { text: 'x' });
    await gate.call(token, 'c1', 'lab__echo', { text: 'x' });
    await gate.call(token, 'c1', 'lab__echo', { text: 'another' });
    url = String((await gate.logged(({ event }) => event === 'service.listening')).metrics_url);
    text = await (await fetch(`${url}/metrics`)).text();
  });
  afterAll(() => gate.stop());

  test('count the calls by server, tool and code', () => {
    const count = (labels: string): number =>
      Number(text.match(new RegExp(`^callgate_calls_total\\{${labels}\\} (\\d+)$`, 'm'))?.[1]);
    expect(count('server="lab",tool="echo",code="ok"')).toBe(2);
    expect(count('server="lab",tool="echo",code="invalid_arguments"')).toBe(1);
    expect(count('server="lab",tool="echo",code="forbidden"')).toBe(1);
    expect(count('server="lab",tool="fail",code="tool_error"')).toBe(1);
    expect(count('server="",tool="",code="unknown_tool"')).toBe(1);
  });

  test('count repeats apart, and tell what is on its way and whether it can be recorded', () => {
    expect(text).toMatch(/^callgate_calls_replayed_total\{status="succeeded"\} 1$/m);
    expect(text).toMatch(/^callgate_calls_replayed_total\{status="rejected"\} 1$/m);
    expect(text).toMatch(/^callgate_calls_in_flight 0$/m);
    expect(text).toMatch(/^callgate_ledger_usable 1$/m);
    expect(text).not.toMatch(/^callgate_ledger_failures_total\{/m);
  });

  test('never take a name from outside as a label', () => {
    expect(text).not.toContain('canary_unknown');
  });

  test('tell own time and time of the servers apart, the states of connections, and the delay of the event loop', () => {
    expect(text).toMatch(/^callgate_call_overhead_seconds_count 6$/m);
    expect(text).toMatch(/^callgate_upstream_seconds_count\{server="lab"\} 3$/m);
    expect(text).toMatch(/^callgate_server_state\{server="lab",state="ready"\} 1$/m);
    expect(text).toMatch(/^callgate_server_state\{server="gone",state="(backoff|connecting)"\} 1$/m);
    expect(text).toMatch(/^nodejs_eventloop_lag_p99_seconds [\d.e-]+$/m);
  });

  test('are nowhere else', async () => {
    expect((await fetch(`${url}/v1/servers`)).status).toBe(404);
    expect((await gate.get('/metrics')).status).toBe(404);
  });
});
