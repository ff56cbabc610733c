import { dirname } from 'node:path';
import { isObject } from '../core/json.ts';
import { checkAlias } from '../tools/names.ts';
import type { ServerPolicy } from '../tools/policy.ts';
import type { ServerSettings } from '../upstream/settings.ts';
import { defaults } from './defaults.ts';
import { type CallgateSection, type CompleteOptions, ownMember, type ServerEntry } from './file.ts';
import { checkEntryKeys } from './foreign-keys.ts';
import { nearest } from './nearest.ts';
import type { OpenedFile } from './open-file.ts';
import type { Report } from './report.ts';
import { secretsOf } from './secrets.ts';
import { readCredentials } from './server-credentials.ts';
import { createServerPolicy } from './server-policy.ts';
import { createServerSettings } from './server-settings.ts';
import type { Path } from './source.ts';
import { checkTimes } from './times.ts';
import type { Environment } from './variables.ts';

/** A server as it stands in a file. */
interface Listed {
  readonly file: OpenedFile;
  readonly path: Path;
  readonly entry: ServerEntry;
  /** The key it has in the file. */
  readonly key: string;
  /** The alias it gets, which `callgate.servers.<key>.alias` may change. */
  readonly alias: string;
}

export interface ServerList {
  readonly servers: readonly ServerSettings[];
  readonly policies: readonly ServerPolicy[];
  /** Keys and aliases of the servers that cannot be used; why is in the report. */
  readonly faulty: readonly { readonly key: string; readonly alias: string }[];
  /** What the entries hold that must not be shown. */
  readonly secrets: readonly string[];
}

/** Reads the servers of all files; the first file is the main one and has the settings for all. */
export async function readServers(
  files: readonly [OpenedFile, ...OpenedFile[]],
  env: Environment,
  report: Report,
): Promise<ServerList> {
  const [main] = files;
  const section = main.value.callgate;
  const listed = listServers(files, section, report);
  const servers: ServerSettings[] = [];
  const policies: ServerPolicy[] = [];
  const faulty: { key: string; alias: string }[] = [];
  const secrets: string[] = [];
  for (const { path, message } of checkTimes(
    section,
    listed.map(({ key }) => key),
  ))
    report.problem({ source: main.source, path, message });
  for (const { file, path, entry, key, alias } of listed) {
    if (report.isSound(file.source, path)) secrets.push(...secretsOf(entry));
    if (isObject(entry)) {
      for (const verdict of checkEntryKeys(key, Object.keys(entry))) {
        const at = {
          source: file.source,
          path: [...path, verdict.key],
          message: verdict.message,
          spot: 'key',
        } as const;
        if (verdict.isFault) report.problem(at);
        else report.warning(at);
      }
    }
    const checked = checkAlias(alias);
    if (!checked.ok) {
      const message = `${checked.error}. Rename the server, or give it that alias with callgate.servers[${JSON.stringify(key)}].alias`;
      report.problem({ source: file.source, path, message, spot: 'key' });
    }
    if (report.hasFaults(key)) {
      faulty.push({ key, alias });
      continue;
    }
    const options = optionsOf(section, key);
    const credentials = await readCredentials(entry, options, {
      folder: dirname(main.source.file),
      at: { source: main.source, path: ['callgate', 'servers', key, 'auth'] },
      report,
    });
    secrets.push(...credentials.secrets);
    if (report.hasFaults(key)) {
      faulty.push({ key, alias });
      continue;
    }
    const place = { folder: dirname(file.source.file), env };
    const settings = await createServerSettings(alias, entry, options, credentials.settings, place);
    if (settings.ok) {
      servers.push(settings.value);
      policies.push(createServerPolicy(alias, options));
    } else {
      const { path: inner, message } = settings.error;
      report.problem({
        source: file.source,
        path: [...path, ...inner],
        message,
        spot: inner.length === 0 ? 'key' : 'value',
      });
      faulty.push({ key, alias });
    }
  }
  return { servers, policies, faulty, secrets };
}

/** Collects the servers that are switched on, and sees to it that each has an alias of its own. */
function listServers(
  files: readonly [OpenedFile, ...OpenedFile[]],
  section: CallgateSection | undefined,
  report: Report,
): Listed[] {
  const listed: Listed[] = [];
  const places = new Map<string, string>();
  const aliases = new Map<string, string>();
  for (const file of files) {
    for (const top of ['mcpServers', 'servers'] as const) {
      const entries = file.value[top];
      if (!isObject(entries)) continue;
      for (const [key, entry] of Object.entries(entries)) {
        const path = [top, key];
        const at = { source: file.source, path, spot: 'key' } as const;
        const place = places.get(key);
        if (place !== undefined) {
          report.finding({
            ...at,
            message: `the server "${key}" is configured twice, here and at ${place}: rename or remove one of the two`,
          });
          continue;
        }
        places.set(key, report.placeText(at));
        if (isObject(entry) && entry.disabled === true) {
          report.switchOff(key);
          report.warning({
            ...at,
            message: `the server "${key}" is left out, because it says "disabled": true`,
          });
          continue;
        }
        report.expect(key);
        const alias = ownMember(section?.servers, key)?.alias;
        const owner = aliases.get(alias ?? key);
        if (owner !== undefined) {
          report.finding({
            ...at,
            message: `the servers "${owner}" and "${key}" have the same alias "${alias ?? key}": give one of them another`,
          });
        }
        aliases.set(alias ?? key, key);
        listed.push({ file, path, entry, key, alias: typeof alias === 'string' ? alias : key });
      }
    }
  }
  reportStrays(files, section, places, report);
  return listed;
}

/** Finds settings for servers that do not exist, unless a file that may hold them could not be read. */
function reportStrays(
  [main, ...others]: readonly [OpenedFile, ...OpenedFile[]],
  section: CallgateSection | undefined,
  places: ReadonlyMap<string, string>,
  report: Report,
): void {
  if (!isObject(section?.servers) || others.some(({ source }) => source.findings.length > 0)) return;
  for (const key of Object.keys(section.servers)) {
    if (places.has(key)) continue;
    const near = nearest(key, places.keys());
    const hint = near === undefined ? 'name it as it stands in "mcpServers"' : `did you mean "${near}"?`;
    const path = ['callgate', 'servers', key];
    report.finding({
      source: main.source,
      path,
      message: `there is no server "${key}": ${hint}`,
      spot: 'key',
    });
  }
}

function optionsOf(section: CallgateSection | undefined, key: string): CompleteOptions {
  const common = section?.defaults;
  const own = ownMember(section?.servers, key);
  return { ...defaults.server, ...common, ...own, tools: { ...common?.tools, ...own?.tools } };
}
