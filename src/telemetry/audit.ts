import type { Actor } from '../access/actor.ts';
import type { FunctionCall } from '../core/call.ts';
import { jsonText } from '../core/json.ts';
import { onceFor } from '../core/once-for.ts';
import type { Outcome } from '../core/outcome.ts';
import type { AdmittedCall, Caller, FinishedCall, ReplayedCall } from '../dispatch/ports.ts';
import type { Claim, RecordedTool } from '../dispatch/record.ts';
import type { Binding } from '../tools/registry.ts';
import type { LineSink } from './line-sink.ts';

/** Codes by which callgate, and not the server, turned a call away for want of a right. */
const denials: ReadonlySet<string | undefined> = new Set(['forbidden', 'unknown_tool']);

/** An operator's word on a call whose end nobody knew. */
export interface OperatorVerdict {
  readonly id: string;
  readonly status: 'succeeded' | 'failed';
  readonly note: string;
  /** The user of the operating system who gave it. */
  readonly user: string;
}

/** Writes a line for everything that is done with a call. */
export interface AuditTrail {
  admitted(fact: AdmittedCall): void;
  finished(fact: FinishedCall): void;
  replayed(fact: ReplayedCall): void;
  settledLate(fact: { readonly claim: Claim; readonly outcome: Outcome }): void;
  settledByOperator(verdict: OperatorVerdict): void;
}

/**
 * Writes one line for each finished call, refused ones too (AZ-8), for each attempt of a write before it is sent (I8),
 * and for each repeat: who, what, which decision, how it ended; of the arguments nothing but their hash. The lines
 * look like those of the log and stand among them.
 *
 * They do not go by way of the logger, which takes longer over these fields than a call over all its checks; what is
 * the same from call to call is written as JSON once.
 */
export function createAuditTrail(sink: LineSink): AuditTrail {
  return {
    // The two lines that nearly every call has are put together by hand: as objects that `JSON.stringify` walks through
    // they would take twice as long. Of a write that was under way when the process died, the first one is the trace
    // outside of the ledger.
    admitted: ({ claim: { call, attempt }, caller, argumentsHash }) =>
      sink.writeSoon(
        `${opening('call.admitted', call.id, call, caller)},"attempt":${attempt}` +
          `${call.tool === undefined ? '' : `,${membersOfTool(call.tool)}`},` +
          `"arguments_sha256":"${argumentsHash}",${membersOfActor(caller.actor)}}\n`,
      ),

    finished: ({ settled, caller, binding, upstreamMs, argumentsHash, mended }) => {
      const { id, call, outcome, durationMs } = settled;
      const code = outcome.error?.code;
      sink.write(
        `${opening('call.finished', id, call, caller)},"decision":"${denials.has(code) ? 'deny' : 'allow'}",` +
          `"status":"${outcome.status}"${member('code', code)},` +
          `"arguments_sha256":"${argumentsHash}"${member('mended', mended)},` +
          `"duration_ms":${rounded(durationMs)},"upstream_ms":${rounded(upstreamMs)},` +
          `${binding === undefined ? '' : `${membersOfBinding(binding)},`}${membersOfActor(caller.actor)}}\n`,
      );
    },

    replayed: ({ settled: { id, call, outcome }, caller }) => {
      const code = outcome.error?.code;
      sink.write(
        lineOf(
          {
            ...start('call.replayed'),
            request_id: caller.requestId,
            run: caller.run,
            turn: caller.turn,
            id,
            call_id: call.callId,
            name: call.name,
            decision: denials.has(code) ? 'deny' : 'allow',
            status: outcome.status,
            code,
          },
          membersOfActor(caller.actor),
        ),
      );
    },

    settledLate: ({ claim: { call, attempt }, outcome }) =>
      sink.write(
        lineOf({
          ...start('call.settled_late'),
          id: call.id,
          call_id: call.callId,
          name: call.name,
          attempt,
          status: outcome.status,
          code: outcome.error?.code,
          server: call.tool?.target.alias,
          tool: call.tool?.name,
          class: call.tool?.target.class,
        }),
      ),

    settledByOperator: ({ id, status, note, user }) =>
      sink.write(lineOf({ ...start('call.settled_by_operator'), id, status, note, user })),
  };
}

type Fields = Readonly<Record<string, string | number | undefined>>;

const start = (event: string) => ({ level: 'info', time: isoTime(Date.now()), event });

/** The beginning of a line that is put together by hand. */
const opening = (
  event: string,
  id: string,
  { callId, name }: Pick<FunctionCall, 'callId' | 'name'>,
  { requestId, run, turn }: Caller,
): string =>
  `{"level":"info","time":"${isoTime(Date.now())}","event":"${event}"${member('request_id', requestId)}` +
  `${member('run', run)}${member('turn', turn)}${member('id', id)}${member('call_id', callId)}${member('name', name)}`;

/** A further member of a line. */
const member = (name: string, value: string | undefined): string =>
  value === undefined ? '' : `,"${name}":${jsonText(value)}`;

/** A line of these fields, and of others that have been written before. */
const lineOf = (fields: Fields, written = ''): string =>
  `{${members(fields)}${written === '' ? '' : `,${written}`}}\n`;

const members = (fields: Fields): string => JSON.stringify(fields).slice(1, -1);

const membersOfActor = onceFor(({ issuer, kind, subject, client }: Actor) =>
  members({ iss: issuer, actor: kind, sub: subject, client }),
);

const membersOfBinding = onceFor(({ alias, tool, target }: Binding) =>
  members({ server: alias, tool, class: target.class }),
);

const membersOfTool = onceFor(({ name, target }: RecordedTool) =>
  members({ server: target.alias, tool: name, class: target.class }),
);

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
