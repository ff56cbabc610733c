import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Caller } from '../../../src/dispatch/ports.ts';
import { Pool, type PoolLimits } from '../../../src/upstream/pool.ts';
import type { Supervisor } from '../../../src/upstream/supervisor.ts';
import { someone } from '../../support/upstream.ts';

/** What stands for a connection: it only notes when it is made and closed, and closes when it is told to. */
interface FakeSupervisor {
  readonly caller: () => Caller;
  readonly after: Promise<void> | undefined;
  isStopped: boolean;
  finish: () => void;
}

let made: FakeSupervisor[];
const newPool = (limits: Partial<PoolLimits> = {}): Pool =>
  new Pool(
    { connectionsMax: 3, idleMs: 1_000, ...limits },
    () => performance.now(),
    (caller, after) => {
      const fake: FakeSupervisor = { caller, after, isStopped: false, finish: () => {} };
      made.push(fake);
      return {
        connection: {},
        stop: () =>
          new Promise<void>((resolve) => {
            fake.isStopped = true;
            fake.finish = resolve;
          }),
      } as unknown as Supervisor;
    },
  );
const stopped = (): boolean[] => made.map(({ isStopped }) => isStopped);

beforeEach(() => {
  made = [];
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('a pool of connections', () => {
  test('has one for each key, and no key gets that of another', () => {
    const pool = newPool();
    const [a, b, again] = [pool.take('a', someone), pool.take('b', someone), pool.take('a', someone)];
    expect(again?.supervisor).toBe(a?.supervisor);
    expect(b?.supervisor).not.toBe(a?.supervisor);
    expect([made.length, pool.size, pool.connections]).toEqual([2, 2, 2]);
  });

  test('is bounded: the one that was unused longest makes room, one in use never does', () => {
    const pool = newPool();
    const leases = ['a', 'b', 'c'].map((key) => pool.take(key, someone));
    expect(pool.take('d', someone)).toBeUndefined();
    for (const lease of leases) if (lease !== undefined) pool.release(lease);
    const a = pool.take('a', someone);
    expect(pool.take('d', someone)).toBeDefined();
    expect(stopped()).toEqual([false, true, false, false]);
    expect(a?.endReason).toBeUndefined();
  });

  test('closes what was unused for its time, and nothing else', () => {
    const pool = newPool();
    const [a, b] = [pool.take('a', someone), pool.take('b', someone)];
    if (a === undefined || b === undefined) throw new Error('no place');
    pool.release(a);
    vi.advanceTimersByTime(600);
    pool.take('c', someone);
    vi.advanceTimersByTime(400);
    expect(stopped()).toEqual([true, false, false]);
    pool.release(b);
    vi.advanceTimersByTime(999);
    expect(stopped()).toEqual([true, false, false]);
    vi.advanceTimersByTime(1);
    expect(stopped()).toEqual([true, true, false]);
  });

  test('tells a call whose connection it closes why', async () => {
    const pool = newPool();
    const lease = pool.take('a', someone);
    const ended = pool.end('a', 'its run was ended');
    expect(lease?.endReason).toBe('its run was ended');
    made[0]?.finish();
    await ended;
    await pool.end('nobody', 'its run was ended');
  });

  test('opens the next connection of a key only when the last one is closed', async () => {
    const pool = newPool();
    pool.take('a', someone);
    void pool.end('a', 'its run was ended');
    pool.take('a', someone);
    let isOver = false;
    void made[1]?.after?.then(() => {
      isOver = true;
    });
    await Promise.resolve();
    expect(isOver).toBe(false);
    made[0]?.finish();
    await made[1]?.after;
    expect(made[1]?.after).toBeDefined();
  });

  test('counts what is still closing: the next connection waits for its place', async () => {
    const pool = newPool({ connectionsMax: 2 });
    pool.take('a', someone);
    const ended = pool.end('a', 'its run was ended');
    pool.take('b', someone);
    expect(made[1]?.after).toBeUndefined();
    pool.take('c', someone);
    let isOver = false;
    void made[2]?.after?.then(() => {
      isOver = true;
    });
    await Promise.resolve();
    expect([made[2]?.after, isOver]).toEqual([expect.any(Promise), false]);
    made[0]?.finish();
    await ended;
    await made[2]?.after;
    expect(isOver).toBe(true);
  });

  test('knows the newest token of whoever uses a connection', () => {
    const pool = newPool();
    pool.take('a', { ...someone, requestId: 'first' });
    pool.take('a', { ...someone, requestId: 'second' });
    expect(made[0]?.caller().requestId).toBe('second');
  });
});
