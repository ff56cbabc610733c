import { generateKeyPairSync } from 'node:crypto';
import type { Hono } from 'hono';
import { SignJWT } from 'jose';
import { type Authenticator, createAuthenticator } from '../../src/auth/bearer.ts';
import { resourceMetadata } from '../../src/auth/resource-metadata.ts';
import type { IssuerSettings } from '../../src/auth/settings.ts';
import type { EventFields, EventLog } from '../../src/core/events.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { ToolResult } from '../../src/core/outcome.ts';
import { CallsInFlight } from '../../src/dispatch/calls-in-flight.ts';
import { Declarations } from '../../src/dispatch/declarations.ts';
import type {
  AdmittedCall,
  Attempt,
  CallObserver,
  DispatchPorts,
  FinishedCall,
  ReplayedCall,
  ToolCall,
  Upstream,
} from '../../src/dispatch/ports.ts';
import { Admission } from '../../src/http/admission.ts';
import { createApp } from '../../src/http/app.ts';
import type { Readiness, Service } from '../../src/http/context.ts';
import { newUuidV7 } from '../../src/ids.ts';
import { inSlices } from '../../src/in-slices.ts';
import { type BoundServer, bindServer } from '../../src/tools/bind-server.ts';
import type { ToolDefinition, WithheldTool } from '../../src/tools/definition.ts';
import type { ServerPolicy, ToolPolicy } from '../../src/tools/policy.ts';
import { buildRegistry, type Registry } from '../../src/tools/registry.ts';
import type { ServerStatus } from '../../src/upstream/settings.ts';
import { checkResponse, openapiText } from './contract.ts';
import { MemoryLedger } from './memory-ledger.ts';

const audience = 'https://callgate.test';
const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const issuer: IssuerSettings = {
  issuer: 'https://idp.test/',
  audience,
  keys: {
    kind: 'inline',
    keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k1', alg: 'ES256', use: 'sig' }],
  },
  algorithms: ['ES256'],
  profile: 'rfc9068',
  scopeClaims: ['scope'],
  scopeMap: {},
  grantsMax: ['tools:*:*', 'callgate:operate'],
  lifetimeMaxS: 86_400,
};

/** A token of the test issuer with these scopes. */
export const mintToken = (...scopes: readonly string[]): Promise<string> =>
  new SignJWT({ scope: scopes.join(' '), client_id: 'backend', jti: newUuidV7(Date.now()) })
    .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid: 'k1' })
    .setIssuer(issuer.issuer)
    .setAudience(audience)
    .setSubject('user-1')
    .setIssuedAt()
    .setExpirationTime('10m')
    .sign(privateKey);

/** A server of the test, with the tools that it would have listed. */
export interface TestServer {
  readonly alias: string;
  readonly tools?: readonly ToolDefinition[];
  readonly refused?: readonly WithheldTool[];
  /** False for a server that has never listed its tools. */
  readonly hasListed?: boolean;
  /** For every tool of the server. */
  readonly policy?: Partial<ToolPolicy>;
  readonly descriptionPrefix?: string;
  readonly needsRun?: boolean;
}

/** What a tool does: its result, or what became of the attempt. */
export type Behaviour = (
  call: ToolCall,
) => Partial<ToolResult> | Attempt | Promise<Partial<ToolResult> | Attempt>;

export interface TestServiceOptions {
  readonly servers?: readonly TestServer[];
  /** By `alias:tool`; other tools answer with their arguments as JSON text. */
  readonly behaviours?: Readonly<Record<string, Behaviour>>;
  readonly hideForbidden?: boolean;
  readonly authenticator?: Authenticator;
  readonly service?: Partial<Service>;
}

/** A request of a test. */
export interface TestRequest {
  readonly scopes?: readonly string[];
  /** Undefined: a token with the scopes; `null`: none. */
  readonly token?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** Aborted when the caller hangs up. */
  readonly signal?: AbortSignal;
}

export interface TestAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies whose shape the contract has just checked
  readonly json: any;
}

type LateCall = Parameters<CallObserver['callSettledLate']>[0];
type LedgerFault = Parameters<CallObserver['ledgerFailed']>[0];

