import { describe, expect, test } from 'vitest';
import { Breaker } from '../../../src/upstream/breaker.ts';

let nowMs: number;
function newBreaker(): Breaker {
  nowMs = 1_000;
  // The shortest pause that a step of the growth allows.
  return new Breaker(
    () => nowMs,
    () => 0,
  );
}
function fail(breaker: Breaker, times: number): void {
  for (let time = 0; time < times; time++) {
    nowMs += 1;
    breaker.failed(breaker.admit(), nowMs);
  }
}

describe('a breaker', () => {
  test('opens after five failures in a row, and answers at once from then on', () => {
    const breaker = newBreaker();
    fail(breaker, 4);
    expect([breaker.state, breaker.admit()]).toEqual(['closed', 'pass']);
    fail(breaker, 1);
    expect([breaker.state, breaker.admit(), breaker.isPassable]).toEqual(['open', 'refused', false]);
    expect(breaker.waitMs).toBe(500);
  });

  test('counts only failures in a row', () => {
    const breaker = newBreaker();
    fail(breaker, 4);
    breaker.succeeded();
    fail(breaker, 4);
    expect(breaker.state).toBe('closed');
  });

  test('takes no failure of a call during which another one was answered', () => {
    const breaker = newBreaker();
    const startedMs = nowMs;
    nowMs += 10;
    breaker.succeeded();
    for (let time = 0; time < 20; time++) breaker.failed('pass', startedMs);
    expect(breaker.state).toBe('closed');
  });

  test('lets a single probe through after the pause, and closes when it is answered', () => {
    const breaker = newBreaker();
    fail(breaker, 5);
    nowMs += 500;
    expect(breaker.state).toBe('half_open');
    expect([breaker.admit(), breaker.admit(), breaker.isPassable]).toEqual(['probe', 'refused', false]);
    nowMs += 1;
    breaker.succeeded();
    expect([breaker.state, breaker.admit()]).toEqual(['closed', 'pass']);
  });

  test('pauses twice as long after each probe that fails, up to half a minute', () => {
    const breaker = newBreaker();
    fail(breaker, 5);
    const pauses = [breaker.waitMs];
    for (let probe = 0; probe < 8; probe++) {
      nowMs += breaker.waitMs;
      expect(breaker.admit()).toBe('probe');
      breaker.failed('probe', nowMs);
      pauses.push(breaker.waitMs);
    }
    expect(pauses).toEqual([500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000, 15_000]);
  });

  test('calls that were already under way when it opened do not make its pause longer', () => {
    const breaker = newBreaker();
    fail(breaker, 5);
    const { waitMs } = breaker;
    for (let call = 0; call < 20; call++) breaker.failed('pass', nowMs);
    expect(breaker.waitMs).toBe(waitMs);
  });

  test('a call from before it opened does not stand for the probe that is under way', () => {
    const breaker = newBreaker();
    const startedMs = nowMs;
    fail(breaker, 5);
    nowMs += 500;
    expect(breaker.admit()).toBe('probe');
    breaker.failed('pass', startedMs);
    expect([breaker.state, breaker.admit()]).toEqual(['half_open', 'refused']);
    nowMs += 1;
    breaker.failed('probe', nowMs);
    expect(breaker.waitMs).toBe(1_000);
  });

  test('tells a time to wait also while it probes, and a probe that lasts does not keep it shut', () => {
    const breaker = newBreaker();
    fail(breaker, 5);
    nowMs += 500;
    expect(breaker.admit()).toBe('probe');
    expect([breaker.admit(), breaker.waitMs]).toEqual(['refused', 1_000]);
    nowMs += 30_000;
    expect([breaker.isPassable, breaker.waitMs, breaker.admit()]).toEqual([true, 0, 'probe']);
  });

  test('a probe that says nothing gives the next call its place', () => {
    const breaker = newBreaker();
    fail(breaker, 5);
    nowMs += 500;
    expect(breaker.admit()).toBe('probe');
    breaker.abandoned();
    expect(breaker.admit()).toBe('probe');
  });
});
