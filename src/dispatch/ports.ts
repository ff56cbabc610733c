import type { Actor } from '../access/actor.ts';
import type { FunctionCall } from '../core/call.ts';
import type { CancelSignal } from '../core/cancellation.ts';
import type { OutcomeCode } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import type { Outcome, ToolResult } from '../core/outcome.ts';
import type { Secret } from '../core/secret.ts';
import type { Format } from '../formats/format.ts';
import type { ToolDefinition, WithheldTool } from '../tools/definition.ts';
import type { Render } from '../tools/policy.ts';
import type { Binding, Registry } from '../tools/registry.ts';
import type { CallsInFlight } from './calls-in-flight.ts';
import type { CallEnd, CallRecord, Claim, RecordedCall, RecordStatus } from './record.ts';

/** Who asks, and in which of their conversations: the same for all calls of one request. */
export interface Caller {
  readonly actor: Actor;
  readonly requestId: string;
  /** The caller's own name of the conversation (`Callgate-Run`). */
  readonly run: string | undefined;
  /** The caller's own name of the model answer (`Callgate-Turn`). */
  readonly turn: string | undefined;
  /** The access token the caller showed; undefined where there is none to show. */
  readonly token: Secret | undefined;
  /** The format that the caller speaks. */
  readonly format: Format;
  /** Whether the caller showed a revision of the declarations that is no longer the current one. */
  readonly declarationsChanged: boolean;
}

/** A call that has come to its end, as one of those who posted it gets to know. */
export interface SettledCall {
  /** callgate's own id of the call (UUIDv7). */
  readonly id: string;
  readonly call: FunctionCall;
  readonly outcome: Outcome;
  /** How the operator wants outputs of this tool written; undefined leaves it to the request and the format. */
  readonly render: Render | undefined;
  /** How often a `tools/call` was handed to a connection for it. */
  readonly attempts: number;
  readonly durationMs: number;
  /** Whether another post of the same call made it run. */
  readonly replayed: boolean;
  /** When the ledger took the outcome, for one that was answered from its record (epoch milliseconds). */
  readonly recordedAtMs: number | undefined;
  /** Whether a repeat will be recognised; false where the ledger could not be written. */
  readonly isRecorded: boolean;
}

/** A call on its way. Everybody who posts it meanwhile has a handle of their own on the same run. */
export interface PendingCall {
  readonly call: FunctionCall;
  /** @throws never, save for a bug */
  readonly settled: Promise<SettledCall>;
  /** What stands in the ledger about the call at present, or will. */
  snapshot(): CallRecord;
  /** False once the ledger has refused to take a call that was to be kept. */
  isRecorded(): boolean;
  /**
   * Where the call stands, once it stands in the ledger; for callers that do not wait for its end. From then on
   * nobody's hanging up ends the call.
   */
  keep(): Promise<CallRecord>;
  /** Tells each progress message from now on; gives back how to stop that. */
  onProgress(listener: (progress: Progress) => void): () => void;
  /** The caller is gone: a call that only reads is cancelled when nobody waits for it any more. */
  leave(): void;
}

/** A progress message of a server (MCP, `notifications/progress`). */
export interface Progress {
  readonly progress: number;
  readonly total?: number;
  readonly message?: string;
}

/** One attempt: what is sent to a server, and the bounds it has to keep. */
export interface ToolCall {
  readonly alias: string;
  /** The server's own name of the tool, byte for byte. */
  readonly tool: string;
  readonly arguments: JsonObject;
  /** The server's own schema of them: some servers want single arguments in headers as well (MCP 2026-07-28). */
  readonly inputSchema: JsonObject;
  /** For whom: servers that keep callers apart have a connection for each (MT-7). */
  readonly caller: Caller;
  /** callgate's id of the call, told to the server as `_meta["callgate/call"]`: the same in every attempt. */
  readonly id: string;
  /** From now until the answer, connecting and queueing included; each progress message begins it anew. */
  readonly timeoutMs: number;
  /** The same, whatever progress is told. */
  readonly timeoutTotalMs: number;
  /** Whether it may be sent once more after an attempt that nobody knows the end of. */
  readonly mayRepeat: boolean;
  /** Cancels the call: out of the queue, or with `notifications/cancelled`. */
  readonly signal: CancelSignal;
  /** Called when a connection has a place for the call, before anything is sent; what it gives back ends the call unsent. */
  readonly beforeSend?: (() => Promise<Refusal | undefined>) | undefined;
  readonly onProgress: (progress: Progress) => void;
  /** Takes an answer that comes after the attempt was given up. */
  readonly onLateAnswer: (attempt: Attempt) => void;
}

