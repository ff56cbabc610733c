import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { check } from './commands/check.ts';
import { dev } from './commands/dev.ts';
import { options, UsageError } from './commands/options.ts';
import { serve } from './commands/serve.ts';
import { token } from './commands/token.ts';

/** sysexits: a fault in how the command was called, and one in the configuration. */
const exitUsage = 2;
const exitFailure = 1;

const commands = {
  serve: { run: serve, takes: ['config', 'port', 'log-level'] },
  dev: { run: dev, takes: ['config', 'port', 'log-level'] },
  check: { run: check, takes: ['config'] },
  token: { run: token, takes: ['sub', 'scope', 'ttl'] },
} as const;

const help = `callgate takes the function calls a model asks for and runs them on MCP servers.

Usage: callgate <command> [options]

Commands:
  serve   run the service            --config FILE  [--port N] [--log-level LEVEL]
  dev     run it on loopback with a local key pair, and print a token and a first call
                                     [--config FILE] [--port N] [--log-level LEVEL]
  check   validate the configuration, connect to every server, and list what is declared and what is not
                                     --config FILE
  token   print a token of the local key pair
                                     [--sub NAME] [--scope SCOPE ...] [--ttl 1h]

Options:
  -c, --config FILE      configuration in JSON, JSONC or YAML
  -p, --port N           listen on this port instead of the configured one; 0 takes a free one
      --log-level LEVEL  debug, info, warn, error or silent (serve: info, dev: warn)
      --sub NAME         subject of the token (dev)
      --scope SCOPE      a scope of the token, repeatable; several may stand in one, with blanks between
      --ttl TIME         life of the token: seconds, or 30s, 15m, 12h (1h)
  -h, --help             print this text
  -v, --version          print the version

Exit codes: 0 done, 1 a check found something or the service failed, 2 usage, 78 configuration.
`;

const parse = (args: readonly string[]) =>
  parseArgs({ args: [...args], options, allowPositionals: true, strict: true });

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOrExplain(args);
  if (values.help === true) return print(help);
  if (values.version === true) return print(`${version()}\n`);
  const [name, ...rest] = positionals;
  if (name === undefined) throw new UsageError('name a command');
  if (!isCommand(name)) throw new UsageError(`there is no command ${JSON.stringify(name)}`);
  if (rest.length > 0) throw new UsageError(`${name} takes no argument ${JSON.stringify(rest[0])}`);
  const command = commands[name];
  const foreign = Object.keys(values).find(
    (option) => !(command.takes as readonly string[]).includes(option),
  );
  if (foreign !== undefined) throw new UsageError(`${name} does not take --${foreign}`);
  return command.run(values);
}

function parseOrExplain(args: readonly string[]): ReturnType<typeof parse> {
  try {
    return parse(args);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

const isCommand = (name: string): name is keyof typeof commands => Object.hasOwn(commands, name);

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

const version = (): string =>
  (JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string })
    .version;

/** Runs a command line; the number is the exit code. */
export async function runCommandLine(args: readonly string[]): Promise<number> {
  try {
    return await run(args);
  } catch (error) {
    const isUsage = error instanceof UsageError;
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`callgate: ${message}\n${isUsage ? 'Try: callgate --help\n' : ''}`);
    return isUsage ? exitUsage : exitFailure;
  }
}
