import { checkAnthropicTools } from './anthropic.ts';
import { checkBedrockTools } from './bedrock.ts';
import { checkCohereTools, checkMistralTools, checkOllamaTools } from './chat-variants.ts';
import { checkGeminiTools, checkInteractionsTools } from './gemini.ts';
import { checkChatTools, checkResponsesTools } from './openai.ts';
import { isMembers } from './schema.ts';
import { eachTool, nameFault, repeatedNames } from './tool.ts';

const checkers: ReadonlyMap<string, (tools: readonly unknown[]) => string[]> = new Map([
  ['openai-responses', checkResponsesTools],
  ['openai-chat', checkChatTools],
  ['anthropic', checkAnthropicTools],
  ['gemini', checkGeminiTools],
  ['gemini-interactions', checkInteractionsTools],
  ['bedrock', checkBedrockTools],
  ['mistral', checkMistralTools],
  ['cohere', checkCohereTools],
  ['ollama', checkOllamaTools],
  ['mcp', checkMcpTools],
]);

/**
 * What the API behind a format would refuse of the `tools` in a request, one line each; nothing where it takes them.
 * Written from the published rules of the providers alone, with no regard to how callgate makes its declarations.
 */
export function checkTools(format: string, tools: readonly unknown[]): string[] {
  const check = checkers.get(format);
  if (check === undefined) throw new Error(`There are no rules for the format ${format}.`);
  return check(tools);
}

// MCP itself: any schema of an object, under a name that every provider takes.
function checkMcpTools(tools: readonly unknown[]): string[] {
  const names: unknown[] = [];
  const faults = eachTool(tools, 'tools', function* (tool) {
    names.push(tool.name);
    yield* nameFault(tool.name, /^[a-zA-Z0-9_-]{1,64}$/);
    if (!isMembers(tool.inputSchema) || tool.inputSchema.type !== 'object')
      yield 'inputSchema is no schema of an object';
  });
  return [...faults, ...repeatedNames(names)];
}
