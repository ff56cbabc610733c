import type { Actor } from '../access/actor.ts';
import type { CallStatus, OutcomeCode } from '../core/errors.ts';
import type { JsonObject } from '../core/json.ts';
import type { ToolResult } from '../core/outcome.ts';
import type { Registry } from '../tools/registry.ts';

/** One attempt: what is sent to a server, and the bounds it has to keep. */
export interface ToolCall {
  readonly alias: string;
  /** The server's own name of the tool, byte for byte. */
  readonly tool: string;
  readonly arguments: JsonObject;
  /** From now until the answer, connecting and queueing included. */
  readonly timeoutMs: number;
}

/** What became of one attempt. */
export type Attempt =
  | { readonly kind: 'answered'; readonly result: ToolResult; readonly upstreamMs: number }
  | {
      readonly kind: 'failed';
      readonly code: OutcomeCode;
      readonly message: string;
      /** False only with proof that the server never got the call. */
      readonly sent: boolean;
      /** False where the server's answer proves that the tool did not run (JSON-RPC -32602 and its like). */
      readonly mayHaveExecuted: boolean;
      readonly details?: JsonObject;
      readonly upstreamMs: number;
    };

/** The MCP side. */
export interface Upstream {
  /** Sends one `tools/call` on a live connection, connecting first where needed. @throws never */
  callTool(call: ToolCall): Promise<Attempt>;
  /** Aliases of all configured servers whose name could be served, and whether each has ever listed its tools. */
  hasListed(alias: string): boolean;
  /** Why the server with this alias cannot be called at present, in words for the model. */
  unavailability(alias: string): string;
}

/** What one finished call tells logs and metrics: names, codes and times, never values (AZ-8, SC-14). */
export interface CallFinished {
  readonly requestId: string;
  readonly id: string;
  readonly callId: string;
  readonly name: string;
  readonly alias: string | undefined;
  readonly tool: string | undefined;
  readonly toolClass: 'read' | 'write' | undefined;
  readonly actor: Actor;
  readonly run: string | undefined;
  readonly turn: string | undefined;
  readonly status: CallStatus;
  readonly code: OutcomeCode | undefined;
  /** SHA-256 of the parsed arguments, hex; absent when they could not be parsed. */
  readonly argumentsHash: string | undefined;
  /** How the arguments were mended before the check (`unwrapped`), if they were. */
  readonly mended: string | undefined;
  readonly durationMs: number;
  readonly upstreamMs: number;
}

/** Where facts about calls go. */
export interface CallObserver {
  callFinished(fact: CallFinished): void;
}

/** Monotonic milliseconds (RL-14: wall clock jumps change no deadline). */
export interface Clock {
  readonly monotonicMs: () => number;
}

/** All that the pipeline needs from outside. */
export interface DispatchPorts {
  readonly registry: () => Registry;
  readonly upstream: Upstream;
  readonly observer: CallObserver;
  readonly clock: Clock;
  /** A new UUIDv7. */
  readonly newId: () => string;
  readonly hideForbidden: boolean;
  readonly aliases: readonly string[];
}
