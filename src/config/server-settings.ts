import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { isLoopbackHost } from '../core/hosts.ts';
import { fail, ok, type Result } from '../core/result.ts';
import type { CredentialSettings } from '../upstream/credential-settings.ts';
import type { ServerSettings, TransportSettings } from '../upstream/settings.ts';
import { checkUrl } from './addresses.ts';
import { resolveCommand } from './command.ts';
import type { CompleteOptions, ServerEntry } from './file.ts';
import { basicCredentials } from './secrets.ts';
import type { Path } from './source.ts';
import type { Environment } from './variables.ts';

/** What is wrong with a server entry; `path` starts at the entry. */
export interface EntryFault {
  readonly path: Path;
  readonly message: string;
}

/** What a child gets of callgate's own environment (MT-2): the same few variables as in other hosts. */
const inheritedVariables = ['HOME', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER'];

const faultAt = (message: string, ...path: Path) => fail<EntryFault>({ path, message });

/** Turns an entry that fits the schema into settings; relative paths start at `folder`. */
export async function createServerSettings(
  alias: string,
  entry: ServerEntry,
  options: CompleteOptions,
  credentials: CredentialSettings | undefined,
  place: { readonly folder: string; readonly env: Environment },
): Promise<Result<ServerSettings, EntryFault>> {
  if (options.backoffMinMs > options.backoffMaxMs) return faultAt('backoffMinMs is larger than backoffMaxMs');
  const transport = await createTransport(entry, options, credentials, place);
  if (!transport.ok) return transport;
  return ok({
    alias,
    transport: transport.value,
    connection: options.connection,
    connectionsMax: options.connectionsMax,
    connectionIdleMs: options.connectionIdleMs,
    keepConnected: options.keepConnected,
    connectTimeoutMs: options.connectTimeoutMs,
    listTimeoutMs: options.listTimeoutMs,
    backoffMinMs: options.backoffMinMs,
    backoffMaxMs: options.backoffMaxMs,
    stopGraceMs: options.stopGraceMs,
    concurrencyMax: options.concurrencyMax,
    queueMax: options.queueMax,
    resultBytesMax: options.resultBytesMax,
  });
}

async function createTransport(
  entry: ServerEntry,
  options: CompleteOptions,
  credentials: CredentialSettings | undefined,
  place: { readonly folder: string; readonly env: Environment },
): Promise<Result<TransportSettings, EntryFault>> {
  const { command, url, type } = entry;
  if (command !== undefined && url !== undefined) {
    return faultAt(
      'has both "command" and "url": keep "command" to start a program, or "url" to reach a running server',
    );
  }
  if (command !== undefined) {
    if (type !== undefined && type !== 'stdio')
      return faultAt(`has "command", but its type is "${type}": take "type" out, or give a "url"`, 'type');
    return createStdio(command, entry, place);
  }
  if (url !== undefined) {
    if (type === 'stdio')
      return faultAt('has "url", but its type is "stdio": take "type" out, or give a "command"', 'type');
    const http = createHttp(url, entry.headers ?? {}, options.allowHttp);
    if (!http.ok) return http;
    return ok({ kind: type === 'sse' ? 'sse' : 'http', ...http.value, credentials });
  }
  return faultAt(
    'has neither "command" (a program to start) nor "url" (a server to reach): give one of them',
  );
}

async function createStdio(
  command: string,
  entry: ServerEntry,
  { folder, env }: { readonly folder: string; readonly env: Environment },
): Promise<Result<TransportSettings, EntryFault>> {
  const args = entry.args ?? [];
  const own = Object.fromEntries(
    Object.entries(entry.env ?? {}).map(([name, value]) => [name, String(value)]),
  );
  if ([command, ...args, ...Object.values(own)].some((text) => text.includes('\0'))) {
    return faultAt(
      'has a NUL character in "command", "args" or "env", which no program can be given: take it out',
    );
  }
  const program = await resolveCommand(command, folder, env.PATH);
  if (!program.ok) return faultAt(program.error, 'command');
  const cwd = resolve(folder, entry.cwd ?? '.');
  if (!(await isFolder(cwd))) return faultAt(`there is no folder ${cwd}: correct "cwd"`, 'cwd');
  const inherited = inheritedVariables.flatMap((name) => {
    const value = env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return ok({
    kind: 'stdio',
    command: program.value,
    args,
    env: { ...Object.fromEntries(inherited), ...own },
    cwd,
  });
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );

function createHttp(
  text: string,
  given: Readonly<Record<string, string>>,
  allowHttp: boolean,
): Result<{ readonly url: string; readonly headers: Readonly<Record<string, string>> }, EntryFault> {
  const checked = checkUrl(text);
  if (!checked.ok) return faultAt(`"url" ${checked.error}`, 'url');
  const url = checked.value;
  if (url.protocol === 'http:' && !isLoopbackHost(url.hostname) && !allowHttp) {
    return faultAt(
      `plain http to ${url.hostname} can be read and changed on the way: use https, or set "allowHttp": true for this server under callgate.servers`,
      'url',
    );
  }
  const headers = { ...given };
  const names = new Set<string>();
  for (const [name, value] of Object.entries(headers)) {
    if (names.has(name.toLowerCase()))
      return faultAt(`names the header ${JSON.stringify(name)} twice: keep one`, 'headers', name);
    names.add(name.toLowerCase());
    if (!isHeader(name, value)) {
      return faultAt(
        `${JSON.stringify(name)} is not a header that can be sent: its name or value has characters that HTTP does not allow`,
        'headers',
        name,
      );
    }
  }
  if (url.username !== '' || url.password !== '') {
    if (names.has('authorization'))
      return faultAt('has credentials in "url" and an Authorization header: keep one of the two', 'url');
    // Requests refuse a URL with a user part, so it goes where HTTP carries it anyway.
    headers.Authorization = `Basic ${basicCredentials(url)}`;
    url.username = '';
    url.password = '';
  }
  return ok({ url: url.href, headers });
}

function isHeader(name: string, value: string): boolean {
  try {
    new Headers([[name, value]]);
    return true;
  } catch {
    return false;
  }
}
