import { exitConfiguration, loadForCommand, readPort } from './configuration.ts';
import { type CommandOptions, UsageError } from './options.ts';
import { openTelemetryFor, runService } from './run-service.ts';

/** `callgate serve`: runs the service with the issuers of the configuration. */
export async function serve(options: CommandOptions): Promise<number> {
  if (options.config === undefined) throw new UsageError('serve needs --config FILE');
  const port = readPort(options.port);
  const configuration = await loadForCommand(options.config);
  if (configuration === undefined) return exitConfiguration;
  const listen = { ...configuration.listen, port: port ?? configuration.listen.port };
  return runService(
    { ...configuration, listen },
    openTelemetryFor(configuration, options['log-level'], 'info'),
  );
}
