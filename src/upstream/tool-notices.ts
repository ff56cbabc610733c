import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, ProtocolError } from '@modelcontextprotocol/client';

/** Between two tries to subscribe; they grow while the subscription does not last. */
const gapMs = { min: 1_000, max: 30_000 } as const;
/** A subscription that lasted this long was a good one: the gaps after it start small again. */
const goodMs = 60_000;
const methodNotFound = -32601;

/** Whom a subscription serves. */
export interface ToolNoticesOptions {
  /** How long the server may take to confirm it. */
  readonly confirmMs: number;
  /** Ends it all. */
  readonly signal: AbortSignal;
  /** Changes may have been missed. The notices themselves come with all other messages. */
  readonly onGap: () => void;
}

/** Keeps a subscription to changes of the tool list (2026-07-28), for as long as the server offers one. @throws never */
export async function followToolNotices(client: Client, options: ToolNoticesOptions): Promise<void> {
  const { confirmMs, signal, onGap } = options;
  let nextGapMs = 0;
  let hasListened = false;
  while (!signal.aborted) {
    let openedMs: number | undefined;
    try {
      const subscription = await client.listen({ toolsListChanged: true }, { timeout: confirmMs });
      if (subscription.honoredFilter.toolsListChanged !== true) return await subscription.close();
      openedMs = performance.now();
      if (hasListened) onGap();
      hasListened = true;
      await subscription.closed;
    } catch (error) {
      // Without subscriptions there is still the list that is read from time to time.
      if (error instanceof ProtocolError && error.code === methodNotFound) return;
    }
    const wasGood = openedMs !== undefined && performance.now() - openedMs > goodMs;
    nextGapMs = wasGood ? gapMs.min : Math.min(Math.max(2 * nextGapMs, gapMs.min), gapMs.max);
    await sleep(nextGapMs, undefined, { signal }).catch(() => {});
  }
}
