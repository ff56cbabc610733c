/** sysexits.h EX_CONFIG */
export const exitConfiguration = 78;

/** The options that any command may take, as `parseArgs` of Node reads them. */
export const options = {
  config: { type: 'string', short: 'c' },
  port: { type: 'string', short: 'p' },
  'log-level': { type: 'string' },
  sub: { type: 'string' },
  scope: { type: 'string', multiple: true },
  ttl: { type: 'string' },
  state: { type: 'string' },
  limit: { type: 'string' },
  json: { type: 'boolean' },
  as: { type: 'string' },
  note: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean', short: 'v' },
} as const;

/** The options of a command line, as they were given. */
export interface CommandOptions {
  readonly config?: string;
  readonly port?: string;
  readonly 'log-level'?: string;
  readonly sub?: string;
  readonly scope?: readonly string[];
  readonly ttl?: string;
  readonly state?: string;
  readonly limit?: string;
  readonly json?: boolean;
  readonly as?: string;
  readonly note?: string;
}

/** A command line that cannot be followed; the message says what is wrong with it. */
export class UsageError extends Error {}

/** @throws UsageError for an option that a command does not take */
export function refuseOthers(command: string, given: CommandOptions, taken: readonly string[]): void {
  const foreign = Object.keys(given).find((option) => !taken.includes(option));
  if (foreign !== undefined) throw new UsageError(`${command} does not take --${foreign}`);
}
