import { fitsPattern } from '../core/name-pattern.ts';

/** A parsed right: `tools:<alias>:<tool | prefix* | *>[:read|:write]` (design section 10, AZ-4). */
export interface Grant {
  /** A configured alias, or `*`. */
  readonly alias: string;
  /** A tool name, a prefix followed by `*`, or `*`. */
  readonly tool: string;
  /** Absent: any class. */
  readonly class?: ToolClass;
}

export type ToolClass = 'read' | 'write';

/** What a call or a declaration needs a right to. */
export interface GrantTarget {
  readonly alias: string;
  /** The tool's segment in grants, see `grantSegment`. */
  readonly tool: string;
  readonly class: ToolClass;
}

const grantCharsMax = 256;

const grantPattern = /^tools:(\*|[A-Za-z0-9_-]+):(\*|[A-Za-z0-9_.-]{1,128}\*?)(?::(read|write))?$/;

const toolNamePattern = /^[A-Za-z0-9_.-]{1,128}$/;

/**
 * Reads one grant; undefined when the text is not one, however near it comes (AZ-4).
 * A `*` in place of the alias reaches servers that nobody has configured yet, so it counts only with
 * `globalWildcards`, whatever the tool beside it (AZ-5).
 */
export function parseGrant(text: string, options: { readonly globalWildcards: boolean }): Grant | undefined {
  if (text.length > grantCharsMax) return undefined;
  const [, alias, tool, toolClass] = grantPattern.exec(text) ?? [];
  if (alias === undefined || tool === undefined) return undefined;
  if (alias === '*' && !options.globalWildcards) return undefined;
  return toolClass === 'read' || toolClass === 'write' ? { alias, tool, class: toolClass } : { alias, tool };
}

/** The text of a grant, as `parseGrant` reads it. */
export const formatGrant = (grant: Grant): string =>
  `tools:${grant.alias}:${grant.tool}${grant.class === undefined ? '' : `:${grant.class}`}`;

/** Whether a grant gives the right to this tool. */
export const covers = (grant: Grant, target: GrantTarget): boolean =>
  (grant.alias === '*' || grant.alias === target.alias) &&
  (grant.class === undefined || grant.class === target.class) &&
  fitsPattern(grant.tool, target.tool);

/** The smallest grant that would allow this tool and nothing else: the text of a `forbidden` output (AZ-3). */
export const smallestGrant = (target: GrantTarget): string => formatGrant(target);

/** How grants name a tool: by its raw name where that fits the grammar, else by its declared name without the alias. */
export const grantSegment = (rawName: string, declaredName: string, alias: string): string =>
  toolNamePattern.test(rawName) ? rawName : declaredName.slice(alias.length + '__'.length);

/** What a grant gives inside a cap: for each entry of the cap the part that both allow, which is one grant or nothing. */
export function withinMax(grant: Grant, max: readonly Grant[]): readonly Grant[] {
  return max.flatMap((cap) => {
    const alias =
      cap.alias === '*' || cap.alias === grant.alias
        ? grant.alias
        : grant.alias === '*'
          ? cap.alias
          : undefined;
    const tool = commonTools(grant.tool, cap.tool);
    if (alias === undefined || tool === undefined) return [];
    if (grant.class !== undefined && cap.class !== undefined && grant.class !== cap.class) return [];
    const toolClass = grant.class ?? cap.class;
    return [toolClass === undefined ? { alias, tool } : { alias, tool, class: toolClass }];
  });
}

const isPattern = (tool: string): boolean => tool.endsWith('*');

/** The narrower of two patterns where one lies inside the other; patterns over prefixes cannot overlap in part. */
function commonTools(a: string, b: string): string | undefined {
  const [longer, shorter] = a.length >= b.length ? [a, b] : [b, a];
  if (a === b) return a;
  if (isPattern(shorter) && fitsPattern(shorter, longer)) return longer;
  // A pattern's star counts as a character: `get*` is longer than the name `get`, which lies inside it.
  return isPattern(longer) && fitsPattern(longer, shorter) ? shorter : undefined;
}
