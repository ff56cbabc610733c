import { randomUUID } from 'node:crypto';

/**
 * A new UUIDv7 (RFC 9562 5.7): 48 bits of time in front, so that ids made later sort later to the millisecond, and
 * the random rest of a UUIDv4 behind.
 */
export function newUuidV7(nowMs: number): string {
  const time = nowMs.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`;
}
