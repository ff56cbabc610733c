import type { JsonObject, JsonValue } from './json.ts';

/** An intent, normalised: what the model asks for, before anything about it was checked. */
export interface FunctionCall {
  /** The caller's identity of the call; only ever echoed, byte for byte. */
  readonly callId: string;
  /** Whether the model gave the call no id, so that this one was made here and its provider does not know it. */
  readonly hasMadeId?: boolean | undefined;
  /** The declared name as the model wrote it. */
  readonly name: string;
  /** The alias, where the provider keeps it apart from the name. */
  readonly namespace?: string | undefined;
  /** As emitted: usually a JSON text, sometimes an object, sometimes nothing. */
  readonly arguments: JsonValue | undefined;
  /** Members of the intent that its output has to carry again (`caller` in Responses). */
  readonly echo?: JsonObject | undefined;
  /** What a format has to know of a call to answer it, where it has several kinds (`custom_tool_call` in Responses). */
  readonly kind?: string | undefined;
}

/** The name under which a call is looked up: a namespace and the rest are the same key as the whole name. */
export const lookupName = (call: FunctionCall): string =>
  call.namespace === undefined ? call.name : `${call.namespace}__${call.name}`;
