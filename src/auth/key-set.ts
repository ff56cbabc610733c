import type { EventLog } from '../core/events.ts';
import { ok, type Result } from '../core/result.ts';
import { loadJwks } from './jwks.ts';
import type { IssuerSettings, KeySource } from './settings.ts';
import { readVerificationKeys, type VerificationKey } from './verification-keys.ts';

/** Calls `run` once after the delay; the function given back calls that off. */
export type Schedule = (run: () => void, delayMs: number) => () => void;

/** What a key set needs from outside. */
export interface KeySetPorts {
  readonly log: EventLog;
  readonly monotonicMs: () => number;
  readonly schedule: Schedule;
}

export type KeyLookup =
  /** `generation` is that of the set in which the key was found. */
  | { readonly kind: 'found'; readonly key: VerificationKey; readonly generation: number }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'unavailable'; readonly retryAfterS: number };

/** What an operator sees of the keys of one issuer. */
export interface KeySetStatus {
  readonly issuer: string;
  readonly isUsable: boolean;
  readonly keys: number;
  /** Since the set was last read; undefined while it never was. */
  readonly ageMs: number | undefined;
  readonly lastError: string | undefined;
}

/** A file is cheap to read again, but a flood of unknown key ids should not become a flood of reads either. */
const fileTimes = { maxAgeMs: 300_000, cooldownMs: 5_000, staleMaxMs: 86_400_000 };

/** The keys of one issuer, kept fresh in the background and kept working while their source fails. */
export class KeySet {
  readonly #issuer: string;
  readonly #algorithms: readonly string[];
  readonly #source: Exclude<KeySource, { kind: 'inline' }> | undefined;
  readonly #times: { readonly maxAgeMs: number; readonly cooldownMs: number; readonly staleMaxMs: number };
  readonly #ports: KeySetPorts;
  readonly #closing = new AbortController();
  #keys: readonly VerificationKey[] = [];
  #generation = 0;
  #usableUntilMs = Number.NEGATIVE_INFINITY;
  #readAtMs: number | undefined;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #refreshing: Promise<void> | undefined;
  #lastError: string | undefined;
  #cancelTimer: () => void = () => {};

  /** Begins to read the keys at once; nobody has to wait for it. */
  constructor({ issuer, algorithms, keys: source }: IssuerSettings, ports: KeySetPorts) {
    this.#issuer = issuer;
    this.#algorithms = algorithms;
    this.#source = source.kind === 'inline' ? undefined : source;
    this.#times = source.kind === 'url' ? source : fileTimes;
    this.#ports = ports;
    if (source.kind === 'inline') this.#settle(ok({ keys: source.keys }), Number.POSITIVE_INFINITY);
    else void this.reload();
  }

  /** Changes whenever the keys do, so that what was verified with a withdrawn key can be told. */
  get generation(): number {
    return this.#generation;
  }

  /** Whether there are keys young enough to trust. */
  isUsable(): boolean {
    return this.#ports.monotonicMs() < this.#usableUntilMs;
  }

  /** Finds the key for a token's header, reading the set anew where that is due and allowed. */
  async find(kid: string | undefined, algorithm: string): Promise<KeyLookup> {
    const known = this.#match(kid, algorithm);
    if (known !== undefined) return known;
    await this.#refreshUnlessTried();
    const fresh = this.#match(kid, algorithm);
    if (fresh !== undefined) return fresh;
    return this.isUsable() ? { kind: 'unknown' } : { kind: 'unavailable', retryAfterS: this.#retryAfterS() };
  }

  /** Reads the keys now, whatever the cool-down says (AUTH-14). @throws never; a failure is logged and kept in the status. */
  reload(): Promise<void> {
    if (this.#source === undefined || this.#closing.signal.aborted) return Promise.resolve();
    this.#refreshing ??= this.#refresh(this.#source).finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  status(): KeySetStatus {
    return {
      issuer: this.#issuer,
      isUsable: this.isUsable(),
      keys: this.#keys.length,
      ageMs:
        this.#readAtMs === undefined ? undefined : Math.round(this.#ports.monotonicMs() - this.#readAtMs),
      lastError: this.#lastError,
    };
  }

  close(): void {
    this.#closing.abort();
    this.#cancelTimer();
  }

  #match(kid: string | undefined, algorithm: string): KeyLookup | undefined {
    if (!this.isUsable()) return undefined;
    const [key, ...others] = this.#keys.filter(
      (candidate) => candidate.algorithm === algorithm && (kid === undefined || candidate.kid === kid),
    );
    // AUTH-10: without a `kid` a key counts only if no other could be meant.
    if (key === undefined || others.length > 0) return undefined;
    return { kind: 'found', key, generation: this.#generation };
  }

  /**
   * AUTH-13: one time of the last attempt stands for every key id that was missing then, so unknown ids cost
   * neither fetches nor memory, however many there are and whether or not the source answers.
   */
  async #refreshUnlessTried(): Promise<void> {
    const isCoolingDown = this.#ports.monotonicMs() - this.#triedAtMs < this.#times.cooldownMs;
    if (isCoolingDown) await this.#refreshing;
    else await this.reload();
  }

  async #refresh(source: Exclude<KeySource, { kind: 'inline' }>): Promise<void> {
    this.#cancelTimer();
    this.#triedAtMs = this.#ports.monotonicMs();
    const jwks = await loadJwks(source, this.#closing.signal);
    if (this.#closing.signal.aborted) return;
    const isGood = this.#settle(jwks, this.#triedAtMs + this.#times.staleMaxMs);
    const { maxAgeMs, cooldownMs } = this.#times;
    // AUTH-12: ahead of the maximum age, and not in step with other replicas.
    const delayMs = isGood
      ? Math.max(cooldownMs, maxAgeMs * (0.75 + Math.random() * 0.1))
      : cooldownMs * (1 + Math.random() * 0.1);
    this.#cancelTimer = this.#ports.schedule(() => void this.reload(), delayMs);
  }

  /** AUTH-12: what is not a good set changes nothing about the keys at hand. */
  #settle(jwks: Result<unknown, string>, usableUntilMs: number): boolean {
    const { log } = this.#ports;
    const read = jwks.ok ? readVerificationKeys(jwks.value, this.#algorithms) : jwks;
    if (!read.ok) {
      this.#lastError = read.error;
      log.warn('keys.refresh_failed', { issuer: this.#issuer, reason: read.error, usable: this.isUsable() });
      return false;
    }
    const { keys, dropped } = read.value;
    const isChanged = identities(keys) !== identities(this.#keys);
    if (isChanged) {
      this.#keys = keys;
      this.#generation += 1;
      log.info('keys.loaded', { issuer: this.#issuer, kids: keys.map(({ kid }) => kid ?? '(no kid)') });
      if (dropped.length > 0) log.warn('keys.dropped', { issuer: this.#issuer, reasons: dropped });
    } else if (this.#lastError !== undefined) {
      log.info('keys.recovered', { issuer: this.#issuer });
    }
    this.#lastError = undefined;
    this.#readAtMs = this.#ports.monotonicMs();
    this.#usableUntilMs = usableUntilMs;
    return true;
  }

  #retryAfterS(): number {
    const leftMs = this.#triedAtMs + this.#times.cooldownMs - this.#ports.monotonicMs();
    return Math.max(1, Math.ceil(leftMs / 1000));
  }
}

const identities = (keys: readonly VerificationKey[]): string =>
  keys
    .map(({ identity }) => identity)
    .sort()
    .join();
