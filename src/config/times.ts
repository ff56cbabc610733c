import { isObject } from '../core/json.ts';
import { defaults } from './defaults.ts';
import { type CallgateSection, ownMember } from './file.ts';
import type { Path } from './source.ts';

/** What a part of the file says of the time that a call may take, and where it stands. */
interface Stated {
  readonly path: Path;
  readonly timeoutMs?: unknown;
  readonly timeoutTotalMs?: unknown;
}

interface Fault {
  readonly path: Path;
  readonly message: string;
}

/**
 * Finds where `timeoutTotalMs` is shorter than `timeoutMs`, so that the latter would mean nothing. What a server says
 * itself is to blame before what it has from the defaults, and each place is told once.
 */
export function checkTimes(section: CallgateSection | undefined, keys: readonly string[]): readonly Fault[] {
  const common = stated(section?.defaults, ['callgate', 'defaults']);
  const faults = new Map<string, Fault>();
  for (const key of keys) {
    const own = stated(ownMember(section?.servers, key), ['callgate', 'servers', key]);
    const ofServer = checkLevels([own, common], [own, common]);
    if (ofServer !== undefined) faults.set(JSON.stringify(ofServer.path), ofServer);
    for (const name of new Set([...toolNames(own), ...toolNames(common)])) {
      const ownTool = toolOf(own, name);
      const commonTool = ownTool === undefined ? toolOf(common, name) : undefined;
      const tool = ownTool ?? commonTool;
      if (tool?.timeoutMs === undefined && tool?.timeoutTotalMs === undefined) continue;
      const fault = checkLevels([tool, own, common], [ownTool, own, commonTool, common]);
      if (fault !== undefined) faults.set(JSON.stringify(fault.path), fault);
    }
  }
  return [...faults.values()];
}

type Level = Stated & { readonly tools?: unknown };

const stated = (options: unknown, path: Path): Level => (isObject(options) ? { ...options, path } : { path });

const toolNames = ({ tools }: Level): readonly string[] => (isObject(tools) ? Object.keys(tools) : []);

function toolOf({ tools, path }: Level, name: string): Stated | undefined {
  const tool = isObject(tools) ? ownMember(tools, name) : undefined;
  return tool === undefined ? undefined : stated(tool, [...path, 'tools', name]);
}

/** Takes each time from the first of the levels that says it; `toBlame` has them in the order of their guilt. */
function checkLevels(levels: readonly Stated[], toBlame: readonly (Stated | undefined)[]): Fault | undefined {
  const find = (key: 'timeoutMs' | 'timeoutTotalMs'): unknown =>
    levels.find((level) => level[key] !== undefined)?.[key] ?? defaults.server[key];
  const [timeoutMs, totalMs] = [find('timeoutMs'), find('timeoutTotalMs')];
  if (typeof timeoutMs !== 'number' || typeof totalMs !== 'number' || totalMs >= timeoutMs) return undefined;
  const blamed = toBlame.find(
    (level) => level?.timeoutTotalMs !== undefined || level?.timeoutMs !== undefined,
  );
  if (blamed === undefined) return undefined;
  const key = blamed.timeoutTotalMs === undefined ? 'timeoutMs' : 'timeoutTotalMs';
  return {
    path: [...blamed.path, key],
    message: `timeoutTotalMs (${totalMs}) is less than timeoutMs (${timeoutMs}): a call would be given up before its server may be silent for that long; raise timeoutTotalMs, or lower timeoutMs`,
  };
}
