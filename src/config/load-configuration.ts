import { dirname, resolve } from 'node:path';
import { isLoopbackHost } from '../core/hosts.ts';
import { isObject } from '../core/json.ts';
import { createRedactor } from '../core/redact.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { printable } from '../core/text.ts';
import { checkUrl, parseAddress } from './addresses.ts';
import { readAuth } from './auth-section.ts';
import type { Address, Configuration, Finding } from './configuration.ts';
import { defaults } from './defaults.ts';
import type { CallgateSection } from './file.ts';
import { checkTopKeys } from './foreign-keys.ts';
import { readLedger } from './ledger-section.ts';
import { isServersKey, type OpenedFile, openFile, type Reference } from './open-file.ts';
import { Report } from './report.ts';
import { worthHiding } from './secrets.ts';
import { readServers } from './server-list.ts';
import type { Problem } from './source.ts';
import { createVariables, type Environment, type Variables } from './variables.ts';

export interface LoadOptions {
  readonly file: string;
  readonly env: Environment;
  /** Read for `callgate dev`: no issuer is needed, `tools:*:*` counts, and nothing but loopback is listened on. */
  readonly dev?: boolean;
  /** Whether a file without an issuer is refused; usually it is, save for `callgate dev`. */
  readonly needsIssuer?: boolean;
  /** Where the ledger of a file that says nothing of one is looked for, in place of the folder of the file. */
  readonly ledgerFolder?: string;
}

/**
 * Reads and checks a configuration file, and applies every default.
 *
 * A server that cannot be used is among `faultyServers` and harms no other. Everything else that is wrong refuses the
 * configuration, and all of it is found at once, sorted by place.
 */
export async function loadConfiguration({
  file,
  env,
  dev = false,
  needsIssuer = !dev,
  ledgerFolder,
}: LoadOptions): Promise<Result<Configuration, readonly Finding[]>> {
  const path = resolve(file);
  const report = new Report();
  const variableWarnings: string[] = [];
  const variables = createVariables(env, dirname(path), (text) => variableWarnings.push(text));

  const main = await openFile(path, 'all', variables);
  if (main.source.findings.length > 0) return fail(main.source.findings);
  const others = await openOthers(main, variables);
  const files = [main, ...others.files] as const;
  for (const problem of files.flatMap(({ problems }) => problems)) report.problem(problem);
  for (const problem of others.problems) report.problem(problem);
  reportTopKeys(main, report);

  const section = main.value.callgate;
  const listen = readListen(section, main, dev, report);
  const publicUrl = readPublicUrl(section, main, report);
  const auth = await readAuth(section?.auth ?? {}, {
    folder: dirname(path),
    dev,
    needsIssuer,
    isSound: (at) => report.isSound(main.source, ['callgate', 'auth', ...at]),
    report: (at, message) =>
      report.problem({ source: main.source, path: ['callgate', 'auth', ...at], message }),
  });
  const ledgerPath = (...at: readonly string[]) => ['callgate', 'ledger', ...at];
  const ledger = readLedger(report.isSound(main.source, ledgerPath()) ? (section?.ledger ?? {}) : {}, {
    folder: dirname(path),
    defaultFolder: ledgerFolder ?? dirname(path),
    report: (key, message) => report.problem({ source: main.source, path: ledgerPath(key), message }),
    warn: (key, message) => report.warning({ source: main.source, path: ledgerPath(key), message }),
  });
  const list = await readServers(files, env, report);

  const secrets = worthHiding([
    ...files.flatMap((opened) => opened.references.flatMap(secretsOfReference)),
    ...ledger.secrets,
    ...list.secrets,
  ]);
  const redact = createRedactor(secrets);
  const findings = [...others.files.flatMap(({ source }) => source.findings), ...report.findings()];
  if (findings.length > 0) {
    return fail(
      findings
        .map((finding) => ({ ...finding, message: redact(printable(finding.message)) }))
        .sort((a, b) => byPlace(path, a, b)),
    );
  }
  return ok({
    file: path,
    ...listen,
    publicUrl,
    auth,
    hideForbidden: section?.auth?.hideForbidden ?? defaults.auth.hideForbidden,
    ledger: ledger.settings,
    limits: { ...defaults.limits, ...section?.limits },
    servers: list.servers,
    policies: list.policies,
    faultyServers: list.faulty.map(({ key, alias }) => ({
      alias: printable(alias),
      reason: redact(printable(report.reasonOf(key))),
    })),
    secrets,
    warnings: [...variableWarnings, ...report.warnings()].map((warning) => redact(printable(warning))),
  });
}

