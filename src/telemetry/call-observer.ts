import type { EventLog } from '../core/events.ts';
import type { CallObserver } from '../dispatch/ports.ts';
import type { Metrics } from './metrics.ts';

/** Writes each finished call to the log, as its audit line (AZ-8), and to the metrics. */
export const createCallObserver = (log: EventLog, metrics: Metrics): CallObserver => ({
  callFinished({ settled, caller, binding, upstreamMs, argumentsHash, mended }) {
    const { id, call, outcome, durationMs } = settled;
    const { actor } = caller;
    const code = outcome.error?.code;
    log.info('call.finished', {
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
      decision: code === 'forbidden' || binding === undefined ? 'deny' : 'allow',
      status: outcome.status,
      code,
      arguments_sha256: argumentsHash,
      mended,
      duration_ms: Math.round(durationMs * 1_000) / 1_000,
      upstream_ms: Math.round(upstreamMs * 1_000) / 1_000,
    });
    metrics.callFinished({
      server: binding?.alias ?? '',
      tool: binding?.tool ?? '',
      code: code ?? 'ok',
      durationMs,
      upstreamMs,
    });
  },
});
