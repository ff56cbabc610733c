import { CredentialsRefused } from './credentials.ts';
import {
  type HttpFault,
  headerMismatchCode,
  httpFault,
  rpcErrorCode,
  unsupportedVersionCode,
} from './fault.ts';
import type { ServerStage } from './settings.ts';
import { NotSentError } from './stdio/batch-writer.ts';
import { SpawnError, type SpawnFault } from './stdio/child-process.ts';
import { ListFault } from './tool-list.ts';

/** Why a try to reach a server came to nothing. */
export interface ConnectFailure {
  readonly stage: ServerStage;
  /** In words for anybody, models included: no server text, no address, no path. */
  readonly reason: string;
  /** More, for operators; may hold foreign text and paths. */
  readonly detail?: string;
  /** Its answer to `initialize` is that of a server which lives in the era after that (2026-07-28). */
  readonly needsModern?: true;
}

/** The request that a handshake consists of, in either era. */
export type Opening = 'initialize' | 'server/discover';

/** What is known about a handshake that failed. */
export interface HandshakeFacts {
  readonly isConnectionOpen: boolean;
  readonly exitCode: number | undefined;
  /** `initialize` where nothing else is said. */
  readonly opening?: Opening;
}

const spawnReasons: Readonly<Record<SpawnFault, string>> = {
  command_missing: 'its command was not found',
  command_not_executable: 'its command may not be executed',
  cwd_missing: 'its working folder does not exist or may not be entered',
  spawn_failed: 'its process could not be started',
};

/** The server did not finish the handshake within its limit. */
export const connectTimeout = (timeoutMs: number, opening: Opening = 'initialize'): ConnectFailure => ({
  stage: 'initialize',
  reason: `it did not answer ${opening} within ${timeoutMs} ms`,
});

/**
 * Codes with which servers of the later era answer `initialize`: as the revision says, as a method that they do not
 * know, or over the headers that a request of that era has.
 */
const modernCodes: ReadonlySet<number | undefined> = new Set([
  unsupportedVersionCode,
  -32601,
  headerMismatchCode,
]);

/** Says why a handshake failed. */
export function connectFailure(error: unknown, facts: HandshakeFacts): ConnectFailure {
  if (error instanceof SpawnError) {
    return { stage: 'spawn', reason: spawnReasons[error.fault], detail: error.message };
  }
  const { opening = 'initialize' } = facts;
  const http = httpFault(error);
  const code = http === undefined ? rpcErrorCode(error) : http.facts.rpcCode;
  const modern = opening === 'initialize' ? ({ needsModern: true } as const) : {};
  const needsModern = modernCodes.has(code) ? modern : {};
  if (code === unsupportedVersionCode) {
    const reason =
      opening === 'initialize'
        ? 'it speaks only MCP protocol 2026-07-28 or later'
        : 'it speaks no version of the MCP protocol that is spoken here';
    return { stage: 'initialize', reason, ...modern };
  }
  if (http?.cause instanceof CredentialsRefused) return withoutCredentials(http.cause);
  if (http !== undefined) return { stage: stageOf(http), reason: http.message, ...needsModern };
  // It may have answered and ended before it could be told so: that says nothing about its era.
  if (!facts.isConnectionOpen || error instanceof NotSentError) {
    const exit = facts.exitCode === undefined ? '' : ` (exit code ${facts.exitCode})`;
    return { stage: 'initialize', reason: `its process ended before it had answered ${opening}${exit}` };
  }
  const detail = detailOf(error);
  if (code !== undefined) {
    const reason = `it refused ${opening} (JSON-RPC code ${code})`;
    return { stage: 'initialize', reason, detail, ...needsModern };
  }
  // Some servers of the later era answer `initialize` after all, and name their own version.
  const reason = `its answer to ${opening} is not one of a protocol version that is spoken here`;
  return { stage: 'initialize', reason, detail, ...modern };
}

const stageOf = ({ kind }: HttpFault): ServerStage =>
  kind === 'unreachable' || kind === 'refused' ? 'connect' : 'initialize';

function withoutCredentials({ message, detail }: CredentialsRefused): ConnectFailure {
  return { stage: 'credentials', reason: message, ...(detail === undefined ? {} : { detail }) };
}

/** Says why a tool list could not be read. */
export function listFailure(error: unknown): ConnectFailure {
  const known = error instanceof ListFault ? error : httpFault(error);
  if (known?.cause instanceof CredentialsRefused) return withoutCredentials(known.cause);
  if (known !== undefined) return { stage: 'list', reason: known.message };
  const code = rpcErrorCode(error);
  const reason = `it could not list its tools${code === undefined ? '' : ` (JSON-RPC code ${code})`}`;
  return { stage: 'list', reason, detail: detailOf(error) };
}

/** More than is ever shown of a text, which is cut there with regard to secrets. */
const detailCharsMax = 16_384;

/** The text of an error as a copy: it is kept for as long as the failure lasts, and a server's text may be large. */
function detailOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return Buffer.from(text.slice(0, detailCharsMax)).toString();
}
