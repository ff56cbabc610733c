import type { EventFields, EventLog } from '../core/events.ts';

const linesPerSecondMax = 10;

interface Window {
  startedMs: number;
  lines: number;
  suppressed: number;
}

/**
 * Logs what a server makes us log, at most ten lines a second of each event (MT-9); the rest is counted, and the
 * count stands in the next line as `suppressed`.
 */
export class LimitedLog {
  readonly #log: EventLog;
  readonly #nowMs: () => number;
  readonly #windows = new Map<string, Window>();

  constructor(log: EventLog, nowMs: () => number = () => performance.now()) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** @param fields made only for a line that is written */
  write(level: 'info' | 'warn', event: string, fields: () => EventFields): void {
    const now = this.#nowMs();
    let window = this.#windows.get(event);
    if (window === undefined || now - window.startedMs >= 1000) {
      const suppressed = window?.suppressed ?? 0;
      window = { startedMs: now, lines: 0, suppressed };
      this.#windows.set(event, window);
    }
    if (window.lines >= linesPerSecondMax) {
      window.suppressed += 1;
      return;
    }
    window.lines += 1;
    const { suppressed } = window;
    window.suppressed = 0;
    this.#log[level](event, suppressed === 0 ? fields() : { ...fields(), suppressed });
  }

  /** Tells the counts that no further line has told. */
  flush(fields: EventFields): void {
    for (const [event, { suppressed }] of this.#windows) {
      if (suppressed > 0) this.#log.info(event, { ...fields, suppressed });
    }
    this.#windows.clear();
  }
}
