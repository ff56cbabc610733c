import { SpawnError, type SpawnFault } from './child-process.ts';
import { type HttpFault, httpFault, rpcErrorCode, unsupportedVersionCode } from './fault.ts';
import type { ServerStage } from './settings.ts';
import { ListFault } from './tool-list.ts';

/** Why a try to reach a server came to nothing. */
export interface ConnectFailure {
  readonly stage: ServerStage;
  /** In words for anybody, models included: no server text, no address, no path. */
  readonly reason: string;
  /** More, for operators; may hold foreign text and paths. */
  readonly detail?: string;
}

/** What is known about a handshake that failed. */
export interface HandshakeFacts {
  readonly isConnectionOpen: boolean;
  readonly exitCode: number | undefined;
}

const spawnReasons: Readonly<Record<SpawnFault, string>> = {
  command_missing: 'its command was not found',
  command_not_executable: 'its command may not be executed',
  cwd_missing: 'its working folder does not exist or may not be entered',
  spawn_failed: 'its process could not be started',
};

/** The server did not finish the handshake within its limit. */
export const connectTimeout = (timeoutMs: number): ConnectFailure => ({
  stage: 'initialize',
  reason: `it did not answer initialize within ${timeoutMs} ms`,
});

/** Says why a handshake failed. */
export function connectFailure(error: unknown, facts: HandshakeFacts): ConnectFailure {
  if (error instanceof SpawnError) {
    return { stage: 'spawn', reason: spawnReasons[error.fault], detail: error.message };
  }
  const http = httpFault(error);
  const code = http === undefined ? rpcErrorCode(error) : http.facts.rpcCode;
  if (code === unsupportedVersionCode) {
    return {
      stage: 'initialize',
      reason: 'it speaks only MCP protocol 2026-07-28, which this version of callgate does not support yet',
    };
  }
  if (http !== undefined) return { stage: stageOf(http), reason: http.message };
  if (!facts.isConnectionOpen) {
    const exit = facts.exitCode === undefined ? '' : ` (exit code ${facts.exitCode})`;
    return { stage: 'initialize', reason: `its process ended before it had answered initialize${exit}` };
  }
  const reason =
    code === undefined
      ? 'its answer to initialize is not one of a protocol version that is spoken here'
      : `it refused initialize (JSON-RPC code ${code})`;
  return { stage: 'initialize', reason, detail: detailOf(error) };
}

const stageOf = ({ kind }: HttpFault): ServerStage =>
  kind === 'unreachable' || kind === 'refused' ? 'connect' : 'initialize';

/** Says why a tool list could not be read. */
export function listFailure(error: unknown): ConnectFailure {
  const known = error instanceof ListFault ? error : httpFault(error);
  if (known !== undefined) return { stage: 'list', reason: known.message };
  const code = rpcErrorCode(error);
  const reason = `it could not list its tools${code === undefined ? '' : ` (JSON-RPC code ${code})`}`;
  return { stage: 'list', reason, detail: detailOf(error) };
}

const detailOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
