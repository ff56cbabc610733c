/** Control characters, and the invisible characters that reorder or hide text (bidi, tags, zero width). */
const unprintable =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
  /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;

/** Makes foreign text safe to stand in a log line or a message: one line, no control or hidden characters. */
export const printable = (text: string): string =>
  text.replace(unprintable, (character) => (character === '\n' || character === '\t' ? ' ' : ''));

/** Drops control and hidden characters from a text of several lines, and half characters; line ends and tabs stay. */
export const visible = (text: string): string =>
  text.replace(unprintable, (character) => (/[\t\n\r]/.test(character) ? character : '')).toWellFormed();

/**
 * Cuts text to at most `charsMax` UTF-16 units without splitting a character, and says how much is missing
 * inside that limit.
 */
export function truncate(text: string, charsMax: number): string {
  if (text.length <= charsMax) return text;
  const notice = (missing: number): string => ` [... ${missing} more characters cut]`;
  const room = Math.max(0, charsMax - notice(text.length).length);
  const cut = text.slice(0, room).replace(/[\ud800-\udbff]$/, '');
  return (cut + notice(text.length - cut.length)).slice(0, charsMax);
}

/** Text of another party for a message: printable, cut, never empty. */
export const foreignText = (text: string, charsMax: number): string =>
  truncate(printable(text).trim(), charsMax) || '(no text)';

/** A time for a program to read (RFC 3339). */
export const timeText = (epochMs: number): string => new Date(epochMs).toISOString();
