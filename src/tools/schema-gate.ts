import { ExactNumber, isJsonObject, type JsonObject, type JsonValue, pointerStep } from '../core/json.ts';
import { fail, ok, type Result } from '../core/result.ts';
import { foreignText } from '../core/text.ts';
import { type Pattern, patternSize } from './pattern.ts';
import { PatternBook } from './pattern-book.ts';
import {
  type Dialect,
  dialects,
  type Form,
  isNames,
  refusedKeywords,
  shapesOf,
  subschemaKeywordsOf,
} from './schema-keywords.ts';

/** A schema that is safe to compile and to run, and what running it can cost. */
export interface GatedSchema {
  readonly dialect: Dialect;
  /** A copy without `$schema` and `$id`; an input schema has a root `type` and `properties`. */
  readonly schema: JsonObject;
  /** Subschemas and names that one value can meet, every path through a `$ref` counted. */
  readonly cost: number;
  /** Steps that one character of a string can cost in the patterns, formats and lengths it can meet. */
  readonly patternSteps: number;
  /** Its patterns by their source, compiled once for all tools of a server. */
  readonly patterns: ReadonlyMap<string, Pattern>;
  /** Whether a `$ref` leads back to a schema around it, so that cost grows with the nesting of the arguments. */
  readonly isRecursive: boolean;
}

/** What a schema of a server may be at most (SC-4). Larger ones are foreign work that nobody has asked for. */
export const schemaLimits = {
  /** Characters of the schema as compact JSON. */
  charsMax: 262_144,
  depthMax: 64,
  /** With those that are true or false, and with names that are required beside another one: each becomes code. */
  subschemasMax: 1_000,
  costMax: 20_000,
  /** Length of a chain of schemas through `$ref`; ajv compiles it by recursion. */
  chainMax: 256,
  enumMembersMax: 10_000,
  /** Properties of one object. */
  propertiesMax: 1_000,
  /** Names in one `required`. */
  requiredMax: 1_000,
  /** Names in one list of `dependentRequired` or `dependencies`; ajv takes time with the square of it. */
  dependentMax: 100,
  /** Names in all of these lists. */
  namesMax: 10_000,
  /** Subschemas and keywords, heavy ones counted more: about 50 us to compile, each, and the process waits for it. */
  codeMax: 3_000,
  patternCharsMax: 1_000,
  /** Characters of all patterns of a schema. */
  patternsCharsMax: 10_000,
  /** Size of all patterns of a schema, counted repeats written out; a thousand take about 3 ms to compile. */
  patternsSizeMax: 20_000,
  /** Size of a compiled pattern, in RE2 instructions. */
  patternStepsMax: 5_000,
} as const;

/**
 * Decides whether a schema that a server sent may be compiled (SC-3, SC-4, SC-5, SC-8, SC-11). The error is one line
 * for the operator. The schema of an output may describe any JSON value; that of an input describes an object.
 */
