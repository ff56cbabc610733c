import type { FunctionCall } from '../core/call.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { Outcome } from '../core/outcome.ts';
import type { Result } from '../core/result.ts';
import type { Render } from '../tools/policy.ts';
import type { Binding, ToolMember } from '../tools/registry.ts';

/** A fault in the body of a request, with the place it is at (JSON Pointer, RFC 6901). */
export interface BodyFault {
  readonly pointer: string;
  readonly detail: string;
}

/** Where an intent stood in the model's answer, and what it asks for. */
export interface Intent {
  readonly index: number;
  /** The same place as a JSON Pointer into the body. */
  readonly pointer: string;
  readonly call: FunctionCall;
}

/** One provider's wire shape: how its intents are read, and how declarations and outputs are written. Pure. */
export interface Format {
  readonly name: string;
  /** Used where neither the request nor the operator says how to render. */
  readonly defaultRender: Render;
  /** The most tools the provider takes in one request, where it is known. */
  readonly toolsMax?: number;
  /** What of a tool its declarations carry. */
  readonly members: ReadonlySet<ToolMember>;
  /** The intents of a whole model answer, of a list of intents, or of one intent; others are left alone. */
  readTurn(body: JsonValue): Result<readonly Intent[], readonly BodyFault[]>;
  /** A tool as the model is told about it; the error is the reason why this format cannot carry it. */
  declare(binding: Binding): Result<JsonObject, string>;
  /** The output that answers a call. */
  output(call: FunctionCall, outcome: Outcome, render: Render): JsonObject;
}

/** The format of `POST /v1/calls`. */
export interface NativeFormat extends Format {
  /** One intent, as the body of `POST /v1/calls`. */
  readIntent(body: JsonValue): Result<FunctionCall, readonly BodyFault[]>;
}
