import { hash } from 'node:crypto';
import type { FunctionCall } from '../core/call.ts';
import type { Intent } from '../formats/format.ts';

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Nine of these letters are an id that every provider takes. */
const madeIdChars = 9;
/** The hash has 43 letters; the others are not looked at. */
const restOfHash = 62n ** BigInt(43 - madeIdChars);

/**
 * The calls of a turn, each with an id: one that the model left without gets its own, from the name of the turn and its
 * place in it, so that a retry is known again. Where the caller names no turn it is one that no retry can have.
 * @param seed what stands for the turn then: new for each request
 */
export const identify = (
  intents: readonly Intent[],
  turn: string | undefined,
  seed: string,
): readonly FunctionCall[] =>
  intents.map(({ index, call }) =>
    call.callId === undefined
      ? { ...call, callId: madeId(turn ?? seed, index), hasMadeId: true }
      : { ...call, callId: call.callId },
  );

/** The first letters, base 62, of SHA-256(turn, index) (design section 4). */
function madeId(turn: string, index: number): string {
  let number = BigInt(`0x${hash('sha256', JSON.stringify([turn, index]))}`) / restOfHash;
  let text = '';
  for (let place = 0; place < madeIdChars; place++) {
    text = (letters[Number(number % 62n)] ?? '') + text;
    number /= 62n;
  }
  return text;
}