/** Why a call must not be sent after all. */
export interface Refusal {
  readonly code: OutcomeCode;
  readonly message: string;
  readonly details?: JsonObject;
}

/** What an attempt took, whatever became of it. */
interface Effort {
  /** How often a `tools/call` was handed to a connection: 0 when it did not come to that, 2 when it was sent again. */
  readonly attempts: number;
  /** From the hand-over to the end, queueing and connecting included. */
  readonly upstreamMs: number;
}

/** What became of one attempt. */
export type Attempt =
  | (Effort & { readonly kind: 'answered'; readonly result: ToolResult })
  | (Effort & {
      readonly kind: 'failed';
      readonly code: OutcomeCode;
      readonly message: string;
      /** False only with proof that the server never got the call. */
      readonly sent: boolean;
      /** False where the server's answer proves that the tool did not run (JSON-RPC -32602 and its like). */
      readonly mayHaveExecuted: boolean;
      readonly details?: JsonObject;
    });

/** The MCP side. */
export interface Upstream {
  /** Sends one `tools/call` on a live connection, connecting first where needed. @throws never */
  callTool(call: ToolCall): Promise<Attempt>;
  /** Whether a call of this caller would be sent at once: there is a connection, and a place on it. */
  canSendNow(alias: string, caller: Caller): boolean;
  /** Whether the server with this alias has given a tool list since the start, or is not asked for one before a call. */
  hasListed(alias: string): boolean;
  /** Why the server with this alias cannot be called at present, in words for the model. */
  unavailability(alias: string): string;
  /** Closes the connections that belong to a run of this actor (`actorText`), with what still runs on them. */
  endRun(actor: string, run: string): Promise<void>;
}

/** What a finished call tells logs and metrics: names, codes and times, never values (AZ-8, SC-14). */
export interface FinishedCall {
  readonly settled: SettledCall;
  readonly caller: Caller;
  readonly binding: Binding | undefined;
  /** SHA-256 of the parsed arguments, or of what was sent where they were not read; hex. */
  readonly argumentsHash: string;
  /** How the arguments were mended before the check, if they were. */
  readonly mended: string | undefined;
  readonly upstreamMs: number;
}

/** A write that is about to be sent. */
export interface AdmittedCall {
  readonly claim: Claim;
  readonly caller: Caller;
  /** SHA-256 of the parsed arguments; hex. */
  readonly argumentsHash: string;
}

/** A repeat that was answered from a record, or by the run of another post. */
export interface ReplayedCall {
  readonly settled: SettledCall;
  readonly caller: Caller;
}

/** What the ledger was asked to do. */
export type LedgerStep = 'find' | 'claim' | 'start' | 'settle' | 'record' | 'cancel';

/** Where facts about calls go. */
export interface CallObserver {
  /** One for each attempt of a write, before it is sent (I8). */
  callAdmitted(fact: AdmittedCall): void;
  /** One for each call that was run or refused. */
  callFinished(fact: FinishedCall): void;
  callReplayed(fact: ReplayedCall): void;
  /** A server answered after its call had been given up, and the record says so now. */
  callSettledLate(fact: { readonly claim: Claim; readonly outcome: Outcome }): void;
  /** The ledger did not take something: a write is refused, a read goes on unrecorded. */
  ledgerFailed(fact: { readonly during: LedgerStep; readonly reason: string }): void;
}

/** Nothing can be read from, or written to, the ledger at present. The message is for operators. */
export class LedgerUnavailable extends Error {}

/** What became of a claim. */
export type ClaimResult =
  | { readonly kind: 'claimed'; readonly claim: Claim }
  /** There is a record that must not be run again, or not by us: it says what to answer. */
  | { readonly kind: 'known'; readonly record: CallRecord }
  /** The actor has filled its part of the ledger. */
  | { readonly kind: 'quota_exceeded'; readonly retryAfterMs: number };

/** Which records of one actor. Newest first. */
export interface RecordQuery {
  readonly actor: string;
  readonly callId?: string | undefined;
  readonly run?: string | undefined;
  readonly turn?: string | undefined;
  readonly status?: RecordStatus | undefined;
  /** Only records older than the one with this id. */
  readonly before?: string | undefined;
  readonly limit: number;
}

