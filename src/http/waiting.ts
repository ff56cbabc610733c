import type { PendingCall, SettledCall } from '../dispatch/ports.ts';
import { type CallRecord, isFinal } from '../dispatch/record.ts';
import type { IncomingRequest } from './exchange.ts';

/** How long a request is held, and what of the caller's wishes that comes from (RFC 7240). */
export interface Wait {
  readonly ms: number;
  /** Undefined where the caller had no wishes. */
  readonly applied: string | undefined;
}

/** Reads `Prefer`. Preferences that are unknown or make no sense are passed over, as they are no demands. */
export function readWait(request: IncomingRequest, waitMaxMs: number): Wait {
  const header = request.headers.get('prefer');
  if (header === null) return { ms: waitMaxMs, applied: undefined };
  let waitMs: number | undefined;
  let isAsync = false;
  for (const preference of header.split(',')) {
    const [word = '', ...rest] = (preference.split(';')[0] ?? '').split('=');
    const name = word.trim().toLowerCase();
    const value = rest
      .join('=')
      .trim()
      .replace(/^"(.*)"$/, '$1');
    if (name === 'respond-async') isAsync = true;
    // The first of several counts (RFC 7240 2).
    if (name === 'wait' && waitMs === undefined && /^\d{1,9}$/.test(value)) waitMs = Number(value) * 1_000;
  }
  const ms = Math.min(waitMs ?? (isAsync ? 0 : waitMaxMs), waitMaxMs);
  const applied = [
    ...(isAsync ? ['respond-async'] : []),
    ...(waitMs === undefined ? [] : [`wait=${Math.floor(ms / 1_000)}`]),
  ];
  return { ms, applied: applied.length === 0 ? undefined : applied.join(', ') };
}

/** What the head of every 202 says. The same request may come again soon, as it is held then as this one was. */
export const unfinishedHeaders = ({ applied }: Wait): Record<string, string> =>
  applied === undefined ? { 'retry-after': '1' } : { 'retry-after': '1', 'preference-applied': applied };

/** The value, or undefined when it does not come in time. */
export function within<T>(value: Promise<T>, ms: number): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms, undefined);
    value.then(
      (settled) => {
        clearTimeout(timer);
        resolve(settled);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

/** How long an answer may take to come for which there is a final record already. */
const answerMsMax = 1_000;

/** Where a call stands that nobody waits for any longer: its end where that has come, or its record. */
export async function keep(pending: PendingCall): Promise<SettledCall | CallRecord> {
  const first = await Promise.race([pending.settled, pending.keep()]);
  if (isSettled(first) || !isFinal(first.status)) return first;
  return (await within(pending.settled, answerMsMax)) ?? first;
}

export const isSettled = (standing: SettledCall | CallRecord): standing is SettledCall => 'call' in standing;

/** The line to a caller who waits for calls. */
export interface CallerLine {
  readonly isCut: boolean;
  /** From now on the calls run whether the caller is there or not. */
  letGo(): void;
}

/** Tells `leave` when the caller hangs up. */
export function watchCaller({ signal }: IncomingRequest, leave: () => void): CallerLine {
  const line = {
    isCut: false,
    isLetGo: false,
    letGo: (): void => {
      line.isLetGo = true;
    },
  };
  const cut = (): void => {
    line.isCut = true;
    if (!line.isLetGo) leave();
  };
  if (signal.aborted) cut();
  else signal.addEventListener('abort', cut);
  return line;
}
