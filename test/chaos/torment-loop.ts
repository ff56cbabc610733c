import { setTimeout as sleep } from 'node:timers/promises';
import { type Callgate, startCallgate } from '../support/callgate.ts';
import { FaultHttpServer } from '../support/fault-http-server.ts';
import { type Random, randomFrom } from './random.ts';
import { oversizeBytes, Tormentor } from './tormentor.ts';

export interface TormentOptions {
  readonly folder: string;
  readonly seed: number;
  readonly durationMs: number;
  readonly onBeat?: (report: { readonly beats: number; readonly torments: number }) => void;
}

/** What a run of torments came to. */
export interface TormentReport {
  /** Calls to healthy servers, all of which have to succeed. */
  readonly beats: number;
  readonly beatMs: { readonly p50: number; readonly p99: number; readonly max: number };
  /** What became of the calls to tormented servers. */
  readonly answers: Readonly<Record<string, number>>;
  readonly torments: Readonly<Record<string, number>>;
  /** Processes of tormented servers. */
  readonly starts: number;
  /** From the end of the torment until the last of its servers answered again. */
  readonly returnedMs: number;
  readonly violations: readonly string[];
  readonly durationMs: number;
}

const healthy = ['calm1', 'calm2', 'calm3', 'calm4'] as const;
const healthyHttp = 'web_calm';
const tormented = ['poor1', 'poor2', 'poor3', 'poor4'] as const;
const tormentedHttp = 'web_poor';

/** Generous: the machine may be busy, the servers are not. */
const beatMsMax = 5_000;
const beatGapMs = 20;
/** The longest gap between two tries of a connection, then the longest rest of a breaker, and some time to start. */
const returnMsMax = 45_000;
const listMsMax = 10_000;
/** Half of what a token lasts. */
const tokenMs = 300_000;

/** How a call to a tormented server may end, beside the right answer. */
const allowed = new Set([
  'connection_lost',
  'timeout',
  'server_unavailable',
  'server_busy',
  'protocol_error',
  'output_too_large',
]);

/**
 * Runs the whole service with servers that are well and servers that are tormented at random, all of them called all the
 * time. The well ones must not notice; the others must come back by themselves.
 */
export async function runTorment({
  folder,
  seed,
  durationMs,
  onBeat,
}: TormentOptions): Promise<TormentReport> {
  const startedMs = performance.now();
  const random = randomFrom(seed);
  const tormentor = await Tormentor.start(folder, random.fork());
  const peer = await FaultHttpServer.start({ hasSessions: true });
  const fickle = await FicklePeer.start(random.fork());
  const entries = [...healthy, ...tormented].map((alias) => [alias, tormentor.entry(alias)] as const);
  const mcpServers = {
    ...Object.fromEntries(entries),
    [healthyHttp]: { url: peer.url },
    [tormentedHttp]: { url: fickle.url },
  };
  const callgate = await startCallgate({
    mcpServers,
    callgate: {
      defaults: {
        timeoutMs: beatMsMax,
        connectTimeoutMs: beatMsMax,
        backoffMinMs: 50,
        backoffMaxMs: 400,
        stopGraceMs: 500,
        resultBytesMax: oversizeBytes / 2,
      },
      servers: Object.fromEntries(
        [...tormented, tormentedHttp].map((alias, index) => [
          alias,
          // Half of them are asked again where that does no harm.
          {
            timeoutMs: 400,
            connectTimeoutMs: 1_000,
            tools: { echo: { class: index % 2 ? 'read' : 'write' } },
          },
        ]),
      ),
    },
  });
  const scopes = [...Object.keys(mcpServers).map((alias) => `tools:${alias}:*`), 'callgate:operate'];
  const caller = new Caller(callgate, () => callgate.token(scopes));
  const watch = setInterval(
    () => onBeat?.({ beats: caller.beatsMs.length, torments: total(tormentor) }),
    10_000,
  );

  let isOver = false;
  const hasEnded = (): boolean => isOver;
  const beats = [...healthy, healthyHttp].map((alias) => caller.beat(alias, hasEnded));
  const pleas = [...tormented, tormentedHttp].flatMap((alias) => [
    caller.plead(alias, hasEnded),
    caller.plead(alias, hasEnded),
  ]);
  const torments = [...tormented.map((alias) => tormentor.torment(alias)), fickle.torment()];
  await sleep(durationMs);
  tormentor.calm();
  fickle.calm();
  const calmSinceMs = performance.now();
  await Promise.all(
    [...tormented, tormentedHttp].map((alias) => caller.returns(alias, calmSinceMs + returnMsMax)),
  );
  const returnedMs = performance.now() - calmSinceMs;
  isOver = true;
  await Promise.all([...beats, ...pleas, ...torments]);
  clearInterval(watch);

  const violations = [...caller.violations, ...(await lookBack(callgate, await callgate.token(scopes)))];
  // One that cannot even be told to leave.
  tormentor.freeze(tormented[0]);
  const code = await callgate.stop();
  if (code !== 0) violations.push(`callgate ended with ${code}`);
  for (const pid of tormentor.left()) violations.push(`process ${pid} is left`);
  violations.push(...tormentor.violations);
  await Promise.all([tormentor.close(), peer.stop(), fickle.stop()]);

  const sorted = caller.beatsMs.toSorted((one, other) => one - other);
  const at = (share: number): number => Math.round(sorted[Math.floor(sorted.length * share)] ?? 0);
  return {
    beats: sorted.length,
    beatMs: { p50: at(0.5), p99: at(0.99), max: Math.round(sorted.at(-1) ?? 0) },
    answers: caller.answers,
    torments: { ...tormentor.counts, ...fickle.counts },
    starts: tormentor.starts,
    returnedMs: Math.round(returnedMs),
    violations,
    durationMs: performance.now() - startedMs,
  };
}

