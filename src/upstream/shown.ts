import type { Redact } from '../core/redact.ts';
import { printable, truncate } from '../core/text.ts';

/** At least as long as any secret: so much is dropped where foreign text was cut before it was redacted. */
const marginChars = 4_096;

/** As much of a foreign text as `shown` looks at. */
export const lookedAtChars = (charsMax: number): number => charsMax + 2 * marginChars;

/** Foreign text for a log line or a message: one line, free of hidden characters and of secrets, and cut. */
export function shown(text: string, redact: Redact, charsMax: number): string {
  const begin = text.slice(0, lookedAtChars(charsMax));
  // Redacted before, for secrets of several lines, and after, for those that hidden characters had split.
  const safe = redact(printable(redact(begin)));
  // Where the text was cut there may stand the first half of a secret, which no redaction finds.
  const told = begin.length < text.length ? safe.slice(0, Math.max(0, safe.length - marginChars)) : safe;
  return truncate(told.trim(), charsMax);
}
