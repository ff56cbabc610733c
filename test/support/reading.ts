import type { JsonValue } from '../../src/core/json.ts';
import type { Format } from '../../src/formats/format.ts';

/** What a format reads in a body: `[index, pointer, id, name, arguments]` of each call. @throws on faults */
export function callsIn(format: Format, body: unknown): unknown[][] {
  const read = format.readTurn(body as JsonValue);
  if (!read.ok) throw new Error(JSON.stringify(read.error));
  return read.value.map(({ index, pointer, call }) => [
    index,
    pointer,
    call.callId,
    call.name,
    call.arguments,
  ]);
}

/** What is wrong with a body: the pointer of each fault with its words. @throws when nothing is */
export function faultsIn(format: Format, body: unknown): [string, string][] {
  const read = format.readTurn(body as JsonValue);
  if (read.ok) throw new Error(`it was read: ${JSON.stringify(read.value)}`);
  return read.error.map(({ pointer, detail }) => [pointer, detail]);
}
