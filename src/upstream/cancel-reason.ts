/** Why a call is cancelled, in words for the model (`CancelReason` of the dispatch). */
export const cancelReason = ({ reason }: AbortSignal): string =>
  typeof reason === 'string' ? reason : 'nobody waits for it any more';
