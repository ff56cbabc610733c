import { nearest } from './nearest.ts';

/** What to do about a key that callgate does not read. */
export interface KeyVerdict {
  readonly key: string;
  readonly message: string;
  /** A fault is refused; anything else belongs to another host, and is told as a warning. */
  readonly isFault: boolean;
}

const topKeys = ['$schema', 'mcpServers', 'servers', 'callgate'];
/** Ours, but one floor down: without this, settings that protect would be taken for another host's. */
const sectionKeys = new Set([
  'listen',
  'publicUrl',
  'auth',
  'limits',
  'defaults',
  'mcpServersFrom',
  'ledger',
  'rules',
]);

const entryKeys = ['type', 'command', 'args', 'env', 'cwd', 'url', 'headers', 'disabled'];
const elsewhere = 'give the credentials under "headers", or under "auth" of callgate.servers';
/** Known elsewhere, and with an effect that the server would be run without. */
const entryKeysNotEnforced = new Map([
  ['envFile', 'name its variables one by one under "env"'],
  ['auth', elsewhere],
  ['oauth', elsewhere],
  ['headersHelper', elsewhere],
]);
/** What some hosts call `url`. */
const urlKeys = new Set(['serverUrl', 'httpUrl', 'uri', 'endpoint']);

/** Judges the top keys of the file, which other hosts may share (design section 9). */
export function checkTopKeys(keys: readonly string[]): KeyVerdict[] {
  return keys
    .filter((key) => !topKeys.includes(key))
    .map((key) => {
      const near = nearest(key, topKeys);
      if (sectionKeys.has(key)) {
        return {
          key,
          isFault: true,
          message: `"${key}" is a key of callgate, but stands outside of "callgate": move it into there`,
        };
      }
      if (near !== undefined)
        return { key, isFault: true, message: `"${key}" is not a key of this file: did you mean "${near}"?` };
      return {
        key,
        isFault: false,
        message: `"${key}" is not a key of callgate, and is left to the other hosts of this file`,
      };
    });
}

/** Judges the keys of a server entry; what looks like a slip of the pen is refused rather than left to other hosts. */
export function checkEntryKeys(alias: string, keys: readonly string[]): KeyVerdict[] {
  return keys
    .filter((key) => !entryKeys.includes(key))
    .map((key) => {
      const instead = entryKeysNotEnforced.get(key);
      if (instead !== undefined) {
        return {
          key,
          isFault: true,
          message: `"${key}" is known, but this version does not enforce it: take it out, and ${instead}`,
        };
      }
      if (urlKeys.has(key) && !keys.includes('url')) {
        return { key, isFault: true, message: `"${key}" is another host's word: call it "url"` };
      }
      const near = nearest(key, entryKeys);
      if (near !== undefined && !keys.includes(near)) {
        return { key, isFault: true, message: `"${key}" is not a key of a server: did you mean "${near}"?` };
      }
      return {
        key,
        isFault: false,
        message: `"${key}" of server "${alias}" is not read by callgate, and is left to the other hosts of this file; its own settings of the server stand under callgate.servers`,
      };
    });
}
