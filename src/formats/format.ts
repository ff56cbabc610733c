import type { FunctionCall } from '../core/call.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import type { Outcome } from '../core/outcome.ts';
import type { Result } from '../core/result.ts';
import type { Render } from '../tools/policy.ts';
import type { SchemaRules } from '../tools/projection.ts';
import type { Binding, ToolMember } from '../tools/registry.ts';

/** A fault in the body of a request, with the place it is at (JSON Pointer, RFC 6901). */
export interface BodyFault {
  readonly pointer: string;
  readonly detail: string;
}

/** A call as it was read; without an id where the model gave it none and its format allows that. */
export type ReadCall = Omit<FunctionCall, 'callId' | 'hasMadeId'> & { readonly callId: string | undefined };

/** Where an intent stood in the model's answer, and what it asks for. */
export interface Intent {
  readonly index: number;
  /** The same place as a JSON Pointer into the body. */
  readonly pointer: string;
  readonly call: ReadCall;
}

/** What a caller may ask for in declarations beside the plain list; each only where the format has it. */
export interface DeclareOptions {
  /** `lossless`: strict for tools that lose nothing by it. */
  readonly strict: 'off' | 'lossless';
  /** The tools of each server in a namespace of their own. */
  readonly namespaces: boolean;
  /** The model is told of a tool only when it looks for it. */
  readonly defer: boolean;
}

/** A tool as a format is to declare it: its schema is one that the provider takes. */
export interface DeclaredTool {
  readonly binding: Binding;
  /** Not empty. */
  readonly description: string | undefined;
  readonly schema: JsonObject;
  /** Whether the schema is one for the provider's strict mode. */
  readonly isStrict: boolean;
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
  /** What the provider takes of JSON Schema; undefined where declarations carry the server's own schema as it is. */
  readonly schemaRules?: SchemaRules;
  /** Which of the options it has. */
  readonly options: ReadonlySet<keyof DeclareOptions>;
  /**
   * The intents of a whole model answer, of a list of intents, or of one intent; others are left alone. Calls in more
   * than one choice or candidate are a fault.
   */
  readTurn(body: JsonValue): Result<readonly Intent[], readonly BodyFault[]>;
  /** The `tools` of a model request. */
  declare(tools: readonly DeclaredTool[], options: DeclareOptions): readonly JsonObject[];
  /** The output that answers a call. */
  output(call: FunctionCall, outcome: Outcome, render: Render): JsonObject;
  /** The one message that holds the outputs of a whole turn; undefined where they stand side by side. */
  readonly message?: (outputs: readonly JsonObject[]) => JsonObject;
}

/** The format of `POST /v1/calls`. */
export interface NativeFormat extends Format {
  /** One intent, as the body of `POST /v1/calls`. */
  readIntent(body: JsonValue): Result<FunctionCall, readonly BodyFault[]>;
}
