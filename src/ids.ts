import { randomUUID } from 'node:crypto';

let lastMs = -1;
let lastTime = '';

/**
 * A new UUIDv7 (RFC 9562 5.7): 48 bits of time in front, so that ids made later sort later to the millisecond, and
 * the random rest of a UUIDv4 behind.
 */
export function newUuidV7(nowMs: number): string {
  if (nowMs !== lastMs) {
    lastMs = nowMs;
    const time = nowMs.toString(16).padStart(12, '0');
    lastTime = `${time.slice(0, 8)}-${time.slice(8)}-7`;
  }
  return lastTime + randomUUID().slice(15);
}
