import type { JsonObject } from '../core/json.ts';
import { dispatch } from '../dispatch/dispatch.ts';
import type { SettledCall } from '../dispatch/ports.ts';
import type { Format } from '../formats/format.ts';
import { nativeFormat } from '../formats/formats.ts';
import type { Render } from '../tools/policy.ts';
import { authenticate } from './authenticate.ts';
import { readCaller } from './caller.ts';
import type { Service } from './context.ts';
import type { Answer, IncomingRequest } from './exchange.ts';
import { Problem } from './problem.ts';
import { choose, readQuery, requireJsonAccepted, withJson } from './request.ts';

const callParameters = { render: 'one' } as const;
const renders: readonly Render[] = ['envelope', 'text'];

/** `POST /v1/calls`: one `function_call` item in, its `function_call_output` item out. */
export async function postCall(
  request: IncomingRequest,
  requestId: string,
  service: Service,
): Promise<Answer> {
  const actor = await authenticate(request, service, requestId);
  requireJsonAccepted(request);
  const query = readQuery(request, callParameters);
  const render = readRender(query('render'));
  return withJson(request, service.limits.bodyBytesMax, service.admission, async (body) => {
    const read = nativeFormat.readIntent(body);
    if (!read.ok) throw unreadableBody(read.error);
    const { caller, revision } = readCaller(request, actor, nativeFormat, requestId, service);
    const settled = await dispatch(read.value, caller, service.dispatch);
    const headers: Record<string, string> = {
      'content-type': 'application/json',
      'cache-control': 'no-store',
      'x-request-id': requestId,
      'callgate-id': settled.id,
      'callgate-status': settled.outcome.status,
      'callgate-revision': revision,
    };
    if (settled.outcome.error !== undefined) headers['callgate-code'] = settled.outcome.error.code;
    return { status: 200, headers, body: JSON.stringify(outputOf(settled, nativeFormat, render)) };
  });
}

/** How a request may ask for its outputs to be written. */
export const readRender = (values: readonly string[]): Render | undefined =>
  values.length === 0 ? undefined : choose('render', values, renders, 'envelope');

/** The output of a settled call: as the request asks, else as the operator says, else as the format does. */
export const outputOf = (settled: SettledCall, format: Format, render: Render | undefined): JsonObject =>
  format.output(settled.call, settled.outcome, render ?? settled.render ?? format.defaultRender);

/** The problem of a body that is JSON and still no call. */
export const unreadableBody = (faults: readonly { pointer: string; detail: string }[]): Problem =>
  new Problem(
    'invalid_request',
    `the body cannot be read: ${faults[0]?.pointer ?? ''} ${faults[0]?.detail ?? ''}`,
    {
      errors: faults.slice(0, 20),
    },
  );
