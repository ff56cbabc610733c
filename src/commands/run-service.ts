import type { Configuration } from '../config/configuration.ts';
import { createRedactor } from '../core/redact.ts';
import { type RunningService, startService } from '../main.ts';
import { type LogLevel, logLevels } from '../telemetry/log.ts';
import { openTelemetry, type Telemetry } from '../telemetry/telemetry.ts';
import { killAllGroups } from '../upstream/child-process.ts';
import { letYoungGenerationGrow } from '../young-generation.ts';
import { UsageError } from './options.ts';

const standardOutput = 1;

/** Opens the telemetry of a command. @throws UsageError for a level that is not one */
export function openTelemetryFor(
  configuration: Configuration,
  level: string | undefined,
  usual: LogLevel,
  descriptor = standardOutput,
): Telemetry {
  const chosen = logLevels.find((candidate) => candidate === (level ?? usual));
  if (chosen === undefined) throw new UsageError(`--log-level takes one of ${logLevels.join(', ')}`);
  return openTelemetry(chosen, createRedactor(configuration.secrets), descriptor);
}

/** Runs the service until a signal ends it; the number is the exit code. */
export async function runService(
  configuration: Configuration,
  telemetry: Telemetry,
  onStarted: (running: RunningService) => Promise<void> = async () => {},
): Promise<number> {
  guardProcess(telemetry);
  const running = await startService(configuration, telemetry).catch((error: unknown) => {
    telemetry.flush();
    throw explainListenFault(error);
  });
  void running.firstListings.then(letYoungGenerationGrow);
  const stopped = untilStopped(running, telemetry);
  await onStarted(running);
  return stopped;
}

function untilStopped(running: RunningService, { log, flush }: Telemetry): Promise<number> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (): void => {
      if (isStopping) {
        // A second signal does not wait for anything, and still leaves no child behind.
        killAllGroups();
        flush();
        process.exit(1);
      }
      isStopping = true;
      running.stop().then(
        () => resolve(0),
        (error: unknown) => {
          log.error('service.stop_failed', { error: String(error) });
          flush();
          resolve(1);
        },
      );
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}

// A fault that nobody caught is a bug; what it must not do is leave processes behind, or end without a word.
function guardProcess({ log, flush }: Telemetry): void {
  process.on('exit', killAllGroups);
  process.on('unhandledRejection', (reason) => {
    log.error('process.unhandled_rejection', {
      error: reason instanceof Error ? (reason.stack ?? '') : String(reason),
    });
  });
  process.on('uncaughtException', (error) => {
    log.error('process.uncaught_exception', { error: error.stack ?? error.message });
    flush();
    process.exit(1);
  });
}

function explainListenFault(error: unknown): unknown {
  const fault = error as { code?: string; address?: string; port?: number };
  const place = `${fault.address ?? ''}:${fault.port ?? ''}`;
  switch (fault.code) {
    case 'EADDRINUSE':
      return new Error(
        `${place} is in use; stop what listens there, or choose another port (--port, callgate.listen)`,
      );
    case 'EACCES':
      return new Error(`this user may not listen on ${place}; choose a port from 1024 up`);
    case 'EADDRNOTAVAIL':
      return new Error(`this machine has no address ${place}; change callgate.listen`);
    default:
      return error;
  }
}
