import { type ChildProcess, spawn } from 'node:child_process';
import { fstatSync, mkdirSync, openSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import type { AuditLine, Effect } from './check.ts';

const cli = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const effectServer = fileURLToPath(new URL('effect-server.mjs', import.meta.url));

const issuer = 'https://idp.chaos.test/';
const audience = 'https://callgate.chaos.test';

/** The servers of a chaos run: one program with other settings for each. */
export const aliases = ['pay', 'book', 'mortal', 'slow'] as const;

/** One folder with a configuration, an identity and the log of all effects; processes come and go in it. */
export interface Site {
  readonly folder: string;
  token(subject: string): Promise<string>;
  /** What the servers wrote down since this was asked the last time. */
  takeEffects(): readonly Effect[];
  /** The process ids of all servers that a callgate process has started so far, by alias. */
  serversOf(process: string): readonly { readonly alias: string; readonly pid: number }[];
  /** Ends servers that outlived their callgate. */
  killServersOf(process: string): void;
}

interface SiteOptions {
  readonly folder: string;
  readonly hasMetrics?: boolean;
  /** Settings over the usual ones of a chaos run. */
  readonly changes?: {
    readonly defaults?: Readonly<Record<string, unknown>>;
    readonly servers?: { readonly slow: Readonly<Record<string, unknown>> };
  };
}

/** Makes the folder of a run. */
export async function makeSite({ folder, hasMetrics = false, changes = {} }: SiteOptions): Promise<Site> {
  mkdirSync(folder, { recursive: true });
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const key = { ...(await exportJWK(publicKey)), kid: 'chaos', alg: 'ES256', use: 'sig' };
  writeFileSync(join(folder, 'jwks.json'), JSON.stringify({ keys: [key] }));
  const effectsLog = join(folder, 'effects.jsonl');
  writeFileSync(effectsLog, '');
  const server = (alias: string): object => ({
    command: process.execPath,
    args: [effectServer],
    env: { EFFECTS_LOG: effectsLog, ALIAS: alias, GATE: '$' + '{GATE}' },
  });
  const tools = { upsert: { idempotent: true }, look: { class: 'read' } };
  const configuration = {
    mcpServers: Object.fromEntries(aliases.map((alias) => [alias, server(alias)])),
    callgate: {
      listen: { host: '127.0.0.1', port: 0, metrics: hasMetrics ? '127.0.0.1:0' : false },
      auth: {
        issuers: [
          { issuer, audience, jwksFile: 'jwks.json', algorithms: ['ES256'], grantsMax: ['tools:*:*'] },
        ],
      },
      ledger: { url: '$' + '{LEDGER_URL}' },
      defaults: {
        timeoutMs: 2_000,
        timeoutTotalMs: 4_000,
        backoffMinMs: 20,
        backoffMaxMs: 200,
        stopGraceMs: 200,
        ...changes.defaults,
      },
      servers: {
        pay: { tools },
        book: { tools },
        mortal: { tools },
        slow: {
          timeoutMs: 250,
          timeoutTotalMs: 500,
          concurrencyMax: 3,
          queueMax: 6,
          ...changes.servers?.slow,
          tools,
        },
      },
    },
  };
  writeFileSync(join(folder, 'callgate.json'), JSON.stringify(configuration));
  const log = openSync(effectsLog, 'r');
  const effects: Effect[] = [];
  const servers: { readonly process: string; readonly alias: string; readonly pid: number }[] = [];
  let offset = 0;
  const readOn = (): void => {
    const bytes = Buffer.alloc(fstatSync(log).size - offset);
    const end = bytes.subarray(0, readSync(log, bytes, 0, bytes.length, offset)).lastIndexOf('\n') + 1;
    offset += end;
    for (const line of bytes.toString('utf8', 0, end).split('\n')) {
      if (line === '') continue;
      const entry = JSON.parse(line) as Effect | (typeof servers)[number];
      if ('alias' in entry) servers.push(entry);
      else effects.push(entry);
    }
  };
  return {
    folder,
    token: (subject) =>
      new SignJWT({
        scope: aliases.map((alias) => `tools:${alias}:*`).join(' '),
        client_id: 'chaos',
        jti: crypto.randomUUID(),
      })
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'chaos' })
        .setIssuer(issuer)
        .setAudience(audience)
        .setSubject(subject)
        .setIssuedAt()
        .setExpirationTime('12h')
        .sign(privateKey),
    takeEffects: () => {
      readOn();
      return effects.splice(0);
    },
    serversOf: (name) => {
      readOn();
      return servers.filter(({ process: owner }) => owner === name);
    },
    killServersOf: (name) => {
      readOn();
      for (const { process: owner, pid } of servers) if (owner === name) killServer(pid);
    },
  };
}

/** Ends a server by its number, if that is still a server of ours. */
function killServer(pid: number): void {
  try {
    if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(effectServer)) process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}

interface GateOptions {
  readonly name: string;
  readonly ledgerUrl: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts `callgate serve`. It may be killed from the first moment on. */
export function spawnGate(site: Site, { name, ledgerUrl, env = {} }: GateOptions): Gate {
  const child = spawn(process.execPath, [cli, 'serve', '--config', join(site.folder, 'callgate.json')], {
    cwd: site.folder,
    env: { ...process.env, GATE: name, LEDGER_URL: ledgerUrl, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return new Gate(name, child);
}

/** A callgate process of a site. */
export class Gate {
  /** Its name in effect log and audit; no two processes of a site share one. */
  readonly name: string;
  readonly pid: number;
  /** Resolves when the process has ended and all that it wrote is read. */
  readonly ended: Promise<number | null>;
  /** False when it ended before it listened. */
  readonly listening: Promise<boolean>;
  url = '';
  metricsUrl: string | undefined;
  readonly #child: ChildProcess;
  readonly #audit: AuditLine[] = [];
  readonly #complaints: string[] = [];
  #rest = '';
  #tellListening: (isListening: boolean) => void = () => {};

  constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
    this.pid = child.pid ?? 0;
    this.listening = new Promise((resolve) => {
      this.#tellListening = resolve;
    });
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => this.#read(chunk));
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => this.#complaints.push(chunk.trim()));
    this.ended = new Promise((resolve) => {
      child.once('close', (code) => {
        process.off('exit', killAtExit);
        this.#tellListening(false);
        resolve(code);
      });
    });
    const killAtExit = (): void => void child.kill('SIGKILL');
    process.on('exit', killAtExit);
  }

  /** The lines of the audit trail since this was asked the last time. */
  takeAudit(): readonly AuditLine[] {
    return this.#audit.splice(0);
  }

  /** What is worth a look: lines of level error, and whatever came on standard error. */
  get complaints(): readonly string[] {
    return this.#complaints;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  #read(chunk: string): void {
    const lines = (this.#rest + chunk).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#readLine(line);
  }

  #readLine(line: string): void {
    let entry: Record<string, unknown>;
    try {
      entry = JSON.parse(line) as Record<string, unknown>;
    } catch {
      this.#complaints.push(line);
      return;
    }
    if (entry.event === 'service.listening') {
      this.url = String(entry.url);
      this.metricsUrl = entry.metrics_url as string | undefined;
      this.#tellListening(true);
    }
    if (entry.level === 'error') this.#complaints.push(line);
    if (typeof entry.id !== 'string') return;
    this.#audit.push({
      process: this.name,
      event: String(entry.event),
      id: entry.id,
      attempt: entry.attempt as number | undefined,
      atMs: Date.parse(String(entry.time)),
    });
  }
}
