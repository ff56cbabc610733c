import type { Actor } from '../access/actor.ts';
import type { FunctionCall } from '../core/call.ts';
import type { OutcomeCode } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import type { Outcome, ToolResult } from '../core/outcome.ts';
import type { Render } from '../tools/policy.ts';
import type { Binding, Registry } from '../tools/registry.ts';

/** Who asks, and in which of their conversations: the same for all calls of one request. */
export interface Caller {
  readonly actor: Actor;
  readonly requestId: string;
  /** The caller's own name of the conversation (`Callgate-Run`). */
  readonly run: string | undefined;
  /** The caller's own name of the model answer (`Callgate-Turn`). */
  readonly turn: string | undefined;
  /** Whether the caller showed a revision of the declarations that is no longer the current one. */
  readonly declarationsChanged: boolean;
}

/** A call that has come to its end. */
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
}

/** One attempt: what is sent to a server, and the bounds it has to keep. */
export interface ToolCall {
  readonly alias: string;
  /** The server's own name of the tool, byte for byte. */
  readonly tool: string;
  readonly arguments: JsonObject;
  /** From now until the answer, connecting and queueing included. */
  readonly timeoutMs: number;
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
  /** Whether the server with this alias has given a tool list since the start. */
  hasListed(alias: string): boolean;
  /** Why the server with this alias cannot be called at present, in words for the model. */
  unavailability(alias: string): string;
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

/** Where facts about calls go. */
export interface CallObserver {
  callFinished(fact: FinishedCall): void;
}

/** Monotonic time (RL-14: jumps of the wall clock change no deadline). */
export interface Clock {
  readonly monotonicMs: () => number;
}

/** All that the pipeline needs from outside. */
export interface DispatchPorts {
  readonly registry: () => Registry;
  readonly upstream: Upstream;
  readonly observer: CallObserver;
  readonly clock: Clock;
  /** Lets everybody else have the event loop once. */
  readonly nextLoopTurn: () => Promise<void>;
  /** A new UUIDv7. */
  readonly newId: () => string;
  readonly hideForbidden: boolean;
  /** Every configured alias, whether its server works or not. */
  readonly aliases: readonly string[];
}