/** Opens the files of `mcpServersFrom`, of which only the servers are taken. */
async function openOthers(
  main: OpenedFile,
  variables: Variables,
): Promise<{ files: OpenedFile[]; problems: Problem[] }> {
  const files: OpenedFile[] = [];
  const problems: Problem[] = [];
  const named = main.value.callgate?.mcpServersFrom;
  if (!Array.isArray(named)) return { files, problems };
  for (const [index, name] of named.entries()) {
    const at = ['callgate', 'mcpServersFrom', index];
    if (typeof name !== 'string' || main.problems.some(({ path }) => path[1] === at[1] && path[2] === index))
      continue;
    const opened = await openFile(resolve(dirname(main.source.file), name), 'servers', variables);
    files.push(opened);
    if (opened.source.findings.length === 0 && !Object.keys(opened.value).some(isServersKey)) {
      const message = 'this file has neither "mcpServers" nor "servers", so there is nothing to take from it';
      problems.push({ source: main.source, path: at, message });
    }
  }
  return { files, problems };
}

function reportTopKeys({ source }: OpenedFile, report: Report): void {
  if (!isObject(source.value)) return;
  for (const { key, message, isFault } of checkTopKeys(Object.keys(source.value))) {
    const problem = { source, path: [key], message, spot: 'key' } as const;
    if (isFault) report.problem(problem);
    else report.warning(problem);
  }
}

function readListen(
  section: CallgateSection | undefined,
  { source }: OpenedFile,
  dev: boolean,
  report: Report,
): { readonly listen: Address; readonly metrics: Address | undefined } {
  const { host, port, metrics } = { ...defaults.listen, ...section?.listen };
  const complain = (key: string, message: string) =>
    report.problem({ source, path: ['callgate', 'listen', key], message });
  const metricsAddress = typeof metrics === 'string' ? parseAddress(metrics) : undefined;
  if (report.isSound(source, ['callgate', 'listen'])) {
    if (metricsAddress === undefined && metrics !== false) complain('metrics', 'a port is at most 65535');
    if (dev && !isLoopbackHost(host)) {
      complain(
        'host',
        `\`callgate dev\` prints a token that opens everything, so it listens on this machine alone, not on ${host}`,
      );
    }
    if (dev && metricsAddress !== undefined && !isLoopbackHost(metricsAddress.host)) {
      complain('metrics', `\`callgate dev\` listens on this machine alone, not on ${metricsAddress.host}`);
    }
  }
  return { listen: { host: String(host).replace(/^\[|\]$/g, ''), port }, metrics: metricsAddress };
}

function readPublicUrl(
  section: CallgateSection | undefined,
  { source }: OpenedFile,
  report: Report,
): string | undefined {
  const text = section?.publicUrl;
  const path = ['callgate', 'publicUrl'];
  if (text === undefined || !report.isSound(source, path)) return undefined;
  const checked = checkUrl(text);
  if (!checked.ok) {
    report.problem({ source, path, message: `"publicUrl" ${checked.error}` });
    return undefined;
  }
  const { protocol, hostname, search, hash, username, password } = checked.value;
  if (search !== '' || hash !== '' || username !== '' || password !== '') {
    report.problem({
      source,
      path,
      message: '"publicUrl" is shown to every caller, and has no user part, query or fragment: take it out',
    });
  }
  if (protocol === 'http:' && !isLoopbackHost(hostname)) {
    report.warning({
      source,
      path,
      message: `callers are told to send their tokens over plain http to ${hostname}`,
    });
  }
  return text;
}

/** What `${}` brought in, where the design calls it secret; and what came from a file, wherever it stands. */
function secretsOfReference({
  path: [first, second, third, fourth],
  values,
  fileValues,
}: Reference): readonly string[] {
  const isSecretPlace =
    (first === 'callgate' && (second === 'auth' || (second === 'servers' && fourth === 'auth'))) ||
    (isServersKey(first) && (third === 'headers' || third === 'url'));
  return isSecretPlace ? values : fileValues;
}

/** The main file first, then the others by name. */
const byPlace = (mainFile: string, a: Finding, b: Finding): number =>
  Number(b.file === mainFile) - Number(a.file === mainFile) ||
  (a.file < b.file ? -1 : Number(a.file > b.file)) ||
  a.line - b.line ||
  a.column - b.column;
