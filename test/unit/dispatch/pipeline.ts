import { createActor } from '../../../src/access/actor.ts';
import type { OutcomeCode } from '../../../src/core/errors.ts';
import { CallsInFlight } from '../../../src/dispatch/calls-in-flight.ts';
import { dispatch } from '../../../src/dispatch/dispatch.ts';
import type {
  Attempt,
  Caller,
  CallObserver,
  DispatchPorts,
  Ledger,
  PendingCall,
  ToolCall,
} from '../../../src/dispatch/ports.ts';
import type { CallRecord } from '../../../src/dispatch/record.ts';
import { nativeFormat } from '../../../src/formats/formats.ts';
import { newUuidV7 } from '../../../src/ids.ts';
import { inSlices } from '../../../src/in-slices.ts';
import type { ToolPolicy } from '../../../src/tools/policy.ts';
import type { Registry } from '../../../src/tools/registry.ts';
import { MemoryLedger } from '../../support/memory-ledger.ts';
import { registryOf, type TestServer, tool } from '../../support/service.ts';

/** One server for each class of tools; each has one tool, `do`. */
export const aliases = { write: 'pay', read: 'look', idempotent: 'put' } as const;
export type Kind = keyof typeof aliases;
export const kinds = Object.keys(aliases) as Kind[];
/** The declared name of the tool of each class. */
export const nameOf = (kind: Kind): string => `${aliases[kind]}__do`;

const policies: Record<Kind, Partial<ToolPolicy>> = {
  write: { class: 'write', render: 'text' },
  read: { class: 'read' },
  idempotent: { class: 'write', idempotent: true },
};

/** The servers as they are at first. */
export const servers: readonly TestServer[] = kinds.map((kind) => ({
  alias: aliases[kind],
  tools: [
    tool('do', { type: 'object', properties: { n: { type: 'integer' } }, additionalProperties: false }),
  ],
  policy: policies[kind],
}));

/** An attempt that a server has got, for the test to end. */
export interface Sent {
  readonly call: ToolCall;
  end(attempt: Attempt): void;
  answer(text: string): void;
  fail(code: OutcomeCode, facts?: { readonly sent?: boolean; readonly mayHaveExecuted?: boolean }): void;
}

export const answer = (text: string): Attempt => ({
  kind: 'answered',
  attempts: 1,
  upstreamMs: 1,
  result: { content: [{ type: 'text', text }], isError: false },
});

export const failure = (
  code: OutcomeCode,
  {
    sent = true,
    mayHaveExecuted = sent,
  }: { readonly sent?: boolean; readonly mayHaveExecuted?: boolean } = {},
): Attempt => ({
  kind: 'failed',
  code,
  message: `it ended with ${code}`,
  attempts: sent ? 1 : 0,
  upstreamMs: 1,
  sent,
  mayHaveExecuted,
});

/** How a post of a test differs from the plain one. */
export interface PostFacts {
  readonly callId?: string;
  readonly input?: unknown;
  readonly run?: string;
  readonly turn?: string;
  readonly subject?: string;
  readonly grants?: readonly string[];
}

export type Fact = {
  [Name in keyof CallObserver]: [Name, Parameters<CallObserver[Name]>[0]];
}[keyof CallObserver];

/** One process: the real pipeline over a ledger that may be shared, and servers whose answers the test gives. */
export class Pipeline {
  readonly ledger: Ledger & { readonly records: Map<string, CallRecord> };
  readonly ports: DispatchPorts;
  /** Attempts that servers have got, in order. */
  readonly sent: Sent[] = [];
  readonly facts: Fact[] = [];
  registry: Registry = registryOf(servers);
  /** Whether a call would be sent at once. */
  canSend = true;
  /** Gives the answer at once, where it gives one. */
  behaviour: (call: ToolCall) => Attempt | undefined = () => undefined;
  /** Comes before a call that had to wait is sent. */
  place: Promise<void> = Promise.resolve();
  #passedMs = 0;

