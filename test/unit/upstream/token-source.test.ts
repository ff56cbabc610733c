import { describe, expect, test } from 'vitest';
import { Secret } from '../../../src/core/secret.ts';
import { TokenRefused } from '../../../src/upstream/oauth/token-refused.ts';
import { type IssuedToken, TokenSource } from '../../../src/upstream/oauth/token-source.ts';

const hourMs = 3_600_000;
const nothing = () => undefined;
const refusal = new TokenRefused('no token', 'in detail');

/** A source whose requests end when the test says so. */
class Bench {
  nowMs = 1_000;
  readonly asked: {
    readonly subject: string | undefined;
    readonly end: (ending: IssuedToken | Error) => void;
  }[] = [];
  readonly refused: { readonly failures: number; readonly retryInMs: number }[] = [];
  readonly source = new TokenSource({
    monotonicMs: () => this.nowMs,
    onRefused: (_, failures, retryInMs) => this.refused.push({ failures, retryInMs }),
    request: (subject) =>
      new Promise((resolve, reject) => {
        const end = (ending: IssuedToken | Error): void =>
          ending instanceof Error ? reject(ending) : resolve(ending);
        this.asked.push({ subject: subject?.reveal(), end });
      }),
  });

  headers = (subject: () => Secret | undefined = nothing) => this.source.headers(subject);

