import type { CancelSignal } from '../core/cancellation.ts';

/** Why a call is cancelled, in words for the model (`CancelReason` of the dispatch). */
export const cancelReason = ({ reason }: CancelSignal): string =>
  typeof reason === 'string' ? reason : 'nobody waits for it any more';
