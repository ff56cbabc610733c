import { execFileSync } from 'node:child_process';
import { until } from './until.ts';

/** A process of this machine. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
}

/** All processes but those that have ended and only wait to be collected. */
function processes(): readonly ProcessEntry[] {
  return execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat=,args='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , state]) => state !== undefined && !state.startsWith('Z'))
    .map(([pid, parent, , ...command]) => ({
      pid: Number(pid),
      parent: Number(parent),
      command: command.join(' '),
    }));
}

/** All processes below this one. */
export function descendantsOf(root: number): readonly ProcessEntry[] {
  const all = processes();
  const found: ProcessEntry[] = [];
  const open = [root];
  for (let parent = open.pop(); parent !== undefined; parent = open.pop()) {
    const children = all.filter((entry) => entry.parent === parent);
    found.push(...children);
    open.push(...children.map((entry) => entry.pid));
  }
  return found;
}

/** Waits until none of these is left. @throws after five seconds, with what still runs */
export async function allGone(entries: readonly ProcessEntry[]): Promise<void> {
  const left = (): readonly ProcessEntry[] => {
    const running = new Map(processes().map((entry) => [entry.pid, entry.command]));
    return entries.filter((entry) => running.get(entry.pid) === entry.command);
  };
  const deadline = performance.now() + 5_000;
  await until(() => left().length === 0 || performance.now() > deadline);
  const alive = left();
  if (alive.length > 0) {
    throw new Error(
      `left behind after the end of callgate: ${alive.map((entry) => entry.command).join(', ')}`,
    );
  }
}
