import { fail, ok, type Result } from './result.ts';

/** A value as JSON carries it, plus `ExactNumber` for what a double cannot hold. */
export type JsonValue = null | boolean | number | string | ExactNumber | readonly JsonValue[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: JsonValue;
}
