import type { Secret } from '../../core/secret.ts';
import { gapAfter } from '../gap.ts';
import { TokenRefused } from './token-refused.ts';

/** A token as an authorization server gave it. */
export interface IssuedToken {
  readonly token: Secret;
  readonly lifeMs: number;
}

/** The token to be exchanged for the one that is wanted; undefined where nothing is exchanged. */
export type Subject = () => Secret | undefined;

/** What a token source needs. */
export interface TokenSourceDeps {
  /** Asks for a token. @throws TokenRefused */
  readonly request: (subject: Secret | undefined) => Promise<IssuedToken>;
  readonly monotonicMs: () => number;
  readonly onRefused: (refusal: TokenRefused, failures: number, retryInMs: number) => void;
}

type TokenHeaders = Readonly<Record<'authorization', string>>;

interface Current {
  readonly headers: TokenHeaders;
  readonly issuedAtMs: number;
  /** From here on a new one is fetched while this one is still used. */
  readonly refreshAtMs: number;
  readonly endsAtMs: number;
}

interface Failure {
  readonly refusal: TokenRefused;
  readonly subject: Secret | undefined;
  readonly untilMs: number;
}

/**
 * A token is replaced after four fifths of its life, and a long one five minutes before its end: what is left is the time
 * for which nobody notices that an authorization server is down, and asking earlier would only be more work for it.
 */
const refreshShare = 0.2;
const refreshAheadMsMax = 300_000;
/** Part of the life at its end in which a token is no longer sent, since it could expire on its way. */
const marginShare = 0.05;
const marginMsMax = 5_000;
/** The pauses after token requests that failed, and between renewals of tokens that are refused as soon as they come. */
const pauses = { backoffMinMs: 1_000, backoffMaxMs: 60_000 };
/** A token that was taken for so long was a good one. */
const provenMs = 60_000;

/**
 * Holds one token and sees to it that there is a good one, with one request at a time however many calls want it. It is
 * renewed before it ends, and when the server refuses it; an authorization server in trouble is asked less and less.
 */
export class TokenSource {
  readonly #deps: TokenSourceDeps;
  #current: Current | undefined;
  #flight: Promise<Current> | undefined;
  #failure: Failure | undefined;
  #failures = 0;
  #renewals = 0;
  #renewFromMs = 0;

  constructor(deps: TokenSourceDeps) {
    this.#deps = deps;
  }

  /** The headers with the token; at once where there is a good one. @throws TokenRefused */
  headers(subject: Subject): TokenHeaders | Promise<TokenHeaders> {
    const current = this.#current;
    const nowMs = this.#deps.monotonicMs();
    if (current === undefined || nowMs >= current.endsAtMs) return this.#obtain(subject).then(headersOf);
    // Whoever asks meanwhile has a good token: that the request may fail is logged, and is nobody's trouble yet.
    if (nowMs >= current.refreshAtMs) this.#obtain(subject).catch(() => {});
    return current.headers;
  }

  /** The server refused these headers: whether there are others now. @throws TokenRefused */
  async renew(refused: Readonly<Record<string, string>>, subject: Subject): Promise<boolean> {
    const current = this.#current;
    if (current !== undefined) {
      if (current.headers.authorization !== refused.authorization) return true;
      if (!this.#mayRenew(current)) return false;
      this.#current = undefined;
    }
    const renewed = await this.#obtain(subject);
    // An authorization server may give out one token again and again.
    return renewed.headers.authorization !== refused.authorization;
  }

  /** A server that takes no token at all would otherwise cost a token request for each call. */
  #mayRenew({ issuedAtMs }: Current): boolean {
    const nowMs = this.#deps.monotonicMs();
    if (nowMs - issuedAtMs >= provenMs) this.#renewals = 0;
    else if (nowMs < this.#renewFromMs) return false;
    this.#renewals++;
    this.#renewFromMs = nowMs + gapAfter(this.#renewals, pauses);
    return true;
  }

  #obtain(subject: Subject): Promise<Current> {
    if (this.#flight !== undefined) return this.#flight;
    const shown = subject();
    const failure = this.#failure;
    const isPaused = failure !== undefined && this.#deps.monotonicMs() < failure.untilMs;
    // What was refused for the token of a caller may well be granted for the next one.
    if (isPaused && failure.subject?.reveal() === shown?.reveal()) return Promise.reject(failure.refusal);
    this.#flight = this.#request(shown).finally(() => {
      this.#flight = undefined;
    });
    return this.#flight;
  }

  async #request(subject: Secret | undefined): Promise<Current> {
    const { request, monotonicMs, onRefused } = this.#deps;
    try {
      const { token, lifeMs } = await request(subject);
      const nowMs = monotonicMs();
      const current = {
        headers: { authorization: `Bearer ${token.reveal()}` },
        issuedAtMs: nowMs,
        refreshAtMs: nowMs + lifeMs - Math.min(lifeMs * refreshShare, refreshAheadMsMax),
        endsAtMs: nowMs + lifeMs - Math.min(lifeMs * marginShare, marginMsMax),
      };
      this.#current = current;
      this.#failure = undefined;
      this.#failures = 0;
      return current;
    } catch (error) {
      if (!(error instanceof TokenRefused)) throw error;
      this.#failures++;
      const pauseMs = Math.max(gapAfter(this.#failures, pauses), error.facts.retryAfterMs ?? 0);
      this.#failure = { refusal: error, subject, untilMs: monotonicMs() + pauseMs };
      onRefused(error, this.#failures, Math.round(pauseMs));
      throw error;
    }
  }
}

const headersOf = ({ headers }: Current): TokenHeaders => headers;
