import type { EventLog } from '../core/events.ts';
import type { ToolResult } from '../core/outcome.ts';
import type { Redact } from '../core/redact.ts';
import type { Result } from '../core/result.ts';
import type { ToolCall } from '../dispatch/ports.ts';
import type { ConnectFailure } from './connect-failure.ts';
import type { Credentials } from './credentials.ts';
import type { Deadline } from './deadline.ts';
import type { CallFault, Resend } from './fault.ts';
import type { ToolList } from './tool-list.ts';

/** What a connection needs besides the settings of its server. */
export interface ConnectionDeps {
  readonly log: EventLog;
  readonly redact: Redact;
  /** What its requests over HTTP carry beside the configured headers; undefined where nothing is to be added. */
  readonly credentials: Credentials | undefined;
  /** The connection is over, or of no more use; told once, and never after `close`. The reason is for anybody. */
  readonly onLost: (reason: string) => void;
  /** The server's tools may have changed. */
  readonly onToolsChanged: () => void;
}

/** A failed call, and whether it may be sent once more. */
export type FailedCall = CallFault & { readonly resend: Resend };

/**
 * One link to one server, in whichever era of the protocol that server lives; nobody above knows which. It is opened
 * once, and not used again after it was lost.
 */
export interface Connection {
  /** What was agreed upon; undefined before `open`. */
  readonly protocolVersion: string | undefined;
  /** How the process of a stdio server ended; undefined while it lives, and for a server over HTTP. */
  readonly exitCode: number | undefined;
  /** The last lines that a stdio server wrote to stderr. */
  stderrTail(): readonly string[];
  /** Starts or reaches the server and agrees with it on the protocol. After a failure only `close` is left to do. */
  open(): Promise<ConnectFailure | undefined>;
  /**
   * Sends one `tools/call`, whose signal has not come yet. @throws never
   * @param attempts how often it has been sent, this time included
   */
  callTool(call: ToolCall, deadline: Deadline, attempts: number): Promise<Result<ToolResult, FailedCall>>;
  /** Reads the whole tool list. @throws what went wrong, for `listFailure` */
  listTools(): Promise<ToolList>;
  /** Closes the connection once nothing can be expected of it any more: calls over HTTP are left to their ends (O13). */
  retire(): Promise<void>;
  /** Ends the connection, its process or session, and all that still waits on it. */
  close(): Promise<void>;
}
