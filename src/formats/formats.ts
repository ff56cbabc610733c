import type { Format, NativeFormat } from './format.ts';
import { mcp } from './mcp.ts';
import { openaiResponses } from './openai-responses.ts';

/** Every format this version speaks, by the name that callers use for it. */
export const formats: ReadonlyMap<string, Format> = new Map(
  [openaiResponses, mcp].map((format: Format) => [format.name, format]),
);

/** The format of `POST /v1/calls`, and of any request that names none. */
export const nativeFormat: NativeFormat = openaiResponses;
