import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { EventLog } from '../../core/events.ts';

/**
 * The whole watchdog, for any POSIX shell. It reads `+<group>` and `-<group>`, a line each. When its input ends, it
 * sends SIGTERM to the groups that are left, and SIGKILL a second later.
 */
const script = `
trap '' HUP INT TERM
groups=' '
while read -r line; do
  group=\${line#?}
  case $line in
    +*) groups="$groups$group " ;;
    -*) case $groups in *" $group "*) groups="\${groups%%" $group "*} \${groups#*" $group "}" ;; esac ;;
  esac
done
left=
for group in $groups; do
  kill -TERM "-$group" && left="$left $group"
done
[ -z "$left" ] && exit
sleep 1
for group in $left; do
  kill -KILL "-$group"
done
`;

/** What it is called in a list of processes. */
const processName = 'callgate-watchdog';
/** One that lives longer did not die of how it was started. */
const healthyMs = 10_000;
const pauseMsMin = 100;
const pauseMsMax = 60_000;

/**
 * Ends process groups when this process is gone, even if it was killed in a way that leaves it no time for that
 * (SIGKILL, out of memory). A tiny process of its own reads from a pipe whose other end only this one has: the kernel
 * closes it, and nobody has to look again and again (MT-10).
 */
export class Watchdog {
  readonly #shell: string;
  readonly #groups = new Set<number>();
  #log: EventLog | undefined;
  #child: ChildProcess | undefined;
  #startedMs = 0;
  #earlyDeaths = 0;

  /** @param shell the absolute path of a POSIX shell */
  constructor(shell = '/bin/sh') {
    this.#shell = shell;
  }

  /** The process that watches; undefined while there is none. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts it if need be; to be called before a group is made, so that none is ever without it. */
  ready(log: EventLog): void {
    this.#log = log;
    if (this.#child === undefined) this.#start();
  }

  /** From now on the group ends with this process. */
  watch(group: number): void {
    this.#groups.add(group);
    this.#tell(`+${group}\n`);
  }

  /** The group is empty, and its number may soon belong to somebody else. */
  forget(group: number): void {
    if (this.#groups.delete(group)) this.#tell(`-${group}\n`);
  }

  // A pipe with room takes a write before `write` returns: no turn of the event loop lies between.
  #tell(lines: string): void {
    this.#child?.stdin?.write(lines);
  }

  #start(): void {
    this.#startedMs = performance.now();
    let child: ChildProcess;
    try {
      child = spawn(this.#shell, ['-c', script, processName], {
        stdio: ['pipe', 'ignore', 'ignore'],
        env: { PATH: '/usr/bin:/bin' },
        cwd: '/',
        // In a group of its own: a signal to the group of this process is none to it.
        detached: true,
      });
    } catch (error) {
      this.#onEnded(String(error));
      return;
    }
    this.#child = child;
    child.once('error', (error) => this.#onEnded(error.message));
    child.once('exit', (code, signal) => this.#onEnded(`it ended with ${signal ?? `exit code ${code}`}`));
    // What cannot be written has no reader any more, and its end is told above.
    child.stdin?.on('error', () => {});
    child.unref();
    // A pipe of the system, which is a socket to Node; missing where there was no descriptor left for it.
    (child.stdin as Socket | undefined)?.unref();
    this.#tell([...this.#groups].map((group) => `+${group}\n`).join(''));
  }

  #onEnded(reason: string): void {
    this.#child = undefined;
    this.#log?.warn('process.watchdog_ended', { reason });
    const isEarly = performance.now() - this.#startedMs < healthyMs;
    this.#earlyDeaths = isEarly ? this.#earlyDeaths + 1 : 0;
    if (this.#earlyDeaths <= 1) this.#restart();
    else setTimeout(() => this.#restart(), this.#pauseMs()).unref();
  }

  #pauseMs(): number {
    return Math.min(pauseMsMax, pauseMsMin * 2 ** this.#earlyDeaths);
  }

  /** Without a group the next one starts it. */
  #restart(): void {
    if (this.#child === undefined && this.#groups.size > 0) this.#start();
  }
}