/** Everything behind the HTTP routes, real but for the servers, and every answer checked against `openapi.yaml`. */
export interface TestService {
  readonly app: Hono;
  readonly service: Service;
  /** What was sent to servers. */
  readonly sent: readonly ToolCall[];
  /** Actor and run of each run that was ended. */
  readonly endedRuns: readonly (readonly [string, string])[];
  readonly finished: readonly FinishedCall[];
  readonly admitted: readonly AdmittedCall[];
  readonly replayed: readonly ReplayedCall[];
  readonly settledLate: readonly LateCall[];
  readonly ledgerFaults: readonly LedgerFault[];
  readonly ledger: MemoryLedger;
  readonly events: readonly { readonly event: string; readonly fields: EventFields }[];
  /** Replaces the servers, as new tool lists do. */
  list(servers: readonly TestServer[]): void;
  request(
    method: string,
    path: string,
    request?: TestRequest,
    body?: NonNullable<RequestInit['body']>,
  ): Promise<TestAnswer>;
  /** The answer as it begins, its body unread and not checked. */
  open(
    method: string,
    path: string,
    request?: TestRequest,
    body?: NonNullable<RequestInit['body']>,
  ): Promise<Response>;
  get(path: string, request?: TestRequest): Promise<TestAnswer>;
  /** Sends a body as JSON; a string is sent as it is. */
  post(path: string, body: unknown, request?: TestRequest): Promise<TestAnswer>;
}

/** When the clock of a test service starts. */
const startedAtMs = Date.UTC(2025, 0, 1);

const ready: Readiness = { ready: true, waitingFor: [] };

export function createTestService(options: TestServiceOptions = {}): TestService {
  const log = createLog();
  const authenticator =
    options.authenticator ??
    createAuthenticator(
      { clockToleranceS: 30, globalWildcards: true, issuers: [issuer] },
      { log, nowMs: () => Date.now() },
    );
  let servers = options.servers ?? [];
  let registry = registryOf(servers);
  const sent: ToolCall[] = [];
  const endedRuns: [string, string][] = [];
  const finished: FinishedCall[] = [];
  const admitted: AdmittedCall[] = [];
  const replayed: ReplayedCall[] = [];
  const settledLate: LateCall[] = [];
  const ledgerFaults: LedgerFault[] = [];
  const ledger = new MemoryLedger();
  let passedMs = 0;
  let ids = 0;
  const dispatch: DispatchPorts = {
    registry: () => registry,
    upstream: createUpstream(() => servers, options.behaviours ?? {}, { sent, endedRuns }),
    ledger,
    inFlight: new CallsInFlight(),
    observer: {
      callAdmitted: (fact) => void admitted.push(fact),
      callFinished: (fact) => void finished.push(fact),
      callReplayed: (fact) => void replayed.push(fact),
      callSettledLate: (fact) => void settledLate.push(fact),
      ledgerFailed: (fact) => void ledgerFaults.push(fact),
    },
    clock: {
      monotonicMs: () => {
        passedMs += 1;
        return passedMs;
      },
      nowMs: () => startedAtMs + passedMs,
    },
    // A pause is over after one turn of the event loop, and the clock has moved by its length.
    pause: (ms) => {
      passedMs += ms;
      return new Promise((resolve) => setImmediate(resolve));
    },
    // One a millisecond: ids of the same one have no order among themselves.
    newId: () => {
      ids += 1;
      return newUuidV7(startedAtMs + ids);
    },
    nextLoopTurn: () => new Promise((resolve) => setImmediate(resolve)),
    inSlices: (steps) => inSlices(steps),
    hideForbidden: options.hideForbidden ?? false,
    aliases: servers.map(({ alias }) => alias),
  };
  const service: Service = {
    authenticator,
    dispatch,
    declarations: new Declarations(dispatch),
    serverStatuses: () => servers.map(statusOf),
    readiness: () => ready,
    admission: new Admission(),
    limits: { bodyBytesMax: 1_048_576, turnBytesMax: 16_777_216, intentsMax: 64, waitMaxMs: 55_000 },
    resourceMetadata: resourceMetadata(audience, [issuer]),
    resourceMetadataUrl: `${audience}/.well-known/oauth-protected-resource`,
    hostsAllowed: undefined,
    openapi: openapiText,
    log,
    ...options.service,
  };
  const app = createApp(service);

  const open: TestService['open'] = async (
    method,
    path,
    { scopes = [], token, headers, signal } = {},
    body,
  ) => {
    const all = new Headers(headers);
    if (token !== null && !all.has('authorization')) {
      all.set('authorization', `Bearer ${token ?? (await mintToken(...scopes))}`);
    }
    const init = {
      method,
      headers: all,
      ...(body === undefined ? {} : { body, duplex: 'half' as const }),
      ...(signal === undefined ? {} : { signal }),
    };
    return app.request(path, init);
  };
  const request: TestService['request'] = async (method, path, options, body) => {
    const response = await open(method, path, options, body);
    const text = await response.text();
    checkResponse(method, path, { status: response.status, headers: response.headers, body: text });
    const isJson = /json/.test(response.headers.get('content-type') ?? '') && text !== '';
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson ? JSON.parse(text) : undefined,
    };
  };
  return {
    app,
    service,
    sent,
    endedRuns,
    finished,
    admitted,
    replayed,
    settledLate,
    ledgerFaults,
    ledger,
    events: log.events,
    list(changed) {
      servers = changed;
      registry = registryOf(changed);
    },
    open,
    request,
    get: (path, options) => request('GET', path, options),
    post: (path, body, options = {}) =>
      request(
        'POST',
        path,
        { ...options, headers: { 'content-type': 'application/json', ...options.headers } },
        typeof body === 'string' ? body : JSON.stringify(body),
      ),
  };
}

