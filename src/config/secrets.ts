import type { ServerEntry } from './file.ts';

/** Shorter texts are not secrets worth the name, and hiding them would tear holes into every log line. */
const secretCharsMin = 4;
/** An env value counts from this length on: shorter ones are switches and names. */
const envSecretCharsMin = 8;

const secretHeader = /auth|cookie|token|key|secret|password|credential|session|signature/i;

/** Hiding these would break the JSON of log lines. */
const jsonToken = /^(?:\d{1,7}|true|false|null)$/;

/** Leaves what is long enough to be looked for, once each. */
export const worthHiding = (values: Iterable<string>): string[] =>
  [...new Set(values)].filter((value) => value.length >= secretCharsMin && !jsonToken.test(value));

/** What a server entry holds that must never be shown, wherever it came from (design section 9, MT-14). */
export function secretsOf(entry: ServerEntry): string[] {
  const env = Object.values(entry.env ?? {}).map(String);
  const secrets = env.filter((value) => value.length >= envSecretCharsMin);
  for (const [name, value] of Object.entries(entry.headers ?? {})) {
    if (secretHeader.test(name)) secrets.push(...secretsOfHeader(value));
  }
  if (entry.url !== undefined && URL.canParse(entry.url)) secrets.push(...secretsOfUrl(new URL(entry.url)));
  return secrets;
}

/** The value, and the part after a scheme (`Bearer ...`), which a server may repeat alone. */
const secretsOfHeader = (value: string): string[] => [value, value.trim().replace(/^\S+\s+/, '')];

/** User part, as written, decoded and as a header carries it, and query values. */
function secretsOfUrl(url: URL): string[] {
  const userPart = [url.username, url.password];
  const queryValues = [...url.searchParams.values()];
  if (userPart.every((part) => part === '')) return queryValues;
  return [...userPart, ...userPart.map(decoded), basicCredentials(url), ...queryValues];
}

/** The passwords in the URL of a database; its user and host are names that logs would be useless without. */
export function secretsOfDatabase(url: URL): string[] {
  const passwords = [...url.searchParams].flatMap(([name, value]) => (/pass/i.test(name) ? [value] : []));
  return [url.password, decoded(url.password), ...passwords];
}

/** The user part of a URL as the `Basic` scheme sends it. */
export const basicCredentials = (url: URL): string =>
  Buffer.from(`${decoded(url.username)}:${decoded(url.password)}`).toString('base64');

/** Percent-decoding that leaves alone what is not encoded properly. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
