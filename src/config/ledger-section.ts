import { resolve } from 'node:path';
import { isMetadataHost } from '../core/addresses.ts';
import { isLoopbackHost } from '../core/hosts.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { LedgerSettings } from '../ledger/settings.ts';
import { defaults } from './defaults.ts';
import type { LedgerSection } from './file.ts';
import { secretsOfDatabase } from './secrets.ts';

type Key = keyof LedgerSection;

interface Context {
  /** Where the paths of the file start. */
  readonly folder: string;
  /** Where the ledger lies that no file names. */
  readonly defaultFolder: string;
  readonly report: (key: Key, message: string) => void;
  readonly warn: (key: Key, message: string) => void;
}

interface Store {
  readonly store: LedgerSettings['store'];
  readonly secrets: readonly string[];
  readonly warning?: string | undefined;
}

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** Turns `callgate.ledger` into settings, and reports what does not fit together. */
export function readLedger(
  section: LedgerSection,
  context: Context,
): { readonly settings: LedgerSettings; readonly secrets: readonly string[] } {
  const values = { ...defaults.ledger, ...section };
  const named = readUrl(values.url, section.url === undefined ? context.defaultFolder : context.folder);
  if (!named.ok) context.report('url', `"url" of the ledger ${named.error}`);
  const { store, secrets, warning } = named.ok ? named.value : { store: noStore, secrets: [] };
  if (warning !== undefined) context.warn('url', warning);

  const settings = {
    store,
    outputRetentionMs: values.outputRetentionHours * hourMs,
    readOutputRetentionMs: values.readOutputRetentionMinutes * minuteMs,
    tombstoneRetentionMs: values.tombstoneRetentionDays * dayMs,
    bytesMax: values.bytesMax,
    // A share that nobody has set follows the whole.
    actorBytesMax: section.actorBytesMax ?? Math.min(values.actorBytesMax, values.bytesMax),
    actorRecordsMax: values.actorRecordsMax,
  };
  checkRetention(section, settings, context);
  if (settings.actorBytesMax > settings.bytesMax) {
    context.report(
      'actorBytesMax',
      `actorBytesMax (${settings.actorBytesMax}) is larger than bytesMax (${settings.bytesMax}), of which it is a part`,
    );
  }
  return { settings, secrets };
}

/** What stands in the place of a store in a configuration that is refused anyway. */
const noStore = { kind: 'sqlite', file: '' } as const;

// What is forgotten is run again when it is posted again: a record may not go before the result it stands for.
function checkRetention(
  section: LedgerSection,
  settings: Pick<LedgerSettings, 'outputRetentionMs' | 'readOutputRetentionMs' | 'tombstoneRetentionMs'>,
  { report }: Context,
): void {
  for (const [key, ms] of [
    ['outputRetentionHours', settings.outputRetentionMs],
    ['readOutputRetentionMinutes', settings.readOutputRetentionMs],
  ] as const) {
    if (ms <= settings.tombstoneRetentionMs) continue;
    report(
      section.tombstoneRetentionDays === undefined ? key : 'tombstoneRetentionDays',
      `a call would be forgotten before its result: with this ${key}, tombstoneRetentionDays is at least ${Math.ceil(ms / dayMs)}`,
    );
    return;
  }
}

function readUrl(text: string, folder: string): Result<Store, string> {
  if (text.startsWith('sqlite:')) return createSqlite(text, folder);
  if (/^postgres(?:ql)?:/.test(text)) return createPostgres(text);
  // The text itself stays out of the message: it may hold a password.
  return fail('is neither "sqlite:" with the path of a file nor a "postgres://" URL');
}

function createSqlite(text: string, folder: string): Result<Store, string> {
  const path = text.slice('sqlite:'.length);
  if (path.startsWith('//')) {
    return fail(
      'has no slashes of a URL: write "sqlite:folder/ledger.db", or "sqlite:/folder/ledger.db" for an absolute path',
    );
  }
  if (path === ':memory:') {
    return fail('names a ledger in memory, which would not know a call again after a restart: name a file');
  }
  if (path === '' || path.endsWith('/') || /[?\0]/.test(path)) {
    return fail('names no file: write "sqlite:" and the path of one, without "?" and what would follow it');
  }
  return ok({ store: { kind: 'sqlite', file: resolve(folder, path) }, secrets: [] });
}

function createPostgres(text: string): Result<Store, string> {
  // A password with a plain "#", "/" or "?" ends the host early; the rest of it must not be taken for a name.
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.hash !== '' || /@/.test(url.pathname + url.search)) {
    return fail(
      'is not a URL: write "postgres://user:password@host:5432/database", with what is special in the password percent-encoded',
    );
  }
  const hosts = [url.hostname, url.searchParams.get('host') ?? ''].filter((host) => host !== '');
  if (hosts.length === 0) return fail('names no host');
  if (hosts.some((host) => isMetadataHost(canonical(host))))
    return fail('leads to a link-local or metadata address, from which machines get their credentials');
  const isHere = hosts.every((host) => host.startsWith('/') || isLoopbackHost(host));
  const saysHow = url.searchParams.has('sslmode') || url.searchParams.has('ssl');
  return ok({
    store: { kind: 'postgres', url: text },
    secrets: secretsOfDatabase(url),
    warning:
      isHere || saysHow
        ? undefined
        : 'the connection to the database is not encrypted: add "?sslmode=verify-full" to its URL, or "?sslmode=disable" where the network between is yours alone',
  });
}

/** Only the URLs of the web have their hosts brought into one spelling (`2852039166` is an address). */
const canonical = (host: string): string =>
  URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : host;
