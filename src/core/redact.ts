/** Replaces every secret that the configuration named by `[redacted]`. */
export type Redact = (text: string) => string;

const escapeForRegExp = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/** Characters of a line of a secret that is replaced where it stands alone; shorter ones are found in any text. */
const lineCharsMin = 8;

/** Its lines, for a secret of several lines, such as a private key, may be told one line at a time. */
const linesOf = (secret: string): readonly string[] =>
  secret.split(/[\r\n]+/).filter((line) => line.length >= lineCharsMin);

/**
 * Makes a redactor for these secrets, also in the spelling that JSON gives them and in percent-encoding.
 * Longer secrets go first, so that one that contains another leaves nothing over.
 */
export function createRedactor(secrets: readonly string[]): Redact {
  const spellings = new Set<string>();
  for (const secret of secrets.flatMap((whole) => [whole, ...linesOf(whole)])) {
    if (secret === '') continue;
    spellings.add(secret);
    spellings.add(JSON.stringify(secret).slice(1, -1));
    spellings.add(encodeURIComponent(secret.toWellFormed()));
  }
  if (spellings.size === 0) return (text) => text;
  const ordered = [...spellings].sort((a, b) => b.length - a.length);
  const pattern = new RegExp(ordered.map(escapeForRegExp).join('|'), 'g');
  return (text) => text.replace(pattern, '[redacted]');
}
