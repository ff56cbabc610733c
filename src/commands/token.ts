import { resolve } from 'node:path';
import { openDevIssuer } from '../auth/dev-issuer.ts';
import { type CommandOptions, UsageError } from './options.ts';

/** Where the local key pair lies: one for each folder that callgate is tried in. */
export const keyFolder = (): string => resolve('.callgate');

/** What a dev token may do when nobody says otherwise: every tool, and the state of the servers. */
export const devScopes = ['tools:*:*', 'callgate:operate'] as const;

export const devClient = 'callgate-dev';

const unitsS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3_600 };
const ttlMaxS = 86_400;

/** `callgate token`: prints a token of the local key pair, and nothing else. */
export async function token(options: CommandOptions): Promise<number> {
  const ttlS = readTtl(options.ttl ?? '1h');
  const scopes = options.scope?.flatMap((scope) => scope.split(/\s+/).filter(Boolean)) ?? devScopes;
  const issuer = await openDevIssuer({ folder: keyFolder() });
  const minted = await issuer.mint({
    subject: options.sub ?? 'dev',
    client: devClient,
    scopes: [...scopes],
    ttlS,
  });
  process.stdout.write(`${minted}\n`);
  return 0;
}

function readTtl(text: string): number {
  const [, digits, unit] = /^(\d{1,6})([smh]?)$/.exec(text) ?? [];
  const seconds = Number(digits) * (unitsS[unit ?? ''] ?? Number.NaN);
  if (!(seconds >= 1 && seconds <= ttlMaxS))
    throw new UsageError('--ttl takes 1 to 86400 seconds: 900, 30s, 15m, 12h');
  return seconds;
}
