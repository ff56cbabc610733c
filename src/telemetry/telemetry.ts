import type { EventLog } from '../core/events.ts';
import type { Redact } from '../core/redact.ts';
import type { CallObserver } from '../dispatch/ports.ts';
import { createAuditTrail } from './audit.ts';
import { LedgerTrouble } from './ledger-trouble.ts';
import { LineSink } from './line-sink.ts';
import { createLog, type LogLevel } from './log.ts';
import { Metrics } from './metrics.ts';

/** All that the service tells about itself. */
export interface Telemetry {
  readonly log: EventLog;
  readonly metrics: Metrics;
  /** Takes facts about calls and the ledger into the audit trail, the log and the metrics. */
  readonly observer: CallObserver;
  /** Writes the lines that still wait; to be awaited before the process ends. */
  close(): Promise<void>;
  /** The same for a process that has no time left. */
  flushNow(): void;
}

export interface TelemetryOptions {
  readonly level: LogLevel;
  /** Whether each call leaves its line in the audit trail, whatever the level of the log (AZ-8). */
  readonly isAudited: boolean;
  readonly redact: Redact;
  /** The file descriptor that lines go to. */
  readonly descriptor: number;
}

/** Opens log, audit trail and metrics. */
export function openTelemetry({ level, isAudited, redact, descriptor }: TelemetryOptions): Telemetry {
  const sink = new LineSink(redact, descriptor);
  const metrics = new Metrics();
  const audit = isAudited ? createAuditTrail(sink) : undefined;
  const log = createLog(level, sink);
  const trouble = new LedgerTrouble(log);
  return {
    log,
    metrics,
    observer: {
      callAdmitted: (fact) => audit?.admitted(fact),
      callFinished: (fact) => {
        audit?.finished(fact);
        metrics.callFinished(fact);
      },
      callReplayed: (fact) => {
        audit?.replayed(fact);
        metrics.callReplayed(fact);
      },
      callSettledLate: (fact) => audit?.settledLate(fact),
      ledgerFailed: (fact) => {
        trouble.tell(fact);
        metrics.ledgerFailed(fact);
      },
    },
    close: () => {
      trouble.flush();
      return sink.close();
    },
    flushNow: () => {
      trouble.flush();
      sink.flushNow();
    },
  };
}
