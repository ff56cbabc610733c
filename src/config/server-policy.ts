import { fitsPattern } from '../core/name-pattern.ts';
import type { ServerPolicy } from '../tools/policy.ts';
import type { CompleteOptions } from './file.ts';

/** What the configuration says about the tools of one server, as the questions that are asked of it. */
export function createServerPolicy(alias: string, options: CompleteOptions): ServerPolicy {
  const tools = new Map(Object.entries(options.tools));
  return {
    alias,
    descriptionPrefix: options.descriptionPrefix,
    trustAnnotations: options.trustAnnotations,
    needsRun: options.connection === 'run',
    offers: (rawName) =>
      (options.include === undefined || longestMatch(options.include, rawName) !== undefined) &&
      longestMatch(options.exclude, rawName) === undefined,
    toolPolicy: (rawName) => {
      const pattern = longestMatch(tools.keys(), rawName);
      const tool = pattern === undefined ? undefined : tools.get(pattern);
      return {
        class: tool?.class,
        idempotent: tool?.idempotent,
        retry: tool?.retry ?? options.retry,
        timeoutMs: tool?.timeoutMs ?? options.timeoutMs,
        timeoutTotalMs: tool?.timeoutTotalMs ?? options.timeoutTotalMs,
        outputCharsMax: tool?.outputCharsMax ?? options.outputCharsMax,
        render: tool?.render ?? options.render,
        description: tool?.description,
      };
    },
  };
}

/** The pattern that fits a name best: the name itself, else the longest start of it followed by `*`. */
function longestMatch(patterns: Iterable<string>, name: string): string | undefined {
  let best: string | undefined;
  for (const pattern of patterns) {
    if (pattern === name) return pattern;
    if (fitsPattern(pattern, name) && pattern.length > (best?.length ?? 0)) best = pattern;
  }
  return best;
}
