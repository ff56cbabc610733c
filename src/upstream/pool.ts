import type { CancelReason } from '../dispatch/calls-in-flight.ts';
import type { Caller } from '../dispatch/ports.ts';
import type { Supervisor } from './supervisor.ts';

/** Bounds of a pool. */
export interface PoolLimits {
  readonly connectionsMax: number;
  /** How long a connection may be without a call before it is closed. */
  readonly idleMs: number;
}

/** A connection in use. Whoever took it gives it back with `release` after the call. */
export interface Lease {
  readonly supervisor: Supervisor;
  /** Why the pool has closed it in the middle of the call. */
  readonly endReason: CancelReason | undefined;
}

/**
 * Makes what keeps the connection of one key up.
 * @param caller whoever used it last: of one key it is always the same actor, but with newer tokens
 * @param after what has to have ended before
 */
export type NewSupervisor = (caller: () => Caller, after: Promise<void> | undefined) => Supervisor;

interface Entry extends Lease {
  readonly key: string;
  readonly supervisor: Supervisor;
  caller: Caller;
  calls: number;
  /** Monotonic; when its last call ended. */
  idleSinceMs: number;
  endReason: CancelReason | undefined;
}

/**
 * The connections of one server that belong to an actor or a run each, by key. Never two for one key, never one for
 * two keys; what nobody uses is closed, the one that was unused longest first (MT-7).
 */
export class Pool {
  readonly #limits: PoolLimits;
  readonly #monotonicMs: () => number;
  readonly #newSupervisor: NewSupervisor;
  /** In the order of their last use. */
  readonly #entries = new Map<string, Entry>();
  /** The last connection of a key must have ended before it gets the next one. */
  readonly #closing = new Map<string, Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(limits: PoolLimits, monotonicMs: () => number, newSupervisor: NewSupervisor) {
    this.#limits = limits;
    this.#monotonicMs = monotonicMs;
    this.#newSupervisor = newSupervisor;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Open connections. */
  get connections(): number {
    return [...this.#entries.values()].filter(({ supervisor }) => supervisor.connection !== undefined).length;
  }

  /** The connection of this key, if there is a place for it already. */
  peek(key: string): Supervisor | undefined {
    return this.#entries.get(key)?.supervisor;
  }

  /** The connection of this key, new where there was none; undefined where all places are taken by calls. */
  take(key: string, caller: Caller): Lease | undefined {
    const entry = this.#entries.get(key) ?? this.#add(key, caller);
    if (entry === undefined) return undefined;
    entry.caller = caller;
    entry.calls++;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    return entry;
  }

  /** Closes the connection of a key, with what runs on it. */
  async end(key: string, reason: CancelReason): Promise<void> {
    const entry = this.#entries.get(key);
    if (entry !== undefined) await this.#close(entry, reason);
  }

  async stop(reason: CancelReason): Promise<void> {
    clearTimeout(this.#timer);
    for (const entry of this.#entries.values()) void this.#close(entry, reason);
    await Promise.all(this.#closing.values());
  }

  #add(key: string, caller: Caller): Entry | undefined {
    if (this.#entries.size >= this.#limits.connectionsMax) {
      const unused = [...this.#entries.values()].find(({ calls }) => calls === 0);
      if (unused === undefined) return undefined;
      void this.#close(unused);
    }
    // What is still closing takes a place too: however fast callers come and go, there are never more processes.
    const isFull = this.#entries.size + this.#closing.size >= this.#limits.connectionsMax;
    const after = isFull ? Promise.all(this.#closing.values()).then(() => {}) : this.#closing.get(key);
    const entry: Entry = {
      key,
      caller,
      supervisor: this.#newSupervisor(() => entry.caller, after),
      calls: 0,
      idleSinceMs: this.#monotonicMs(),
      endReason: undefined,
    };
    this.#entries.set(key, entry);
    return entry;
  }

  /** Gives back what `take` gave. */
  release(lease: Lease): void {
    const entry = lease as Entry;
    entry.calls--;
    entry.idleSinceMs = this.#monotonicMs();
    if (this.#timer === undefined) this.#closeIdleIn(this.#limits.idleMs);
  }

  #closeIdleIn(waitMs: number): void {
    this.#timer = setTimeout(() => this.#closeIdle(), waitMs);
    this.#timer.unref();
  }

  #closeIdle(): void {
    this.#timer = undefined;
    const now = this.#monotonicMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const entry of this.#entries.values()) {
      if (entry.calls > 0) continue;
      const leftMs = entry.idleSinceMs + this.#limits.idleMs - now;
      if (leftMs <= 0) void this.#close(entry);
      else nextMs = Math.min(nextMs, leftMs);
    }
    if (nextMs !== Number.POSITIVE_INFINITY) this.#closeIdleIn(nextMs);
  }

  #close(entry: Entry, reason?: CancelReason): Promise<void> {
    const { key, supervisor } = entry;
    entry.endReason = reason;
    this.#entries.delete(key);
    const closed = supervisor.stop().finally(() => {
      if (this.#closing.get(key) === closed) this.#closing.delete(key);
    });
    this.#closing.set(key, closed);
    return closed;
  }
}
