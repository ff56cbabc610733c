import { afterEach, expect, test, vi } from 'vitest';
import { FaultHttpServer } from '../support/fault-http-server.ts';
import { until } from '../support/until.ts';
import { http, legacyConnection, longDeadline, toolCall } from '../support/upstream.ts';

afterEach(() => void vi.useRealTimers());

// In a file of its own: the HTTP client keeps one clock for all connections of a process, which starts with the first.
test('an answer may take longer than five minutes, in a body and in a stream', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const peer = await FaultHttpServer.start();
  const connection = legacyConnection(http(peer.url));
  expect(await connection.open()).toBeUndefined();
  const answers = ['held', 'held_stream'].map((tool) =>
    connection.callTool(toolCall(tool), longDeadline(), 1),
  );
  await peer.when(() => peer.held.length === 2);
  await vi.advanceTimersByTimeAsync(330_000);
  for (const release of peer.held) release();
  for (const answer of await Promise.all(answers))
    expect(answer).toMatchObject({ ok: true, value: { content: [{ text: 'at last' }] } });
  await connection.close();
  await peer.stop();
});

test.each([
  ['comments', ':\n'],
  ['events of a kind that nobody knows', 'event: other\ndata: x\n\n'],
])('%s without end, second after second, end the connection', async (_, line) => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const peer = await FaultHttpServer.start({ hasEvents: true });
  const lost: string[] = [];
  let seconds = 0;
  const connection = legacyConnection(http(peer.url), {
    onLost: (reason) => void lost.push(reason),
    onToolsChanged: () => {
      seconds++;
    },
  });
  expect(await connection.open()).toBeUndefined();
  await peer.when(() => peer.openStreams === 1);
  for (let second = 1; second <= 6; second++) {
    expect(lost).toEqual([]);
    peer.write(line.repeat(60_000));
    peer.notify('notifications/tools/list_changed');
    await until(() => seconds === second);
    vi.advanceTimersByTime(1_000);
  }
  expect(lost).toEqual([expect.stringContaining('that nobody had asked for')]);
  await connection.close();
  await peer.stop();
});