export function gateSchema(schema: unknown, use: 'input' | 'output' = 'input'): Result<GatedSchema, string> {
  const steps = gateInSteps(schema, use, new PatternBook());
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** The same, with a pause after each pattern, which is what takes long. */
export function* gateInSteps(
  schema: unknown,
  use: 'input' | 'output',
  patterns: PatternBook,
): Generator<void, Result<GatedSchema, string>> {
  try {
    return ok(yield* new Gate(patterns).pass(schema, use));
  } catch (error) {
    if (error instanceof Withheld) return fail(error.reason);
    throw error;
  }
}

/** Leaves the recursion of the gate; never leaves this file. */
class Withheld {
  readonly reason: string;

  constructor(pointer: string, reason: string) {
    this.reason = `${pointer === '' ? 'the schema' : `the schema at ${foreignText(pointer, 200)}`} ${reason}`;
  }
}

const tooLongChain = `lies at the end of a chain of more than ${schemaLimits.chainMax} schemas`;

const tooManySteps = (pointer: string): Withheld =>
  new Withheld(pointer, `is a pattern of more than ${schemaLimits.patternStepsMax} instructions`);

/** Keywords of which each use, or each subschema, takes several times as long to compile as others do. */
const heavyKeywords: ReadonlySet<string> = new Set([
  'oneOf',
  'patternProperties',
  'dependentSchemas',
  'dependencies',
  'propertyNames',
  'uniqueItems',
  'format',
  '$ref',
]);
const heavyCode = 4;

/** What a format counts for each character: most are patterns of JavaScript that go over the text a few times. */
const formatSteps = 4;

interface Node {
  readonly pointer: string;
  readonly here: Node[];
  readonly below: Node[];
  ownCost: number;
  patternSteps: number;
}

interface Effort {
  readonly cost: number;
  readonly patternSteps: number;
}

class Gate {
  #root: JsonObject = {};
  #dialect: Dialect = '2020-12';
  #chars = 0;
  #subschemaCount = 0;
  #nameCount = 0;
  #code = 0;
  #patternsChars = 0;
  #patternsSize = 0;
  #hasContains = false;
  #hasUnevaluatedItems = false;
  #isRecursive = false;
  readonly #nodes = new Map<JsonValue, Node>();
  readonly #anchors = new Map<string, JsonObject>();
  readonly #references: { readonly from: Node; readonly to: string }[] = [];
  readonly #patternPlaces: { readonly node: Node; readonly source: string; readonly pointer: string }[] = [];
  readonly #sources = new Set<string>();
  readonly #patterns = new Map<string, Pattern>();
  readonly #book: PatternBook;

  constructor(book: PatternBook) {
    this.#book = book;
  }

  *pass(schema: unknown, use: 'input' | 'output'): Generator<void, GatedSchema> {
    const copy = this.#copy(schema, '', 0);
    if (!isJsonObject(copy)) throw new Withheld('', 'is not a JSON object');
    const { $schema, ...root } = copy;
    const dialect = dialects.get(typeof $schema === 'string' ? $schema.replace(/#$/, '') : $schema);
    if (dialect === undefined) {
      const named = typeof $schema === 'string' ? foreignText($schema, 100) : 'something that is no URI';
      throw new Withheld(
        '',
        `names ${named} in $schema; known are the URIs of 2020-12, 2019-09 and draft-07`,
      );
    }
    this.#dialect = dialect;
    this.#root = use === 'input' ? withObjectRoot(root) : root;
    const node = this.#visit(this.#root, '', false);
    // Targets are visited as they are found, and bring references of their own.
    for (const reference of this.#references) this.#link(reference.from, reference.to);
    if (this.#hasContains && this.#hasUnevaluatedItems) {
      throw new Withheld('', 'uses unevaluatedItems together with contains, which the validator gets wrong');
    }
    this.#refuseEndlessReferences();
    yield* this.#checkPatterns();
    const effort = this.#measure(node, new Map(), 0);
    if (effort.cost > schemaLimits.costMax) {
      throw new Withheld(
        '',
        `costs more than ${schemaLimits.costMax} subschemas when every $ref is followed`,
      );
    }
    return {
      dialect,
      schema: this.#root,
      ...effort,
      patterns: this.#patterns,
      isRecursive: this.#isRecursive,
    };
  }

  /** Copies JSON and nothing else, and bounds its size and depth while doing so. */
  #copy(value: unknown, pointer: string, depth: number): JsonValue {
    if (this.#chars > schemaLimits.charsMax)
      throw new Withheld('', `is larger than ${schemaLimits.charsMax} characters`);
    this.#chars += 2;
    if (value === null || typeof value === 'boolean') return value;
    if (typeof value === 'string') {
      this.#chars += value.length;
      return value;
    }
    if (typeof value === 'number' && Number.isFinite(value)) return value;
    if (value instanceof ExactNumber) return Number(value.text);
    if (typeof value !== 'object') throw new Withheld(pointer, 'is not JSON');
    if (depth === schemaLimits.depthMax) throw new Withheld(pointer, `nests deeper than ${depth} levels`);
    if (Array.isArray(value))
      return value.map((item, index) => this.#copy(item, `${pointer}/${index}`, depth + 1));
    const copy: Record<string, JsonValue> = {};
    for (const [name, member] of Object.entries(value)) {
      if (name === '__proto__')
        throw new Withheld(pointer, 'has a member named __proto__, which the validator would skip');
      this.#chars += name.length + 2;
      copy[name] = this.#copy(member, pointer + pointerStep(name), depth + 1);
    }
    return copy;
  }

  /** Checks one subschema and all below it, and notes what it can reach. */
  #visit(schema: JsonObject, pointer: string, isInsideId: boolean): Node {
    if (pointer !== '') this.#countSubschemas(1);
    const keywords = subschemaKeywordsOf[this.#dialect];
    const members = Array.isArray(schema.enum) ? schema.enum.length : 0;
    const node: Node = { pointer, here: [], below: [], ownCost: 1 + members / 16, patternSteps: 0 };
    this.#nodes.set(schema, node);
    const isInside = this.#checkOwnKeywords(schema, node, isInsideId);
    for (const [keyword, value] of Object.entries(schema)) {
      const kind = keywords.get(keyword);
      if (kind === undefined) continue;
      const [form, reach] = kind;
      const at = pointer + pointerStep(keyword);
      for (const [place, subschema] of this.#subschemas(value, form, at)) {
        if (heavyKeywords.has(keyword)) this.#countCode(heavyCode);
        if (typeof subschema === 'boolean') {
          this.#countSubschemas(1);
          node.ownCost += 1;
          continue;
        }
        if (!isJsonObject(subschema)) throw new Withheld(place, 'is neither an object nor true nor false');
        const child = this.#visit(subschema, place, isInside);
        if (reach !== 'apart') node[reach].push(child);
      }
    }
    return node;
  }

  #countSubschemas(count: number): void {
    this.#subschemaCount += count;
    if (this.#subschemaCount > schemaLimits.subschemasMax)
      throw new Withheld('', `has more than ${schemaLimits.subschemasMax} subschemas`);
    this.#countCode(count);
  }

  #countCode(amount: number): void {
    this.#code += amount;
    if (this.#code > schemaLimits.codeMax)
      throw new Withheld('', 'takes too long to compile; it needs fewer subschemas and keywords');
  }

  #countNames(names: readonly JsonValue[], max: number, pointer: string): void {
    if (names.length > max) throw new Withheld(pointer, `is a list of more than ${max} names`);
    this.#nameCount += names.length;
    if (this.#nameCount > schemaLimits.namesMax)
      throw new Withheld(pointer, `brings the required names to more than ${schemaLimits.namesMax}`);
  }

  /** The names that must be there, or must be there beside another one; ajv makes code for each of the latter. */
  #addNames(node: Node, schema: JsonObject): void {
    if (Array.isArray(schema.required)) {
      this.#countNames(schema.required, schemaLimits.requiredMax, node.pointer + pointerStep('required'));
      node.ownCost += schema.required.length / 16;
    }
    for (const keyword of ['dependentRequired', 'dependencies']) {
      const value = schema[keyword];
      if (value === undefined || !isJsonObject(value)) continue;
      for (const [name, names] of Object.entries(value)) {
        if (!Array.isArray(names)) continue;
        const at = node.pointer + pointerStep(keyword) + pointerStep(name);
        this.#countNames(names, schemaLimits.dependentMax, at);
        this.#countSubschemas(1 + names.length);
        node.ownCost += 1 + names.length;
      }
    }
  }

  /** @returns whether references below count from an `$id` that is not the root's. */
  #checkOwnKeywords(schema: JsonObject, node: Node, isInsideId: boolean): boolean {
    const { pointer } = node;
    const shapesHere = shapesOf[this.#dialect];
    for (const [keyword, value] of Object.entries(schema)) {
      const shape = shapesHere.get(keyword);
      if (shape === undefined) continue;
      if (!shape[1](value)) throw new Withheld(pointer + pointerStep(keyword), `is not ${shape[0]}`);
      const isHeavy = heavyKeywords.has(keyword) || (keyword === 'type' && Array.isArray(value));
      this.#countCode(isHeavy ? 1 + heavyCode : 1);
    }
    for (const keyword of refusedKeywords) {
      if (Object.hasOwn(schema, keyword))
        throw new Withheld(pointer, `uses ${keyword}, which is not supported`);
    }
    if (Array.isArray(schema.enum) && schema.enum.length > schemaLimits.enumMembersMax) {
      throw new Withheld(pointer, `has an enum of more than ${schemaLimits.enumMembersMax} members`);
    }
    this.#addNames(node, schema);
    if (schema.format !== undefined) node.patternSteps += formatSteps;
    if (schema.minLength !== undefined || schema.maxLength !== undefined) node.patternSteps += 1;
    if (typeof schema.pattern === 'string')
      this.#addPattern(node, schema.pattern, pointer + pointerStep('pattern'));
    if (isJsonObject(schema.patternProperties)) {
      const at = pointer + pointerStep('patternProperties');
      for (const source of Object.keys(schema.patternProperties))
        this.#addPattern(node, source, at + pointerStep(source));
    }
    this.#hasContains ||= Object.hasOwn(schema, 'contains');
    this.#hasUnevaluatedItems ||= this.#dialect !== 'draft-07' && Object.hasOwn(schema, 'unevaluatedItems');
    return this.#checkIdentity(schema as Record<string, JsonValue>, node, isInsideId);
  }

  /** Removes what only names a schema, so that no schema of another server is ever found by name (SC-6). */
  #checkIdentity(schema: Record<string, JsonValue>, node: Node, isInsideId: boolean): boolean {
    const { pointer } = node;
    let isInside = isInsideId;
    const { $id: id, $anchor: anchor } = schema;
    if (this.#dialect === 'draft-07' && typeof id === 'string' && id.startsWith('#')) {
      if (!isInside) this.#addAnchor(id.slice(1), schema, pointer);
    } else if (id !== undefined) {
      delete schema.$id;
      isInside ||= pointer !== '';
    }
    if (isInside) delete schema.$anchor;
    else if (this.#dialect !== 'draft-07' && typeof anchor === 'string')
      this.#addAnchor(anchor, schema, pointer);
    if (Object.hasOwn(schema, '$schema')) {
      const named = schema.$schema;
      if (typeof named !== 'string' || dialects.get(named.replace(/#$/, '')) !== this.#dialect) {
        throw new Withheld(pointer, 'changes the dialect below the root');
      }
      delete schema.$schema;
    }
    // ajv stops at `id`, a keyword of an older draft, and takes `nullable` from OpenAPI, but only beside `type`.
    delete schema.id;
    if (schema.nullable !== true || schema.type === undefined) delete schema.nullable;
    if (typeof schema.$ref === 'string') {
      if (!schema.$ref.startsWith('#'))
        throw new Withheld(pointer, 'has a $ref that leads out of the schema');
      if (isInside) throw new Withheld(pointer, 'has a $ref below an $id that is not at the root');
      this.#references.push({ from: node, to: schema.$ref });
    }
    return isInside;
  }

  #addAnchor(name: string, schema: JsonObject, pointer: string): void {
    if (this.#anchors.has(name)) throw new Withheld(pointer, 'repeats an anchor');
    this.#anchors.set(name, schema);
  }

  #addPattern(node: Node, source: string, pointer: string): void {
    if (source.length > schemaLimits.patternCharsMax) {
      throw new Withheld(pointer, `is a pattern of more than ${schemaLimits.patternCharsMax} characters`);
    }
    this.#patternsChars += source.length;
    if (this.#patternsChars > schemaLimits.patternsCharsMax) {
      throw new Withheld(
        pointer,
        `brings the patterns to more than ${schemaLimits.patternsCharsMax} characters`,
      );
    }
    this.#patternPlaces.push({ node, source, pointer });
    if (this.#sources.has(source)) return;
    this.#sources.add(source);
    const size = patternSize(source);
    // Before it is compiled: one that counts to a million takes seconds.
    if (size - source.length > schemaLimits.patternStepsMax) throw tooManySteps(pointer);
    this.#patternsSize += size;
    if (this.#patternsSize > schemaLimits.patternsSizeMax) {
      throw new Withheld(
        pointer,
        `brings the patterns to a size of more than ${schemaLimits.patternsSizeMax}`,
      );
    }
  }

  *#checkPatterns(): Generator<void> {
    for (const { node, source, pointer } of this.#patternPlaces) {
      const pattern = this.#book.check(source);
      if (!pattern.ok) throw new Withheld(pointer, pattern.error);
      const { steps } = pattern.value;
      if (steps > schemaLimits.patternStepsMax) throw tooManySteps(pointer);
      this.#patterns.set(source, pattern.value);
      node.patternSteps += steps;
      yield;
    }
  }

  /** The subschemas of a keyword with their places. */
  *#subschemas(value: JsonValue, form: Form, pointer: string): Generator<readonly [string, JsonValue]> {
    if (form === 'one' || (form === 'one-or-list' && !Array.isArray(value))) {
      yield [pointer, value];
      return;
    }
    if (form === 'list' || form === 'one-or-list') {
      if (!Array.isArray(value) || value.length === 0)
        throw new Withheld(pointer, 'is not a list of schemas');
      for (const [index, item] of (value as readonly JsonValue[]).entries())
        yield [`${pointer}/${index}`, item];
      return;
    }
    if (!isJsonObject(value)) throw new Withheld(pointer, 'is not a map to schemas');
    const entries = Object.entries(value);
    if (entries.length > schemaLimits.propertiesMax) {
      throw new Withheld(pointer, `has more than ${schemaLimits.propertiesMax} members`);
    }
    for (const [name, item] of entries) {
      if (form === 'map' || !Array.isArray(item)) yield [pointer + pointerStep(name), item];
      else if (!isNames(item))
        throw new Withheld(pointer + pointerStep(name), 'is not a list of different names');
    }
  }

  #link(from: Node, reference: string): void {
    const target = this.#resolve(reference.slice(1));
    if (target === undefined) {
      throw new Withheld(from.pointer, `has a $ref to ${foreignText(reference, 100)}, which does not exist`);
    }
    if (typeof target === 'boolean') return;
    if (!isJsonObject(target)) throw new Withheld(from.pointer, 'has a $ref to something that is no schema');
    from.here.push(this.#nodes.get(target) ?? this.#visit(target, decode(reference.slice(1)) ?? '', false));
  }

  #resolve(fragment: string): JsonValue | undefined {
    if (fragment === '') return this.#root;
    const pointer = decode(fragment);
    if (pointer === undefined) return undefined;
    if (!pointer.startsWith('/')) return this.#anchors.get(pointer);
    let value: JsonValue | undefined = this.#root;
    for (const token of pointer.slice(1).split('/')) {
      const name = token.replaceAll('~1', '/').replaceAll('~0', '~');
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
      value = (value as JsonObject)[name];
    }
    return value;
  }

  /** A `$ref` that comes back to the same value without a step into it would never end. */
  #refuseEndlessReferences(): void {
    const seen = new Map<Node, 'open' | 'done'>();
    const follow = (node: Node, chain: number): void => {
      if (chain > schemaLimits.chainMax) throw new Withheld(node.pointer, tooLongChain);
      seen.set(node, 'open');
      for (const next of node.here) {
        const state = seen.get(next);
        if (state === 'open') throw new Withheld(next.pointer, 'refers to itself without an end');
        if (state === undefined) follow(next, chain + 1);
      }
      seen.set(node, 'done');
    };
    for (const node of this.#nodes.values()) if (!seen.has(node)) follow(node, 0);
  }

  /** Sums the cost along every path, each schema measured once; a way back to an open schema counts as one. */
  #measure(node: Node, known: Map<Node, Effort | 'open'>, chain: number): Effort {
    if (chain > schemaLimits.chainMax) throw new Withheld(node.pointer, tooLongChain);
    known.set(node, 'open');
    let cost = node.ownCost;
    let { patternSteps } = node;
    for (const next of [...node.here, ...node.below]) {
      let effort = known.get(next);
      if (effort === 'open') {
        this.#isRecursive = true;
        cost += 1;
        continue;
      }
      effort ??= this.#measure(next, known, chain + 1);
      cost += effort.cost;
      patternSteps += effort.patternSteps;
    }
    known.set(node, { cost, patternSteps });
    return { cost, patternSteps };
  }
}

/** An input schema describes an object; what is missing of that is added (design, section 8). */
function withObjectRoot(root: JsonObject): JsonObject {
  if (root.type !== undefined && root.type !== 'object') throw new Withheld('/type', 'is not "object"');
  return { ...root, type: 'object', properties: root.properties ?? {} };
}

/** A URI fragment decoded, undefined where its percent signs make no sense. */
function decode(fragment: string): string | undefined {
  try {
    return decodeURIComponent(fragment);
  } catch {
    return undefined;
  }
}