/** Records of one actor, newest first. */
export interface RecordList extends ReadonlyArray<CallRecord> {
  /** It became too long or too large: these are fewer than were asked for, and it goes on before this id. */
  readonly resumeBefore?: string | undefined;
}

/**
 * The durable record of calls (design section 7). Whatever writes is durable when its promise resolves; whatever fails
 * rejects with `LedgerUnavailable`, in bounded time.
 */
export interface Ledger {
  /** The record under a key; undefined at once, without a promise, where there is certainly none. */
  find(key: string): CallRecord | undefined | Promise<CallRecord | undefined>;
  /**
   * Takes a call for this process: as a new record, or over one that may be tried anew - rejected; not sent, with the
   * same fingerprint; unknown and repeatable, with the same fingerprint. The id of an older record stays.
   */
  claim(call: RecordedCall, status: 'received' | 'started'): Promise<ClaimResult>;
  /** Received becomes started; false when the attempt is no longer ours. */
  start(claim: Claim): Promise<boolean>;
  /**
   * Writes the end of an attempt; false when the record has gone on without it. An unknown end gives way once to a
   * late answer of the same attempt.
   */
  settle(claim: Claim, end: CallEnd): Promise<boolean>;
  /**
   * Writes a call that needed no claim (a read, a rejected call) with its end: as a new record, over whatever may be
   * tried anew, or over the late claim of the same read. Never over a write that is under way, here or elsewhere.
   */
  record(call: RecordedCall, end: CallEnd): Promise<void>;
  /** A record of this actor by its id. */
  get(actor: string, id: string): Promise<CallRecord | undefined>;
  list(query: RecordQuery): Promise<RecordList>;
  /** Asks whichever process runs the call to cancel it. */
  requestCancel(record: CallRecord): Promise<void>;
  /** Why nothing can be written at present; undefined when it can. */
  fault(): string | undefined;
}

/** The last good tool list of one server. */
export interface StoredToolList {
  readonly alias: string;
  /** Digest of the settings under which the server was reached: another one under the same alias has another list. */
  readonly source: string;
  readonly tools: readonly ToolDefinition[];
  readonly refused: readonly WithheldTool[];
  /** Epoch milliseconds. */
  readonly readAtMs: number;
}

/** A tool list that is not kept, however often it is saved. The message is for operators. */
export class ToolListTooLarge extends Error {
  constructor(alias: string, bytesMax: number) {
    super(
      `the tool list of ${alias} is larger than ${bytesMax} bytes of JSON, which is all that is kept of one`,
    );
  }
}

/** Keeps the last good tool list of each server over a restart. */
export interface ToolListStore {
  /** The lists that are kept; one that cannot be read is left out, and logged. @throws LedgerUnavailable */
  loadToolLists(): Promise<readonly StoredToolList[]>;
  /**
   * Takes the place of the list kept under the same alias, if that is not a newer one of the same source: then it
   * stays. What was kept stays as well where this fails.
   * @throws LedgerUnavailable, ToolListTooLarge
   */
  saveToolList(list: StoredToolList): Promise<void>;
}

/** Monotonic time (RL-14: jumps of the wall clock change no deadline). */
export interface Clock {
  readonly monotonicMs: () => number;
  /** Wall clock, for the times of records only. */
  readonly nowMs: () => number;
}

/** All that the pipeline needs from outside. */
export interface DispatchPorts {
  readonly registry: () => Registry;
  readonly upstream: Upstream;
  readonly ledger: Ledger;
  /** The calls that this process has taken and not yet settled. */
  readonly inFlight: CallsInFlight;
  readonly observer: CallObserver;
  readonly clock: Clock;
  readonly pause: (ms: number) => Promise<void>;
  /** Lets everybody else have the event loop once. */
  readonly nextLoopTurn: () => Promise<void>;
  /** Runs the steps of long work, and lets everybody else have the event loop between them. */
  readonly inSlices: <T>(steps: Generator<void, T>) => Promise<T>;
  /** A new UUIDv7. */
  readonly newId: () => string;
  readonly hideForbidden: boolean;
  /** Every configured alias, whether its server works or not. */
  readonly aliases: readonly string[];
}
