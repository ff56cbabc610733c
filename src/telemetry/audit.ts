import type { FinishedCall } from '../dispatch/ports.ts';
import type { LineSink } from './line-sink.ts';

/** Codes by which callgate, and not the server, turned a call away for want of a right. */
const denials: ReadonlySet<string | undefined> = new Set(['forbidden', 'unknown_tool']);

/**
 * Writes one line for each finished call, refused ones too (AZ-8): who, what, which decision, how it ended; of the
 * arguments nothing but their hash. The lines look like those of the log and stand among them.
 */
export const createAuditTrail =
  (sink: LineSink) =>
  ({ settled, caller, binding, upstreamMs, argumentsHash, mended }: FinishedCall): void => {
    const { id, call, outcome, durationMs } = settled;
    const { actor } = caller;
    const code = outcome.error?.code;
    // Not by way of the logger: it takes longer over these twenty fields than a call over all its checks.
    const line = JSON.stringify({
      level: 'info',
      time: new Date().toISOString(),
      event: 'call.finished',
      request_id: caller.requestId,
      id,
      call_id: call.callId,
      name: call.name,
      server: binding?.alias,
      tool: binding?.tool,
      class: binding?.target.class,
      iss: actor.issuer,
      actor: actor.kind,
      sub: actor.subject,
      client: actor.client,
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
    sink.write(`${line}\n`);
  };

const rounded = (ms: number): number => Math.round(ms * 1_000) / 1_000;
