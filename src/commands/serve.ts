import { loadForCommand, readPort } from './configuration.ts';
import { type CommandOptions, exitConfiguration, UsageError } from './options.ts';
import { readLevel, runService } from './run-service.ts';

const standardOutput = 1;

/** `callgate serve`: runs the service with the issuers of the configuration. */
export async function serve(options: CommandOptions): Promise<number> {
  if (options.config === undefined) throw new UsageError('serve needs --config FILE');
  const port = readPort(options.port);
  const configuration = await loadForCommand(options.config);
  if (configuration === undefined) return exitConfiguration;
  const listen = { ...configuration.listen, port: port ?? configuration.listen.port };
  const level = readLevel(options['log-level'], 'info');
  return runService({ ...configuration, listen }, { level, isAudited: true, descriptor: standardOutput });
}
