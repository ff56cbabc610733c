import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Random } from './random.ts';

const program = fileURLToPath(new URL('tormented-server.mjs', import.meta.url));

/** In which a process may start. */
const moods = ['well', 'well', 'exit', 'exit_after_list', 'garbage', 'mute', 'slow'] as const;
type Mood = (typeof moods)[number];
const slowStartMsMax = 1_500;

/** Longer than any message callgate is told to take. */
export const oversizeBytes = 400_000;

/** The process of a server that runs now, as it has said itself. */
interface Running {
  readonly pid: number;
  readonly socket: Socket;
}

interface Victim {
  /** Its processes that reported and were there when this was last looked at. */
  alive: number[];
  running: Running | undefined;
  /** Whether it was stopped by a signal, and not yet told to go on. */
  isStopped: boolean;
}

/** What is done to a running process, with how long it lasts. */
const orders = [
  'junk',
  'flood_stdout',
  'flood_stderr',
  'flood_notices',
  'endless_line',
  'oversize',
  'halves',
  'half_and_die',
  'malformed',
  'hang',
] as const;
const torments = [...orders, 'kill', 'kill', 'stop', 'stop'] as const;

/**
 * Torments the processes of servers, and keeps account of them. Each process reports when it starts; then no other one of
 * the same server may be left.
 */
export class Tormentor {
  readonly #random: Random;
  readonly #path: string;
  readonly #victims = new Map<string, Victim>();
  readonly #server: Server;
  #isCalm = true;
  /** Processes that reported. */
  starts = 0;
  readonly violations: string[] = [];
  /** How often each torment, and each mood of a start, was chosen. */
  readonly counts: Record<string, number> = {};

  private constructor(folder: string, random: Random) {
    this.#random = random;
    this.#path = join(folder, 'control.sock');
    this.#server = createServer((socket) => this.#greet(socket));
  }

  static async start(folder: string, random: Random): Promise<Tormentor> {
    const tormentor = new Tormentor(folder, random);
    await new Promise<void>((resolve) => tormentor.#server.listen(tormentor.#path, resolve));
    return tormentor;
  }

  /** How a configuration starts this server. */
  entry(alias: string): { readonly command: string; readonly args: readonly string[] } {
    this.#victims.set(alias, { alive: [], running: undefined, isStopped: false });
    return { command: process.execPath, args: [program, this.#path, alias] };
  }

  /** Torments this server again and again until the torment is over. */
  async torment(alias: string): Promise<void> {
    const random = this.#random.fork();
    this.#isCalm = false;
    while (!this.#isCalm) {
      await sleep(random.whole(20, 400));
      if (!this.#isCalm) await this.#once(alias, random);
    }
  }

  /** The torment is over: what is stopped goes on, what starts is well. */
  calm(): void {
    this.#isCalm = true;
    for (const victim of this.#victims.values()) this.#signal(victim, 'SIGCONT');
  }

  /** Stops the process of a server, for good. */
  freeze(alias: string): void {
    this.#signal(this.#victim(alias), 'SIGSTOP');
  }

  /** The processes that reported and are left. */
  left(): readonly number[] {
    return [...this.#victims.values()].flatMap(({ alive }) => alive.filter(isAlive));
  }

  async close(): Promise<void> {
    for (const { running } of this.#victims.values()) running?.socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #once(alias: string, random: Random): Promise<void> {
    const victim = this.#victim(alias);
    const torment = random.pick(torments);
    const ms = Math.floor(random.next() ** 2 * 2_500);
    this.#count(torment);
    if (torment === 'kill') this.#signal(victim, 'SIGKILL');
    else if (torment === 'stop') {
      this.#signal(victim, 'SIGSTOP');
      await sleep(ms);
      this.#signal(victim, 'SIGCONT');
    } else {
      victim.running?.socket.write(`${JSON.stringify({ do: torment, ms, bytes: oversizeBytes })}\n`);
      if (torment.startsWith('flood')) await sleep(ms);
    }
  }

  #greet(socket: Socket): void {
    let line = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      line += chunk;
      if (line.endsWith('\n')) this.#admit(socket, JSON.parse(line) as { alias: string; pid: number });
    });
    // A process that is killed resets its sockets.
    socket.on('error', () => socket.destroy());
  }

  #admit(socket: Socket, { alias, pid }: { readonly alias: string; readonly pid: number }): void {
    const victim = this.#victim(alias);
    victim.alive = victim.alive.filter(isAlive);
    for (const other of victim.alive) {
      this.violations.push(`${alias}: process ${pid} was started while ${other} was there`);
    }
    victim.alive.push(pid);
    this.starts += 1;
    const running: Running = { pid, socket };
    victim.running = running;
    victim.isStopped = false;
    socket.once('close', () => {
      if (victim.running === running) victim.running = undefined;
    });
    void this.#begin(running);
  }

  async #begin({ socket }: Running): Promise<void> {
    const mood: Mood = this.#isCalm ? 'well' : this.#random.pick(moods);
    this.#count(`start: ${mood}`);
    if (mood === 'slow') await sleep(this.#random.whole(0, slowStartMsMax));
    socket.write(`${JSON.stringify({ do: 'start', mood })}\n`);
  }

  #signal(victim: Victim, signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    if (signal === 'SIGCONT' && !victim.isStopped) return;
    if (victim.running === undefined || !isAlive(victim.running.pid)) return;
    process.kill(victim.running.pid, signal);
    victim.isStopped = signal === 'SIGSTOP';
  }

  #victim(alias: string): Victim {
    const victim = this.#victims.get(alias);
    if (victim === undefined) throw new Error(`nobody is to torment ${alias}`);
    return victim;
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    throw error;
  }
}
