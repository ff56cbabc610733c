import { pino } from 'pino';
import type { EventFields, EventLog } from '../core/events.ts';
import type { Redact } from '../core/redact.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent';

/** Lines are written together: a system call for each would cost a call more than its checks do. */
const batchCharsMin = 16_000;
const batchMsMax = 100;

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
    minLength: batchCharsMin,
    periodicFlush: batchMsMax,
  });
  const logger = pino(
    {
      level: options.level,
      base: null,
      // The event takes the place of pino's message.
      messageKey: 'event',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => void sink.write(options.redact(line)) },
  );
  const write = (level: 'info' | 'warn' | 'error') => (event: string, fields: EventFields) =>
    logger[level](fields, event);
  return { info: write('info'), warn: write('warn'), error: write('error'), flush: () => sink.flushSync() };
}
