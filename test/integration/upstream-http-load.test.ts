import { readdirSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, expect, test } from 'vitest';
import { FaultHttpServer } from '../support/fault-http-server.ts';
import { http, server, textOf, WatchedUpstreams } from '../support/upstream.ts';

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const inFlight = 64;
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
const descriptors = (): number => readdirSync('/proc/self/fd').length;

test('20,000 calls over one server leave no warning, and no memory or descriptors behind', async () => {
  const warnings: string[] = [];
  const note = (warning: Error): void => void warnings.push(warning.name);
  process.on('warning', note);
  ends.push(async () => void process.off('warning', note));
  const peer = await FaultHttpServer.start({ hasSessions: true, hasEvents: true });
  ends.push(() => peer.stop());
  const settings = server('one', http(peer.url), { concurrencyMax: inFlight });
  const watched = new WatchedUpstreams([settings]);
  ends.push(() => watched.upstreams.stop());
  await watched.upstreams.firstListings;

  let sent = 0;
  const callUntil = async (total: number): Promise<void> => {
    const caller = async (): Promise<void> => {
      while (sent < total) {
        const text = `text ${++sent}`;
        const tool = sent % 2 === 0 ? 'echo' : 'echo_stream';
        expect(textOf(await watched.call(tool, { text }))).toBe(text);
      }
    };
    await Promise.all(Array.from({ length: inFlight }, caller));
    // The peer keeps a note of each call, which is no leak of ours.
    peer.calls.length = 0;
    await nextTurn();
    collectGarbage();
  };
  const measured: { readonly heap: number; readonly open: number }[] = [];
  for (const total of [4_000, 8_000, 12_000, 16_000, 20_000]) {
    await callUntil(total);
    measured.push({ heap: process.memoryUsage().heapUsed, open: descriptors() });
  }

  expect(warnings).toEqual([]);
  expect(peer.counts).toMatchObject({ initialize: 1, 'tool:echo': 10_000, 'tool:echo_stream': 10_000 });
  // As many connections as there were calls at once, and a dozen for all else.
  expect(peer.openSockets).toBeLessThanOrEqual(inFlight + 12);
  const [first, ...later] = measured;
  for (const { open } of later) expect(open).toBeLessThanOrEqual((first?.open ?? 0) + 8);
  const growth = Math.min(...later.slice(-2).map(({ heap }) => heap)) - (first?.heap ?? 0);
  // A leak of one kilobyte a call would be 12 MB by then.
  expect(growth).toBeLessThan(4_000_000);
});