function createUpstream(
  servers: () => readonly TestServer[],
  behaviours: Readonly<Record<string, Behaviour>>,
  { sent, endedRuns }: { sent: ToolCall[]; endedRuns: [string, string][] },
): Upstream {
  const echo: Behaviour = (call) => ({ content: [{ type: 'text', text: JSON.stringify(call.arguments) }] });
  return {
    async callTool(call) {
      sent.push(call);
      const done = await (behaviours[`${call.alias}:${call.tool}`] ?? echo)(call);
      if ('kind' in done) return done;
      return {
        kind: 'answered',
        attempts: 1,
        upstreamMs: 1,
        result: { content: [], isError: false, ...done },
      };
    },
    canSendNow: () => true,
    endRun: async (actor, run) => void endedRuns.push([actor, run]),
    hasListed: (alias) => servers().find((server) => server.alias === alias)?.hasListed ?? true,
    unavailability: (alias) => `the server "${alias}" is not available: it has not listed its tools yet`,
  };
}

/** A registry over these servers, made as the service makes it. */
export const registryOf = (servers: readonly TestServer[]): Registry =>
  buildRegistry(
    servers
      .filter(({ hasListed }) => hasListed !== false)
      .map((server) => bindNow(policyOf(server), server.tools ?? [], server.refused ?? [])),
  );

/** Binds a tool list without a pause. */
export function bindNow(...list: Parameters<typeof bindServer>): BoundServer {
  const steps = bindServer(...list);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

const policyOf = ({ alias, policy, descriptionPrefix, needsRun = false }: TestServer): ServerPolicy => ({
  alias,
  descriptionPrefix,
  trustAnnotations: false,
  needsRun,
  offers: () => true,
  toolPolicy: () => ({
    class: undefined,
    idempotent: false,
    retry: 'safe',
    timeoutMs: 60_000,
    timeoutTotalMs: 600_000,
    outputCharsMax: 100_000,
    render: undefined,
    description: undefined,
    ...policy,
  }),
});

const statusOf = ({ alias, hasListed = true }: TestServer): ServerStatus => ({
  alias,
  state: hasListed ? 'ready' : 'connecting',
  ...(hasListed ? {} : { stage: 'connect' }),
  since: 1_700_000_000_000,
  attempts: 0,
  connections: hasListed ? 1 : 0,
  breaker: 'closed',
});

/** A tool with this schema; without one it takes any object. */
export const tool = (
  name: string,
  inputSchema: JsonObject = { type: 'object', properties: {} },
): ToolDefinition => ({
  name,
  inputSchema,
});

/** A `function_call` item. */
export const functionCall = (callId: string, name: string, input: unknown = {}): JsonObject => ({
  type: 'function_call',
  call_id: callId,
  name,
  arguments: typeof input === 'string' ? input : JSON.stringify(input),
});

/** A result with one text. */
export const textResult = (text: string, isError = false): Partial<ToolResult> => ({
  content: [{ type: 'text', text }],
  isError,
});

function createLog(): EventLog & { readonly events: { event: string; fields: EventFields }[] } {
  const events: { event: string; fields: EventFields }[] = [];
  const record = (event: string, fields: EventFields): void => void events.push({ event, fields });
  return { events, info: record, warn: record, error: record };
}

/** A tool that ends when the test says so, or when it is cancelled. */
export function heldTool(result: Partial<ToolResult> = textResult('done')) {
  const calls: ToolCall[] = [];
  let finish = (): void => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let begin = (): void => {};
  const called = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const behaviour: Behaviour = async (call) => {
    calls.push(call);
    begin();
    const cancelled = new Promise<Attempt>((resolve) => {
      call.signal.addEventListener('abort', () =>
        resolve({
          kind: 'failed',
          code: 'cancelled',
          message: `the call was cancelled: ${call.signal.reason}`,
          sent: true,
          mayHaveExecuted: true,
          attempts: 1,
          upstreamMs: 1,
        }),
      );
    });
    return Promise.race([finished.then(() => result), cancelled]);
  };
  return { behaviour, calls, called, finish };
}
