import {
  isJSONRPCErrorResponse,
  type JSONRPCErrorResponse,
  type JSONRPCResultResponse,
  type RequestId,
} from '@modelcontextprotocol/sdk/types.js';

/** What was wrong with an answer that belongs to a known request. */
export type AnswerFault = 'malformed_answer' | 'oversize';

// The SDK keeps `error.data` by reference, and no server can send these objects: being one of them is the proof
// that the error was made here. The code beside it proves nothing (a server may send any code).
const marks: Readonly<Record<AnswerFault, object>> = {
  malformed_answer: Object.freeze({ fault: 'malformed_answer' }),
  oversize: Object.freeze({ fault: 'oversize' }),
};

const messages: Readonly<Record<AnswerFault, string>> = {
  malformed_answer: 'the server sent an answer that is not JSON-RPC',
  oversize: 'the answer is larger than the limit for one message',
};

/** The answer that takes the place of one that cannot be used, so that its call ends at once. */
export const faultAnswer = (id: RequestId, fault: AnswerFault): JSONRPCErrorResponse => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32603, message: messages[fault], data: marks[fault] },
});

/** Tells an error that the transport made from one that the server sent. */
export function localFault(error: unknown): AnswerFault | undefined {
  if (typeof error !== 'object' || error === null || !('data' in error)) return undefined;
  if (error.data === marks.malformed_answer) return 'malformed_answer';
  return error.data === marks.oversize ? 'oversize' : undefined;
}

/**
 * The answer to request `id` in the exact form that the SDK's client accepts, or undefined for one that is malformed.
 * What the client does not accept it drops without a word, and the call would wait for its timeout.
 */
export function wellFormedAnswer(
  id: RequestId,
  value: Readonly<Record<string, unknown>>,
): JSONRPCResultResponse | JSONRPCErrorResponse | undefined {
  const { result, error } = value;
  const hasError = error !== undefined && error !== null;
  if (hasError) {
    const answer = { jsonrpc: '2.0', id, error };
    return (result === undefined || result === null) && isJSONRPCErrorResponse(answer) ? answer : undefined;
  }
  if (typeof result !== 'object' || result === null || Array.isArray(result)) return undefined;
  return { jsonrpc: '2.0', id, result: knownMembers(result as Record<string, unknown>) };
}

/** All members that are read of any result. */
const resultMembers: ReadonlySet<string> = new Set([
  ...['content', 'structuredContent', 'isError', 'resultType'],
  ...['tools', 'nextCursor'],
  ...['protocolVersion', 'supportedVersions', 'capabilities', 'serverInfo', 'instructions'],
]);

/** A million other members, or an odd `_meta`, would cost the SDK seconds or keep it from taking the answer at all. */
function knownMembers(result: Record<string, unknown>): Record<string, unknown> {
  if (hasOnlyKnownMembers(result)) return result;
  const known: Record<string, unknown> = {};
  for (const member of resultMembers) if (Object.hasOwn(result, member)) known[member] = result[member];
  return known;
}

function hasOnlyKnownMembers(result: Readonly<Record<string, unknown>>): boolean {
  for (const member in result) if (!resultMembers.has(member)) return false;
  return true;
}

const head =
  /^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?(?:"id"\s*:\s*(\d{1,15})\s*,\s*)?(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:result|error)"\s*:/;
const tail = /,\s*"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$/;

/**
 * The id of an answer of which only the first bytes, or the first and the last ones, are known.
 * Both patterns are anchored at the outer braces, so that an `id` inside the payload is never taken for it.
 */
export function edgeId(first: string, last = ''): number | undefined {
  const atHead = head.exec(first);
  if (atHead === null) return undefined;
  const digits = atHead[1] ?? tail.exec(last)?.[1];
  return digits === undefined ? undefined : Number(digits);
}
