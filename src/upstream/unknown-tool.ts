import type { ToolResult } from '../core/outcome.ts';
import type { Result } from '../core/result.ts';
import type { CallFault } from './fault.ts';

const methodNotFound = -32601;
const invalidParams = -32602;
/** Headers and arguments do not fit, as when the schema has changed since it was listed (MCP 2026-07-28). */
const headerMismatch = -32020;
const telling: ReadonlySet<number> = new Set([methodNotFound, invalidParams, headerMismatch]);
/** How servers put it in words, in the first characters of a text. */
const words = /\b(unknown tool|no such tool|tool\b.{0,150}\b(not found|unknown|does not exist|not exist))/i;
const lookedAtChars = 300;

/** Whether the server says that it has no such tool: then its list is not what it was when it was read. */
export function saysUnknownTool(answer: Result<ToolResult, CallFault>): boolean {
  if (!answer.ok) {
    const { code, details } = answer.error;
    const rpcCode = details?.json_rpc_code;
    return code === 'server_error' && typeof rpcCode === 'number' && telling.has(rpcCode);
  }
  if (!answer.value.isError) return false;
  const [first] = answer.value.content;
  return (
    first?.type === 'text' && typeof first.text === 'string' && words.test(first.text.slice(0, lookedAtChars))
  );
}
