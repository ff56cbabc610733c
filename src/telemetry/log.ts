import { pino } from 'pino';
import type { EventLog } from '../core/events.ts';
import type { LineSink } from './line-sink.ts';

export const logLevels = ['debug', 'info', 'warn', 'error', 'silent'] as const;

export type LogLevel = (typeof logLevels)[number];

/** The events of the service, as one JSON line each. */
export function createLog(level: LogLevel, sink: LineSink): EventLog {
  const logger = pino(
    {
      level,
      base: null,
      // The event takes the place of pino's message.
      messageKey: 'event',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    sink,
  );
  const write = (at: 'info' | 'warn' | 'error') => (event: string, fields: object) =>
    logger[at](fields, event);
  return { info: write('info'), warn: write('warn'), error: write('error') };
}
