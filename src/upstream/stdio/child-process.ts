import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access, readdir, readFile, stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EventLog } from '../../core/events.ts';
import { Watchdog } from './watchdog.ts';

export interface ChildSettings {
  readonly command: string;
  readonly args: readonly string[];
  /** The child's whole environment; nothing of ours is added (MT-2). */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** How a child ended. */
export interface ExitStatus {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export type SpawnFault = 'command_missing' | 'command_not_executable' | 'cwd_missing' | 'spawn_failed';

/** Why a child could not be started. */
export class SpawnError extends Error {
  override readonly name = 'SpawnError';
  readonly fault: SpawnFault;

  constructor(fault: SpawnFault, message: string, cause: unknown) {
    super(message, { cause });
    this.fault = fault;
  }
}

const liveGroups = new Set<ChildGroup>();
const watchdog = new Watchdog();
/** How long a killed group may take to disappear: the kernel needs no time, whoever has to reap it may. */
const reapMsMax = 1_000;

/** Kills every group that may still hold a process; for the moment in which nothing can be awaited any more. */
export function killAllGroups(): void {
  for (const group of liveGroups) group.signal('SIGKILL');
}

/**
 * A child and all that it starts, in a process group of its own.
 * Launchers (`npx`, `sh -c`) take signals for themselves and leave the real server alive; a group has no such gap (MT-10).
 */
export class ChildGroup {
  readonly child: ChildProcessWithoutNullStreams;
  readonly pid: number;
  readonly #exited: Promise<unknown>;
  #isGone = false;
  #ending: Promise<boolean> | undefined;

  constructor(child: ChildProcessWithoutNullStreams, pid: number) {
    this.child = child;
    this.pid = pid;
    liveGroups.add(this);
    watchdog.watch(pid);
    this.#exited = new Promise((resolve) => {
      child.once('exit', () => {
        // Asked at once whether that was the last one: from here on the number can go to somebody else.
        this.signal(0);
        resolve(undefined);
      });
    });
  }

  get exitStatus(): ExitStatus | undefined {
    const { exitCode: code, signalCode: signal } = this.child;
    return code === null && signal === null ? undefined : { code, signal };
  }

  /** Ends stdin, which a well-behaved server takes as its end, and waits a while for the direct child to leave. */
  async leave(graceMs: number): Promise<void> {
    this.child.stdin.end();
    if (this.exitStatus !== undefined) return;
    const patience = new AbortController();
    await Promise.race([
      this.#exited,
      sleep(graceMs, undefined, { signal: patience.signal }).catch(() => {}),
    ]);
    patience.abort();
  }

  /** SIGTERM to the whole group, SIGKILL after the grace. False when processes are left even then. */
  end(graceMs: number): Promise<boolean> {
    this.#ending ??= this.#end(graceMs);
    return this.#ending;
  }

  async #end(graceMs: number): Promise<boolean> {
    this.signal('SIGTERM');
    if (await this.#disappears(graceMs)) return true;
    this.signal('SIGKILL');
    const isEmpty = await this.#disappears(reapMsMax);
    // What is left dies as soon as the kernel lets it, or is not ours to kill: there is nothing more to send.
    this.#markGone();
    return isEmpty;
  }

  /** Sends a signal to every process of the group; 0 only asks. False once the group is empty. */
  signal(signal: NodeJS.Signals | 0): boolean {
    // The number may belong to somebody else later, so an empty group is never signalled again.
    if (this.#isGone) return false;
    try {
      process.kill(-this.pid, signal);
    } catch (error) {
      // EPERM: there are processes, but not ours to signal.
      if ((error as NodeJS.ErrnoException).code === 'ESRCH') this.#markGone();
    }
    return !this.#isGone;
  }

  async #disappears(waitMsMax: number): Promise<boolean> {
    // Nothing tells when a grandchild ends, so the group is asked, at first often.
    const deadlineMs = performance.now() + waitMsMax;
    for (let pauseMs = 5; this.signal(0); pauseMs = Math.min(100, 2 * pauseMs)) {
      // To look at all processes is dear, and the direct child is none of those as long as it runs.
      if (this.exitStatus !== undefined && (await hasOnlyZombies(this.pid))) {
        this.#markGone();
        return true;
      }
      const leftMs = deadlineMs - performance.now();
      if (leftMs <= 0) return false;
      await sleep(Math.min(pauseMs, leftMs));
    }
    return true;
  }

  #markGone(): void {
    this.#isGone = true;
    liveGroups.delete(this);
    watchdog.forget(this.pid);
  }
}

/**
 * Whether all that is left of a group are processes that have ended and wait for their parent to take note.
 * An orphan's new parent is process 1, which in a container may be slow at it or never do it.
 */
async function hasOnlyZombies(group: number): Promise<boolean> {
  const names = await readdir('/proc').catch(() => []);
  const stats = await Promise.all(
    names
      .filter((name) => /^\d+$/.test(name))
      .map((name) => readFile(`/proc/${name}/stat`, 'latin1').catch(() => '')),
  );
  // proc(5): `pid (name) state parent group ...`, and the name may hold anything.
  const states = stats
    .map((line) => line.slice(line.lastIndexOf(')') + 2).split(' '))
    .filter(([, , memberOf]) => Number(memberOf) === group)
    .map(([state]) => state);
  return states.length > 0 && states.every((state) => state === 'Z');
}

/** Starts a child as the leader of a new process group, which ends with this process at the latest. @throws SpawnError */
export async function spawnGroup(settings: ChildSettings, log: EventLog): Promise<ChildGroup> {
  watchdog.ready(log);
  try {
    const child = spawn(settings.command, settings.args, {
      cwd: settings.cwd,
      env: { ...settings.env },
      stdio: 'pipe',
      shell: false,
      detached: true,
    });
    const { pid } = child;
    if (pid !== undefined) return new ChildGroup(child, pid);
    throw await new Promise<Error>((resolve) => child.once('error', resolve));
  } catch (error) {
    throw await explain(settings, error);
  }
}

async function explain({ command, cwd }: ChildSettings, cause: unknown): Promise<SpawnError> {
  // The system gives the same code for a missing command and a missing folder.
  const isFolder = await stat(cwd).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) {
    return new SpawnError(
      'cwd_missing',
      `the working folder ${cwd} does not exist; correct "cwd" of this server`,
      cause,
    );
  }
  if (
    !(await access(cwd, constants.X_OK).then(
      () => true,
      () => false,
    ))
  ) {
    return new SpawnError(
      'cwd_missing',
      `the working folder ${cwd} may not be entered; allow it, or correct "cwd" of this server`,
      cause,
    );
  }
  const { code } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT') {
    return new SpawnError(
      'command_missing',
      `the command ${command} was not found; install it, or correct "command" of this server`,
      cause,
    );
  }
  if (code === 'EACCES') {
    return new SpawnError(
      'command_not_executable',
      `the command ${command} may not be executed; correct its permissions, or "command" of this server`,
      cause,
    );
  }
  return new SpawnError(
    'spawn_failed',
    `the command ${command} could not be started (${code ?? String(cause)})`,
    cause,
  );
}