  /** Ends the last request. */
  async end(ending: string | Error, lifeMs = hourMs): Promise<void> {
    this.asked.at(-1)?.end(ending instanceof Error ? ending : { token: new Secret(ending), lifeMs });
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** A bench that has a token already. */
  static async with(token: string, lifeMs = hourMs): Promise<Bench> {
    const bench = new Bench();
    const first = bench.headers();
    await bench.end(token, lifeMs);
    expect(await first).toEqual({ authorization: `Bearer ${token}` });
    return bench;
  }
}

describe('one request for a token at a time', () => {
  test('ten who want one make one request, and later ones none', async () => {
    const bench = new Bench();
    const all = Array.from({ length: 10 }, async () => bench.headers());
    await bench.end('t1');
    expect(new Set((await Promise.all(all)).map(({ authorization }) => authorization))).toEqual(
      new Set(['Bearer t1']),
    );
    expect(bench.headers()).toEqual({ authorization: 'Bearer t1' });
    expect(bench.asked).toHaveLength(1);
  });

  test('ten who were refused with one token make one request', async () => {
    const bench = await Bench.with('t1');
    const refused = { authorization: 'Bearer t1' };
    const all = Array.from({ length: 10 }, () => bench.source.renew(refused, nothing));
    await bench.end('t2');
    expect(await Promise.all(all)).toEqual(Array.from({ length: 10 }, () => true));
    // One that comes late, with the old token, is served from what is there.
    expect(await bench.source.renew(refused, nothing)).toBe(true);
    expect(bench.asked).toHaveLength(2);
  });
});

describe('a token is replaced before it ends', () => {
  test.each([
    [hourMs, hourMs - 300_000],
    [60_000, 48_000],
    [5_000, 4_000],
  ])('of a life of %d ms after %d, while the old one is still used', async (lifeMs, refreshMs) => {
    const bench = await Bench.with('t1', lifeMs);
    bench.nowMs += refreshMs - 1;
    expect(bench.headers()).toEqual({ authorization: 'Bearer t1' });
    expect(bench.asked).toHaveLength(1);
    bench.nowMs += 1;
    expect(bench.headers()).toEqual({ authorization: 'Bearer t1' });
    expect(bench.headers()).toEqual({ authorization: 'Bearer t1' });
    expect(bench.asked).toHaveLength(2);
    await bench.end('t2', lifeMs);
    expect(bench.headers()).toEqual({ authorization: 'Bearer t2' });
  });

  test('where that fails, the old one is used to its end, and asking goes on in growing gaps', async () => {
    const bench = await Bench.with('t1');
    bench.nowMs += hourMs - 300_000;
    for (let ms = 0; ms < 290_000; ms += 100) {
      expect(bench.headers()).toEqual({ authorization: 'Bearer t1' });
      if (bench.asked.length > bench.refused.length + 1) await bench.end(refusal);
      bench.nowMs += 100;
    }
    expect(bench.refused.length).toBeGreaterThan(5);
    expect(bench.refused.length).toBeLessThan(15);
    bench.nowMs += 10_000;
    const last = Promise.resolve(bench.headers()).catch((error: unknown) => error);
    if (bench.asked.length > bench.refused.length + 1) await bench.end(refusal);
    expect(await last).toBe(refusal);
  });

  test('one that has ended is not sent', async () => {
    const bench = await Bench.with('t1', 60_000);
    bench.nowMs += 57_000;
    const next = bench.headers();
    await bench.end('t2');
    expect(await next).toEqual({ authorization: 'Bearer t2' });
  });
});

describe('an authorization server in trouble is left alone', () => {
  test('after a failure the next ones are refused without a request, for a growing while', async () => {
    const bench = new Bench();
    const gaps: number[] = [];
    for (let round = 1; round <= 8; round++) {
      const first = bench.headers();
      const caught = Promise.resolve(first).catch((error: unknown) => error);
      await bench.end(refusal);
      expect(await caught).toBe(refusal);
      expect(bench.asked).toHaveLength(round);
      await expect(bench.headers()).rejects.toBe(refusal);
      expect(bench.asked).toHaveLength(round);
      const { retryInMs } = bench.refused.at(-1) ?? { retryInMs: 0 };
      gaps.push(retryInMs);
      bench.nowMs += retryInMs + 1;
    }
    expect(gaps[0]).toBeLessThanOrEqual(2_000);
    expect(gaps.at(-1)).toBeGreaterThanOrEqual(30_000);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(60_000);
    const last = bench.headers();
    await bench.end('t1');
    expect(await last).toEqual({ authorization: 'Bearer t1' });
  });

  test('it may say itself how long', async () => {
    const bench = new Bench();
    const first = Promise.resolve(bench.headers()).catch(() => {});
    await bench.end(new TokenRefused('busy', 'in detail', { retryAfterMs: 120_000 }));
    await first;
    expect(bench.refused).toEqual([{ failures: 1, retryInMs: 120_000 }]);
  });

  test('a server that takes no token costs a token request now and then, not one for each call', async () => {
    const bench = await Bench.with('t0');
    let renewed = 0;
    for (let call = 0; call < 600; call++) {
      const given = await bench.headers();
      const outcome = bench.source.renew(given, nothing);
      if (bench.asked.length > renewed + 1) await bench.end(`t${++renewed}`);
      await outcome;
      bench.nowMs += 100;
    }
    expect(renewed).toBeGreaterThan(2);
    expect(renewed).toBeLessThan(10);
  });

  test('a token that was good for long is renewed at once when it is refused', async () => {
    const bench = await Bench.with('t0');
    for (const round of [1, 2, 3, 4, 5]) {
      bench.nowMs += 60_000;
      const outcome = bench.source.renew(await bench.headers(), nothing);
      await bench.end(`t${round}`);
      expect(await outcome).toBe(true);
    }
  });

  test('the same token once more is no reason to try again', async () => {
    const bench = await Bench.with('t1');
    const outcome = bench.source.renew({ authorization: 'Bearer t1' }, nothing);
    await bench.end('t1');
    expect(await outcome).toBe(false);
  });
});

describe('the token of a caller', () => {
  test('is looked at when one is needed, and never before', async () => {
    const bench = new Bench();
    const first = bench.headers(() => new Secret('alice-1'));
    await bench.end('t1');
    await first;
    expect(bench.headers(() => expect.fail('nothing is to be exchanged'))).toEqual({
      authorization: 'Bearer t1',
    });
    expect(bench.asked.map(({ subject }) => subject)).toEqual(['alice-1']);
  });

  test('a refused one is not tried again at once, a newer one is', async () => {
    const bench = new Bench();
    const first = Promise.resolve(bench.headers(() => new Secret('alice-1'))).catch(() => {});
    await bench.end(refusal);
    await first;
    await expect(bench.headers(() => new Secret('alice-1'))).rejects.toBe(refusal);
    expect(bench.asked).toHaveLength(1);
    const next = bench.headers(() => new Secret('alice-2'));
    await bench.end('t2');
    expect(await next).toEqual({ authorization: 'Bearer t2' });
  });
});
