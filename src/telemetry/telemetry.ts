import type { EventLog } from '../core/events.ts';
import type { Redact } from '../core/redact.ts';
import type { CallObserver } from '../dispatch/ports.ts';
import { createAuditTrail } from './audit.ts';
import { LineSink } from './line-sink.ts';
import { createLog, type LogLevel, logLevels } from './log.ts';
import { Metrics } from './metrics.ts';

/** All that the service tells about itself. */
export interface Telemetry {
  readonly log: EventLog;
  readonly metrics: Metrics;
  /** Takes each finished call into the audit trail and the metrics. */
  readonly observer: CallObserver;
  /** Writes the lines that still wait; to be called before the process ends. */
  flush(): void;
}

/** Opens log, audit trail and metrics; lines go to this file descriptor. The audit trail has the level `info`. */
export function openTelemetry(level: LogLevel, redact: Redact, descriptor: number): Telemetry {
  const sink = new LineSink(redact, descriptor);
  const metrics = new Metrics();
  const isAudited = logLevels.indexOf(level) <= logLevels.indexOf('info');
  const audit = isAudited ? createAuditTrail(sink) : undefined;
  return {
    log: createLog(level, sink),
    metrics,
    observer: {
      callFinished(call) {
        audit?.(call);
        metrics.callFinished(call);
      },
    },
    flush: () => sink.flush(),
  };
}