const total = ({ counts }: Tormentor): number => Object.values(counts).reduce((sum, count) => sum + count, 0);

/** What statuses and log say about the servers once all is over. */
async function lookBack(callgate: Callgate, token: string): Promise<readonly string[]> {
  interface Shown {
    readonly alias: string;
    readonly state: string;
  }
  let states: readonly Shown[] = [];
  // A server that answers calls again may still have to list its tools.
  for (const byMs = performance.now() + listMsMax; ; await sleep(beatGapMs)) {
    const { body } = await callgate.get<{ servers: readonly Shown[] }>('/v1/servers', { token });
    states = body.servers.filter(({ state }) => state !== 'ready');
    if (states.length === 0 || performance.now() > byMs) break;
  }
  const well = new Set<unknown>([...healthy, healthyHttp]);
  const troubles = callgate
    .logs()
    .filter(({ event, server }) => well.has(server) && String(event).startsWith('server.'))
    .filter(({ event }) => event !== 'server.connected');
  const connected = callgate
    .logs()
    .filter(({ event, server }) => well.has(server) && event === 'server.connected');
  return [
    ...states.map(({ alias, state }) => `${alias} is ${state} after the torment`),
    ...troubles.map((line) => `a healthy server had trouble: ${JSON.stringify(line)}`),
    ...(connected.length === well.size ? [] : [`healthy servers were connected ${connected.length} times`]),
  ];
}

/** Calls servers, and checks every answer. */
class Caller {
  readonly #callgate: Callgate;
  readonly #newToken: () => Promise<string>;
  #token: Promise<string>;
  #tokenSinceMs = performance.now();
  #calls = 0;
  readonly beatsMs: number[] = [];
  readonly answers: Record<string, number> = {};
  readonly violations: string[] = [];

  constructor(callgate: Callgate, newToken: () => Promise<string>) {
    this.#callgate = callgate;
    this.#newToken = newToken;
    this.#token = newToken();
  }

  /** Calls a healthy server at a steady pace: each answer must be the right one, in time. */
  async beat(alias: string, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const sentMs = performance.now();
      const end = await this.#call(alias);
      const tookMs = performance.now() - sentMs;
      this.beatsMs.push(tookMs);
      if (end !== 'answered') this.violations.push(`a call to ${alias} ended as ${end}`);
      else if (tookMs > beatMsMax) this.violations.push(`a call to ${alias} took ${Math.round(tookMs)} ms`);
      await sleep(beatGapMs);
    }
  }

  /** Calls a tormented server: each answer must be the right one or an error that makes sense. */
  async plead(alias: string, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const end = await this.#call(alias);
      this.answers[end] = (this.answers[end] ?? 0) + 1;
      if (end !== 'answered' && !allowed.has(end)) this.violations.push(`a call to ${alias} ended as ${end}`);
      await sleep(beatGapMs);
    }
  }

  /** Calls a server until it answers. */
  async returns(alias: string, byMs: number): Promise<void> {
    while ((await this.#call(alias)) !== 'answered') {
      if (performance.now() > byMs) {
        this.violations.push(`${alias} did not come back`);
        return;
      }
      await sleep(beatGapMs);
    }
  }

  /** How a call ended: `answered` with its own text, or the code of its error. */
  async #call(alias: string): Promise<string> {
    this.#calls += 1;
    const callId = `call_${this.#calls}`;
    const text = `${alias} ${this.#calls}`;
    if (performance.now() - this.#tokenSinceMs > tokenMs) {
      this.#tokenSinceMs = performance.now();
      this.#token = this.#newToken();
    }
    const { envelope } = await this.#callgate.call(await this.#token, callId, `${alias}__echo`, { text });
    if (!envelope.ok) return envelope.error?.code ?? 'an error without a code';
    return envelope.content[0]?.text === text ? 'answered' : `a foreign answer: ${JSON.stringify(envelope)}`;
  }
}

/** A server over HTTP that forgets its sessions, and is gone for a while now and then. */
class FicklePeer {
  readonly #random: Random;
  readonly url: string;
  #server: FaultHttpServer;
  #isCalm = false;
  readonly counts: Record<string, number> = { 'http: forgets': 0, 'http: is gone': 0 };

  private constructor(server: FaultHttpServer, random: Random) {
    this.#server = server;
    this.#random = random;
    this.url = server.url;
  }

  static async start(random: Random): Promise<FicklePeer> {
    return new FicklePeer(await FaultHttpServer.start({ hasSessions: true }), random);
  }

  async torment(): Promise<void> {
    while (!this.#isCalm) {
      await sleep(this.#random.whole(50, 800));
      if (this.#isCalm) return;
      if (this.#random.chance(0.5)) {
        this.#count('http: forgets');
        this.#server.forgetSessions();
        continue;
      }
      this.#count('http: is gone');
      await this.#server.stop();
      await sleep(this.#random.whole(0, 600));
      this.#server = await FaultHttpServer.start({ hasSessions: true, port: Number(new URL(this.url).port) });
    }
  }

  calm(): void {
    this.#isCalm = true;
  }

  stop(): Promise<void> {
    return this.#server.stop();
  }

  #count(what: string): void {
    this.counts[what] = (this.counts[what] ?? 0) + 1;
  }
}
