import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';

const script = fileURLToPath(new URL('ledger-process.mjs', import.meta.url));

/** Another process with a ledger, see `ledger-process.mjs`. */
export class LedgerProcess {
  readonly child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(file: string, options: SpawnOptions = {}) {
    this.child = spawn(process.execPath, [script, file], { stdio: ['pipe', 'pipe', 'inherit'], ...options });
    const { stdout } = this.child;
    if (stdout === null) throw new Error('the output of the process is a pipe');
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]();
    onTestFinished(() => void this.child.kill('SIGKILL'));
  }

  /** The next thing that it says. */
  async says(): Promise<unknown> {
    const { value, done } = await this.#lines.next();
    if (done === true) throw new Error('the process has ended');
    return JSON.parse(value);
  }

  ask(...operation: readonly unknown[]): Promise<unknown> {
    this.child.stdin?.write(`${JSON.stringify(operation)}\n`);
    return this.says();
  }

  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await once(this.child, 'exit');
  }

  /** Sets how large its files may become, as a full disk would; undefined lifts that. */
  limitFiles(bytesMax: number | undefined): void {
    const soft = bytesMax === undefined ? 'unlimited' : String(bytesMax);
    execFileSync('prlimit', ['--pid', String(this.child.pid), `--fsize=${soft}:unlimited`]);
  }
}
