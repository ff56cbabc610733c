import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import {
  type CommandOptions,
  exitConfiguration,
  options,
  refuseOthers,
  UsageError,
} from './commands/options.ts';
import { LedgerRefused } from './ledger/settings.ts';

/** sysexits: a fault in how the command was called, and one in the configuration. */
const exitUsage = 2;
const exitFailure = 1;

interface Command {
  /** Each command has its code loaded alone: what the service needs, the others would wait for. */
  readonly load: () => Promise<(options: CommandOptions, words: readonly string[]) => Promise<number>>;
  readonly takes: readonly string[];
  /** How many words may follow the name of the command. */
  readonly wordsMax: number;
}

const commands: Readonly<Record<string, Command>> = {
  serve: {
    load: async () => (await import('./commands/serve.ts')).serve,
    takes: ['config', 'port', 'log-level'],
    wordsMax: 0,
  },
  dev: {
    load: async () => (await import('./commands/dev.ts')).dev,
    takes: ['config', 'port', 'log-level'],
    wordsMax: 0,
  },
  check: { load: async () => (await import('./commands/check.ts')).check, takes: ['config'], wordsMax: 0 },
  token: {
    load: async () => (await import('./commands/token.ts')).token,
    takes: ['sub', 'scope', 'ttl'],
    wordsMax: 0,
  },
  ledger: {
    load: async () => (await import('./commands/ledger.ts')).ledger,
    takes: ['config', 'state', 'limit', 'json', 'as', 'note'],
    wordsMax: 2,
  },
};

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
  ledger  look into the record of calls, also beside a running service
    list            the newest calls [--config FILE] [--state STATE] [--limit N] [--json]
    show ID         all of one call  [--config FILE]
    settle ID       say how a call ended whose end is unknown
                                     [--config FILE] --as succeeded|failed --note TEXT
    export          all calls, as lines of JSON
                                     [--config FILE]

Options:
  -c, --config FILE      configuration in JSON, JSONC or YAML; without it, dev and ledger take callgate.json
                         (.jsonc, .yaml, .yml) of this folder, or the example that comes with callgate
  -p, --port N           listen on this port instead of the configured one; 0 takes a free one
      --log-level LEVEL  debug, info, warn, error or silent (serve: info, dev: warn)
      --sub NAME         subject of the token (dev)
      --scope SCOPE      a scope of the token, repeatable; several may stand in one, with blanks between
      --ttl TIME         life of the token: seconds, or 30s, 15m, 12h (1h)
      --state STATE      received, started, succeeded, failed, rejected, not_sent or unknown (all)
      --limit N          calls to list, 1 to 10000 (50)
      --json             print lines of JSON instead of a table
      --as STATE         succeeded or failed
      --note TEXT        how you know; it stands in the audit line
  -h, --help             print this text
  -v, --version          print the version

Exit codes: 0 done, 1 a check found something, or it failed, 2 usage, 78 configuration, or a ledger that is held.
`;

const parse = (args: readonly string[]) =>
  parseArgs({ args: [...args], options, allowPositionals: true, strict: true });

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOrExplain(args);
  if (values.help === true) return print(help);
  if (values.version === true) return print(`${version()}\n`);
  const [name, ...words] = positionals;
  if (name === undefined) throw new UsageError('name a command');
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) throw new UsageError(`there is no command ${JSON.stringify(name)}`);
  const tooMuch = words[command.wordsMax];
  if (tooMuch !== undefined) throw new UsageError(`${name} takes no argument ${JSON.stringify(tooMuch)}`);
  refuseOthers(name, values, command.takes);
  return (await command.load())(values, words);
}

function parseOrExplain(args: readonly string[]): ReturnType<typeof parse> {
  try {
    return parse(args);
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

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
    if (isUsage) return exitUsage;
    return error instanceof LedgerRefused ? exitConfiguration : exitFailure;
  }
}
