import { describe, expect, test } from 'vitest';
import type {
  CallRecord,
  CallStatus,
  Declarations,
  FormatName,
  FunctionCallOutput,
  LeftCall,
  OutcomeCode,
  ProblemCode,
  RecordStatus,
  SettledCall,
  TurnResult,
  UnfinishedCall,
} from '../../../src/client/client.ts';
import { follow } from '../../support/contract.ts';

/** Each member of a type, and whether it is always there; the compiler holds such a table against the type. */
type Members<T> = { readonly [Key in keyof T]-?: object extends Pick<T, Key> ? false : true };
/** Each word of a union. */
type Words<T extends string> = { readonly [Word in T]: true };

const words = {
  FormatName: {
    'openai-responses': true,
    'openai-chat': true,
    anthropic: true,
    gemini: true,
    'gemini-interactions': true,
    bedrock: true,
    mistral: true,
    cohere: true,
    ollama: true,
    mcp: true,
  } satisfies Words<FormatName>,
  ProblemCode: {
    invalid_request: true,
    unauthenticated: true,
    invalid_token: true,
    insufficient_scope: true,
    not_found: true,
    method_not_allowed: true,
    not_acceptable: true,
    conflict: true,
    payload_too_large: true,
    unsupported_media_type: true,
    headers_too_large: true,
    internal: true,
    overloaded: true,
    draining: true,
    ledger_unavailable: true,
    keys_unavailable: true,
  } satisfies Words<ProblemCode>,
  OutcomeCode: {
    unknown_tool: true,
    forbidden: true,
    invalid_arguments: true,
    call_id_reused: true,
    rate_limited: true,
    server_busy: true,
    ledger_unavailable: true,
    server_unavailable: true,
    tool_error: true,
    server_error: true,
    protocol_error: true,
    output_too_large: true,
    input_required: true,
    timeout: true,
    connection_lost: true,
    cancelled: true,
    interrupted: true,
    call_expired: true,
  } satisfies Words<OutcomeCode>,
  CallStatus: {
    succeeded: true,
    failed: true,
    rejected: true,
    not_sent: true,
    unknown: true,
  } satisfies Words<CallStatus>,
  RecordStatus: {
    received: true,
    started: true,
    succeeded: true,
    failed: true,
    rejected: true,
    not_sent: true,
    unknown: true,
  } satisfies Words<RecordStatus>,
};

const facts = { call_id: true, name: true, may_have_executed: true, attempts: true } as const;

const objects = {
  Declarations: {
    format: true,
    revision: true,
    tools: true,
    adjusted: true,
    omitted: true,
    pending: true,
    warnings: true,
  } satisfies Members<Declarations<unknown>>,
  TurnResult: { append: true, calls: true, left: true } satisfies Members<TurnResult<unknown>>,
  SettledCall: {
    ...facts,
    id: true,
    status: true,
    code: false,
    replayed: true,
    replay_protected: true,
    duration_ms: true,
  } satisfies Members<SettledCall>,
  UnfinishedCall: {
    ...facts,
    id: false,
    status: true,
    replay_protected: true,
  } satisfies Members<UnfinishedCall>,
  'LeftCalls/items': { index: true, call_id: true, name: true } satisfies Members<LeftCall>,
  CallRecord: {
    ...facts,
    id: true,
    run: true,
    turn: true,
    status: true,
    code: false,
    created_at: true,
    updated_at: true,
    output: false,
  } satisfies Members<CallRecord>,
};

type Schema = { enum?: string[]; properties?: object; required?: string[] };
const schema = (name: string): Schema => follow(`/components/schemas/${name}`).node as Schema;

describe('the types of the client', () => {
  test.each(Object.entries(words))('know the words of %s in openapi.yaml', (name, known) => {
    expect(Object.keys(known).sort()).toEqual([...(schema(name).enum ?? [])].sort());
  });

  test.each(Object.entries(objects))('have the members of %s in openapi.yaml', (name, members) => {
    const { properties = {}, required = [] } = schema(name);
    expect(Object.keys(members).sort()).toEqual(Object.keys(properties).sort());
    const always = Object.entries(members).flatMap(([member, isThere]) => (isThere ? [member] : []));
    expect(always.sort()).toEqual([...required].sort());
  });

  test('say of an output item what openapi.yaml says', () => {
    const item = { type: true, call_id: true, output: true } satisfies Members<FunctionCallOutput>;
    expect(schema('FunctionCallOutput').required).toEqual(Object.keys(item));
  });
});
