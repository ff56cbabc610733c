/**
 * The pause after so many failures in a row: it doubles with each, and is random in its upper half, so that many servers
 * do not come back in step.
 */
export function gapAfter(
  failures: number,
  { backoffMinMs, backoffMaxMs }: { readonly backoffMinMs: number; readonly backoffMaxMs: number },
): number {
  const ceilingMs = Math.min(backoffMaxMs, backoffMinMs * 2 ** Math.min(failures, 30));
  return Math.max(backoffMinMs, ceilingMs * (0.5 + Math.random() / 2));
}
