import { readdirSync, readFileSync } from 'node:fs';
import { dirname, posix, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const source = fileURLToPath(new URL('../../src', import.meta.url));

/** The floor of each folder of `src/` (ARCHITECTURE.md). A file imports from its own floor or a lower one. */
const floors: Readonly<Record<string, number>> = {
  core: 0,
  tools: 1,
  formats: 1,
  access: 1,
  client: 1,
  dispatch: 2,
  upstream: 3,
  ledger: 3,
  auth: 3,
  telemetry: 3,
  http: 4,
  config: 5,
  commands: 5,
  '': 5,
};
/** Adapters stand side by side and do not know each other. */
const adapters: ReadonlySet<string> = new Set(['upstream', 'ledger', 'auth', 'telemetry']);
/** What the pure floors may take from the platform: hashes, tables of addresses, and a bound on the time of a validation. */
const pureModules: ReadonlySet<string> = new Set(['node:crypto', 'node:net', 'node:vm']);

interface Import {
  readonly file: string;
  readonly folder: string;
  readonly target: string;
}

const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((file) =>
  file.endsWith('.ts'),
);

const imports: readonly Import[] = files.flatMap((file) => {
  const text = readFileSync(resolve(source, file), 'utf8');
  const folder = dirname(file).split(sep)[0]?.replace('.', '') ?? '';
  return [...text.matchAll(/^(?:import|export)\b[^;]*?\bfrom '([^']+)'/gm)].map(([, target]) => ({
    file: file.split(sep).join(posix.sep),
    folder,
    target: target ?? '',
  }));
});

const folderOf = ({ file, target }: Import): string => {
  const path = relative(source, resolve(source, dirname(file), target));
  return path.includes(sep) ? (path.split(sep)[0] ?? '') : '';
};

const local = imports.filter(({ target }) => target.startsWith('.') && target.endsWith('.ts'));

test('every folder has a floor', () => {
  expect([...new Set(imports.map(({ folder }) => folder))].filter((folder) => !(folder in floors))).toEqual(
    [],
  );
});

test('a file imports only from its own floor or a lower one', () => {
  const upward = local.filter((each) => (floors[folderOf(each)] ?? 99) > (floors[each.folder] ?? -1));
  expect(upward).toEqual([]);
});

test('adapters never import each other', () => {
  const crossing = local.filter(
    (each) => adapters.has(each.folder) && adapters.has(folderOf(each)) && each.folder !== folderOf(each),
  );
  expect(crossing).toEqual([]);
});

test('the MCP SDK stays inside upstream/', () => {
  const outside = imports.filter(
    ({ target, folder }) => target.startsWith('@modelcontextprotocol/') && folder !== 'upstream',
  );
  expect(outside).toEqual([]);
});

test('the published client imports nothing else of ours, and nobody imports it', () => {
  const crossing = local.filter((each) => (each.folder === 'client') !== (folderOf(each) === 'client'));
  expect(crossing).toEqual([]);
});

test('the pure floors use no I/O of the platform', () => {
  const impure = imports.filter(
    ({ target, folder }) =>
      (floors[folder] ?? 9) <= 2 && target.startsWith('node:') && !pureModules.has(target),
  );
  expect(impure).toEqual([]);
});

test('only the configuration and the commands read the environment', () => {
  const readers = files.filter((file) => readFileSync(resolve(source, file), 'utf8').includes('process.env'));
  expect(readers.filter((file) => !/^(config|commands)[\\/]/.test(file))).toEqual([]);
});
