import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Callgate, startCallgate } from '../support/callgate.ts';
import { scriptedServer, scriptFolder } from '../support/scripted.ts';
import { until } from '../support/until.ts';

const faultServer = fileURLToPath(new URL('../support/fault-server.mjs', import.meta.url));

/** A launcher and a server below it that both ignore the end of stdin and SIGTERM. */
const stubborn = {
  command: '/bin/sh',
  args: [
    '-c',
    `trap '' TERM; '${process.execPath}' '${faultServer}' ignore-sigterm ignore-stdin-end; echo over`,
  ],
};

describe('the end of the service (O10, RL-8)', () => {
  let folder: ReturnType<typeof scriptFolder>;
  let gate: Callgate;

  beforeEach(() => {
    folder = scriptFolder();
  });
  afterEach(() => folder.remove());

  const startCall = async (limits: { drainMs?: number } = {}) => {
    const waiting = {
      definition: { name: 'wait', inputSchema: { type: 'object' } },
      waitsFor: folder.path('go'),
    };
    gate = await startCallgate({
      mcpServers: { stubborn, slow: scriptedServer(folder.path('tools.json'), [waiting]) },
      callgate: { defaults: { stopGraceMs: 300 }, limits },
    });
    const token = await gate.token(['tools:slow:*']);
    const answer = gate.call(token, 'c1', 'slow__wait', {});
    await until(() => gate.executions().length === 1);
    return { token, answer };
  };

  // `stop` of the harness fails if any process below callgate is left.
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s waits for the call that runs, refuses new ones, and leaves no process of a stubborn server behind',
    async (signal) => {
      const { token, answer } = await startCall();
      const stopped = gate.stop(signal);
      await until(async () => (await gate.get('/readyz')).status === 503);
      const refused = await gate.post<{ code: string }>('/v1/calls', {}, { token });
      expect([refused.status, refused.body.code]).toEqual([503, 'draining']);
      expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);

      writeFileSync(folder.path('go'), '');
      expect((await answer).envelope).toMatchObject({ ok: true });
      expect(await stopped).toBe(0);
    },
  );

  test('a call that runs longer than the service waits for it is answered as cancelled', async () => {
    const { answer } = await startCall({ drainMs: 100 });
    const stopped = gate.stop('SIGTERM');
    expect((await answer).envelope).toMatchObject({
      ok: false,
      error: { code: 'cancelled', may_have_executed: true, retryable: false },
    });
    expect(await stopped).toBe(0);
  });

  test('a second signal ends everything at once, and still leaves no process behind', async () => {
    const { answer } = await startCall();
    const lost = expect(answer).rejects.toThrow();
    const stopped = gate.stop('SIGTERM');
    await until(async () => (await gate.get('/readyz')).status === 503);
    const again = gate.stop('SIGTERM');
    expect(await stopped).toBe(1);
    await again;
    await lost;
  });
});
