import type { Actor } from '../access/actor.ts';
import type { FinishedCall } from '../dispatch/ports.ts';
import type { Binding } from '../tools/registry.ts';
import type { LineSink } from './line-sink.ts';

/** Codes by which callgate, and not the server, turned a call away for want of a right. */
const denials: ReadonlySet<string | undefined> = new Set(['forbidden', 'unknown_tool']);

/**
 * Writes one line for each finished call, refused ones too (AZ-8): who, what, which decision, how it ended; of the
 * arguments nothing but their hash. The lines look like those of the log and stand among them.
 *
 * They do not go by way of the logger, which takes longer over these fields than a call over all its checks; what is
 * the same from call to call is written as JSON once.
 */
export const createAuditTrail =
  (sink: LineSink) =>
  ({ settled, caller, binding, upstreamMs, argumentsHash, mended }: FinishedCall): void => {
    const { id, call, outcome, durationMs } = settled;
    const code = outcome.error?.code;
    const own = members({
      time: isoTime(Date.now()),
      event: 'call.finished',
      request_id: caller.requestId,
      id,
      call_id: call.callId,
      name: call.name,
      run: caller.run,
      turn: caller.turn,
      decision: denials.has(code) ? 'deny' : 'allow',
      status: outcome.status,
      code,
      arguments_sha256: argumentsHash,
      mended,
      duration_ms: rounded(durationMs),
      upstream_ms: rounded(upstreamMs),
    });
    const what = binding === undefined ? '' : `,${membersOfBinding(binding)}`;
    sink.write(`{"level":"info",${own}${what},${membersOfActor(caller.actor)}}\n`);
  };

const members = (fields: Readonly<Record<string, string | number | undefined>>): string =>
  JSON.stringify(fields).slice(1, -1);

const membersOfActor = onceFor(({ issuer, kind, subject, client }: Actor) =>
  members({ iss: issuer, actor: kind, sub: subject, client }),
);

const membersOfBinding = onceFor(({ alias, tool, target }: Binding) =>
  members({ server: alias, tool, class: target.class }),
);

function onceFor<Key extends object>(make: (key: Key) => string): (key: Key) => string {
  const made = new WeakMap<Key, string>();
  return (key) => {
    let text = made.get(key);
    if (text === undefined) {
      text = make(key);
      made.set(key, text);
    }
    return text;
  };
}

let lastMs = 0;
let lastTime = '';

/** Many calls end in one millisecond; its text is made once. */
function isoTime(nowMs: number): string {
  if (nowMs !== lastMs) {
    lastMs = nowMs;
    lastTime = new Date(nowMs).toISOString();
  }
  return lastTime;
}

const rounded = (ms: number): number => Math.round(ms * 1_000) / 1_000;
