import type { Configuration } from '../config/configuration.ts';
import { createRedactor } from '../core/redact.ts';
import { type RunningService, startService } from '../main.ts';
import { type LogLevel, logLevels } from '../telemetry/log.ts';
import { openTelemetry, type Telemetry } from '../telemetry/telemetry.ts';
import { killAllGroups } from '../upstream/stdio/child-process.ts';
import { letYoungGenerationGrow } from '../young-generation.ts';
import { UsageError } from './options.ts';

/** The level named on the command line. @throws UsageError for one that is not a level */
export function readLevel(text: string | undefined, usual: LogLevel): LogLevel {
  const level = logLevels.find((candidate) => candidate === (text ?? usual));
  if (level === undefined) throw new UsageError(`--log-level takes one of ${logLevels.join(', ')}`);
  return level;
}

/** Servers list, tools are bound, first calls compile their schemas: after that, garbage comes from work. */
const startUpMs = 2_000;

/** Where and how a command that runs the service tells about it. */
export interface RunOptions {
  readonly level: LogLevel;
  readonly isAudited: boolean;
  readonly descriptor: number;
  readonly onStarted?: (running: RunningService) => Promise<void>;
}

/** Runs the service until a signal ends it; the number is the exit code. */
export async function runService(configuration: Configuration, options: RunOptions): Promise<number> {
  const redact = createRedactor(configuration.secrets);
  const telemetry = openTelemetry({ ...options, redact });
  guardProcess(telemetry);
  const stop = new Promise<void>((resolve) => onStopSignal(resolve));
  const starting = startService(configuration, telemetry);
  const running = await starting.catch(async (error: unknown) => {
    await telemetry.close();
    throw explainListenFault(error);
  });
  setTimeout(letYoungGenerationGrow, startUpMs).unref();
  await Promise.race([stop, options.onStarted?.(running)]);
  await stop;
  await running.stop();
  await telemetry.close();
  return 0;
}

/** Calls back at the first signal to stop. A second one ends the process at once, and still leaves no child behind. */
function onStopSignal(onFirst: () => void): void {
  let isStopping = false;
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) {
    process.on(signal, () => {
      if (isStopping) process.exit(1);
      isStopping = true;
      onFirst();
    });
  }
}

// A fault that nobody caught is a bug; what it must not do is leave processes behind, or end without a word.
function guardProcess({ log, flushNow }: Telemetry): void {
  process.on('exit', () => {
    killAllGroups();
    flushNow();
  });
  process.on('unhandledRejection', (reason) => {
    const error = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
    log.error('process.unhandled_rejection', { error });
  });
  process.on('uncaughtException', (error) => {
    log.error('process.uncaught_exception', { error: error.stack ?? error.message });
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
