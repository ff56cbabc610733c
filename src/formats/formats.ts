import { anthropic } from './anthropic.ts';
import { bedrock } from './bedrock.ts';
import { cohere } from './cohere.ts';
import type { Format, NativeFormat } from './format.ts';
import { gemini } from './gemini.ts';
import { geminiInteractions } from './gemini-interactions.ts';
import { mcp } from './mcp.ts';
import { mistral } from './mistral.ts';
import { ollama } from './ollama.ts';
import { openaiChat } from './openai-chat.ts';
import { openaiResponses } from './openai-responses.ts';

/** Every format this version speaks, by the name that callers use for it. */
export const formats: ReadonlyMap<string, Format> = new Map(
  [
    openaiResponses,
    openaiChat,
    anthropic,
    gemini,
    geminiInteractions,
    bedrock,
    mistral,
    cohere,
    ollama,
    mcp,
  ].map((format: Format) => [format.name, format]),
);

/** The format of `POST /v1/calls`, and of any request that names none. */
export const nativeFormat: NativeFormat = openaiResponses;