  constructor(
    ledger: Ledger & { readonly records: Map<string, CallRecord> } = new MemoryLedger(),
    { hideForbidden = false } = {},
  ) {
    this.ledger = ledger;
    const fact =
      <Name extends keyof CallObserver>(name: Name) =>
      (value: Parameters<CallObserver[Name]>[0]): void =>
        void this.facts.push([name, value] as unknown as Fact);
    this.ports = {
      registry: () => this.registry,
      upstream: {
        callTool: (call) => this.#callTool(call),
        canSendNow: () => this.canSend,
        hasListed: () => true,
        endRun: () => Promise.resolve(),
        unavailability: () => 'it is not there',
      },
      ledger,
      inFlight: new CallsInFlight(),
      observer: {
        callAdmitted: fact('callAdmitted'),
        callFinished: fact('callFinished'),
        callReplayed: fact('callReplayed'),
        callSettledLate: fact('callSettledLate'),
        ledgerFailed: fact('ledgerFailed'),
      },
      clock: { monotonicMs: () => this.#passedMs, nowMs: () => this.nowMs },
      pause: (ms) => {
        this.#passedMs += ms;
        return loopTurn();
      },
      nextLoopTurn: loopTurn,
      inSlices: (steps) => inSlices(steps),
      newId: () => newUuidV7(this.nowMs),
      hideForbidden,
      aliases: Object.values(aliases),
    };
  }

  get nowMs(): number {
    return Date.UTC(2027, 0, 1) + this.#passedMs;
  }

  post(kind: Kind, facts: PostFacts = {}): PendingCall {
    this.#passedMs += 1;
    const { callId = 'call_0', input = {} } = facts;
    const text = typeof input === 'string' ? input : JSON.stringify(input);
    return dispatch({ callId, name: nameOf(kind), arguments: text }, callerOf(facts), this.ports);
  }

  /** The attempt with this number, when it has come. */
  async nthSent(index: number): Promise<Sent> {
    await soon(() => this.sent.length > index);
    return this.sent[index] as Sent;
  }

  /** What the observer was told, by the name of the fact. */
  told<Name extends keyof CallObserver>(name: Name): Parameters<CallObserver[Name]>[0][] {
    return this.facts.flatMap(([told, value]) =>
      told === name ? [value as Parameters<CallObserver[Name]>[0]] : [],
    );
  }

  async #callTool(call: ToolCall): Promise<Attempt> {
    if (call.beforeSend !== undefined) await this.place;
    if (call.signal.aborted) return failure('cancelled', { sent: false });
    const refusal = await call.beforeSend?.();
    if (refusal !== undefined) {
      return { kind: 'failed', attempts: 0, upstreamMs: 0, sent: false, mayHaveExecuted: false, ...refusal };
    }
    return new Promise((resolve) => {
      call.signal.addEventListener('abort', () => resolve(failure('cancelled')));
      this.sent.push({
        call,
        end: resolve,
        answer: (text) => resolve(answer(text)),
        fail: (code, more) => resolve(failure(code, more)),
      });
      const done = this.behaviour(call);
      if (done !== undefined) resolve(done);
    });
  }
}

/** The caller of a post; without other wishes it may use every tool. */
export function callerOf({
  subject = 'user-1',
  grants = Object.values(aliases),
  run,
  turn,
}: PostFacts): Caller {
  return {
    actor: createActor({
      issuer: 'https://idp.test/',
      kind: 'user',
      subject,
      client: 'backend',
      grants: grants.map((alias) => ({ alias, tool: '*' })),
      adminScopes: new Set(),
    }),
    requestId: 'request-1',
    run,
    turn,
    token: undefined,
    format: nativeFormat,
    declarationsChanged: false,
  };
}

export const loopTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Waits until something becomes true that needs no time but only turns of the event loop. */
export async function soon(isTrue: () => boolean): Promise<void> {
  for (let turn = 0; !isTrue(); turn += 1) {
    if (turn === 10_000) throw new Error('it does not become true');
    await loopTurn();
  }
}

/** Everything that can happen by itself has happened after this. */
export async function settleDown(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await loopTurn();
}
