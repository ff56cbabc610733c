import { type Node as JsonNode, type ParseError, parseTree, printParseErrorCode } from 'jsonc-parser';
import type { Finding } from './configuration.ts';

/** The way from the top of a file to one of its values. */
export type Path = readonly (string | number)[];

/** Whether a place is that of a value, or of the key it stands under. */
export type Spot = 'key' | 'value';

/** Something wrong at one place of one file. */
export interface Problem {
  readonly source: Source;
  readonly path: Path;
  readonly message: string;
  readonly spot?: Spot;
}

/** A configuration file as read: plain data, and where in the text each part of it stands. */
export interface Source {
  readonly file: string;
  readonly value: unknown;
  /** The place of what `path` names, or of the closest thing around it that the file has. */
  readonly placeOf: (path: Path, spot?: Spot) => { readonly line: number; readonly column: number };
  /** Faults of the text itself; with any of them there is no value. */
  readonly findings: readonly Finding[];
}

interface Offsets {
  key?: number;
  value: number;
}

interface Tree {
  readonly value: unknown;
  readonly offsets: ReadonlyMap<string, Offsets>;
  readonly faults: readonly { readonly offset: number; readonly message: string }[];
}

const idOf = (path: Path): string => JSON.stringify(path);

/** Reads the text of a configuration file: YAML by its extension, else JSON with comments and trailing commas. */
export async function parseSource(file: string, text: string): Promise<Source> {
  const content = text.replace(/^\ufeff/, '');
  const tree = /\.ya?ml$/i.test(file) ? await parseYaml(content) : parseJson(content);
  const place = (offset: number) => {
    const before = content.slice(0, offset);
    return { line: before.split('\n').length, column: offset - before.lastIndexOf('\n') };
  };
  const placeOf = (path: Path, spot: Spot = 'value') => {
    for (let length = path.length; length >= 0; length -= 1) {
      const found = tree.offsets.get(idOf(path.slice(0, length)));
      if (found === undefined) continue;
      const wantsKey = spot === 'key' || length < path.length;
      return place(wantsKey ? (found.key ?? found.value) : found.value);
    }
    return place(0);
  };
  const findings = tree.faults.map(({ offset, message }) => ({ file, ...place(offset), message }));
  return { file, value: findings.length === 0 ? tree.value : undefined, placeOf, findings };
}

function parseJson(text: string): Tree {
  const errors: ParseError[] = [];
  const root = parseTree(text, errors, { allowTrailingComma: true });
  const offsets = new Map<string, Offsets>();
  const faults = errors.map(({ error, offset }) => ({
    offset,
    message: `this is not valid JSON: ${wordsOf(printParseErrorCode(error))}`,
  }));

  const read = (node: JsonNode, path: Path, key?: number): unknown => {
    offsets.set(idOf(path), key === undefined ? { value: node.offset } : { key, value: node.offset });
    if (node.type === 'array')
      return (node.children ?? []).map((child, index) => read(child, [...path, index]));
    if (node.type !== 'object') return node.value;
    const entries = new Map<string, unknown>();
    for (const { children = [] } of node.children ?? []) {
      const [name, value] = children;
      if (name === undefined || value === undefined) continue; // half a member: already among the errors
      if (entries.has(name.value)) faults.push({ offset: name.offset, message: duplicateKey(name.value) });
      entries.set(name.value, read(value, [...path, name.value], name.offset));
    }
    return Object.fromEntries(entries);
  };
  return { value: root && read(root, []), offsets, faults };
}

async function parseYaml(text: string): Promise<Tree> {
  // Loaded where it is needed: most configurations are JSON, and idle memory is bounded.
  const { isAlias, isMap, isScalar, isSeq, parseDocument } = await import('yaml');
  const document = parseDocument(text, { prettyErrors: false, stringKeys: true } as const);
  const offsets = new Map<string, Offsets>();
  const faults = [...document.errors, ...document.warnings].map(({ code, pos, message }) => ({
    offset: pos[0],
    message:
      code === 'DUPLICATE_KEY'
        ? duplicateKey(/^["']?([^"':\s]*)/.exec(text.slice(pos[0]))?.[1] ?? '')
        : `this is not valid YAML: ${message}`,
  }));

  const locate = (node: unknown, path: Path, key?: number): void => {
    if (!isScalar(node) && !isMap(node) && !isSeq(node) && !isAlias(node)) return;
    const value = node.range?.[0] ?? 0;
    offsets.set(idOf(path), key === undefined ? { value } : { key, value });
    if (isSeq(node)) for (const [index, item] of node.items.entries()) locate(item, [...path, index]);
    if (!isMap(node)) return;
    for (const pair of node.items) {
      if (isScalar(pair.key)) locate(pair.value, [...path, String(pair.key.value)], pair.key.range?.[0]);
    }
  };
  locate(document.contents, []);
  if (faults.length > 0) return { value: undefined, offsets, faults };
  try {
    return { value: document.toJS({ maxAliasCount: 100 }), offsets, faults };
  } catch (error) {
    // Anchors that multiply without end, or an alias without an anchor.
    return {
      value: undefined,
      offsets,
      faults: [{ offset: 0, message: `this YAML cannot be read: ${String(error)}` }],
    };
  }
}

const duplicateKey = (key: string): string => `"${key}" stands twice in this object: keep one of the two`;

/** `CloseBraceExpected` → `close brace expected`. */
const wordsOf = (code: string): string => code.replace(/(?<=[a-z])[A-Z]/g, ' $&').toLowerCase();
