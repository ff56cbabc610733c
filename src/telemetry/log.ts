import { pino } from 'pino';
import type { EventFields, EventLog } from '../core/events.ts';
import type { Redact } from '../core/redact.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** A log whose lines can be waited for before the process ends. */
export interface FlushableLog extends EventLog {
  flush(): void;
}

/**
 * One JSON line for each event on standard output, or in the file named by `destination`.
 *
 * Every finished line passes the redactor, so no secret of the configuration can reach the sink by any field (MT-14).
 * Lines are written in batches; `flush` writes what is left.
 */
export function createLog(options: {
  level: LogLevel;
  redact: Redact;
  destination?: string | number;
}): FlushableLog {
  const sink = pino.destination({
    dest: options.destination ?? 1,
    sync: false,
    minLength: 4_096,
    periodicFlush: 100,
  });
  const logger = pino(
    {
      level: options.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => void sink.write(options.redact(line)) },
  );
  const write = (level: 'info' | 'warn' | 'error') => (event: string, fields: EventFields) =>
    logger[level]({ event, ...fields });
  return { info: write('info'), warn: write('warn'), error: write('error'), flush: () => sink.flushSync() };
}
