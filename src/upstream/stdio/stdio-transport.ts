import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type {
  JSONRPCErrorResponse,
  JSONRPCMessage,
  JSONRPCResultResponse,
  RequestId,
} from '@modelcontextprotocol/sdk/types.js';
import type { EventFields, EventLog } from '../../core/events.ts';
import type { Redact } from '../../core/redact.ts';
import { edgeId, faultAnswer, wellFormedAnswer } from '../answer-faults.ts';
import { FloodWatch, floodReason } from '../flood-watch.ts';
import { LimitedLog } from '../limited-log.ts';
import { readFairly } from '../read-fairly.ts';
import { answerOf, type Params, type Receiver, type RequestLink, type Sender } from '../request-link.ts';
import { ServerRequests } from '../server-requests.ts';
import type { ServerSettings } from '../settings.ts';
import { shown } from '../shown.ts';
import { BatchWriter, NotSentError } from './batch-writer.ts';
import { type ChildGroup, type ChildSettings, type ExitStatus, spawnGroup } from './child-process.ts';
import { LineSplitter } from './line-splitter.ts';
import { StderrTail } from './stderr-tail.ts';

export interface StdioSettings extends ChildSettings {
  readonly alias: string;
  /** Bytes of one message from the server; a longer one fails its own call and nothing else. */
  readonly messageBytesMax: number;
  /** From the end of stdin to the kill of the group. */
  readonly stopGraceMs: number;
  readonly log: EventLog;
  readonly redact: Redact;
}

const noiseCharsMax = 200;
/** Requests of the server that wait for the answer of callgate. */
const unansweredMax = 100;
/** How long an ended child's pipes may stay open: what it wrote is in them already, only a stray heir holds them. */
const drainMsMax = 250;
const openBrace = 0x7b;

/**
 * A stdio connection: for the SDK's client, which keeps the protocol, and past it for the requests of a channel. This
 * class keeps the bytes and the processes. It survives noise and oversize messages, fails a call whose answer is
 * malformed at once, and leaves no process.
 */
export class StdioTransport implements Transport, RequestLink {
  onmessage: Transport['onmessage'];
  onerror: Transport['onerror'];
  onclose: Transport['onclose'];
  receiver: Receiver | undefined;

  readonly #settings: StdioSettings;
  readonly #log: LimitedLog;
  readonly #stderr: StderrTail;
  /** Requests of the client, which are few: those of a channel are in its own table. */
  readonly #pending = new Set<RequestId>();
  readonly #requests = new ServerRequests(unansweredMax);
  readonly #flood = new FloodWatch();
  /** The newest numeric id that was sent: every later one belongs to nothing. */
  #newestId = -1;
  #breach: string | undefined;
  #group: ChildGroup | undefined;
  #writer: BatchWriter | undefined;
  #starting: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #markClosed = (): void => {};
  readonly #closed = new Promise<void>((resolve) => {
    this.#markClosed = resolve;
  });
  #drainTimer: NodeJS.Timeout | undefined;
  #isFinished = false;

  constructor(settings: StdioSettings) {
    this.#settings = settings;
    this.#log = new LimitedLog(settings.log);
    this.#stderr = new StderrTail(settings.redact, (show) => {
      this.#noteUnasked();
      this.#log.write('info', 'server.stderr', () => ({ server: settings.alias, text: show() }));
    });
  }

  get pid(): number | undefined {
    return this.#group?.pid;
  }

  /** How the direct child ended; undefined while it lives. */
  get exitStatus(): ExitStatus | undefined {
    return this.#group?.exitStatus;
  }

  /** Why the connection is over, or will be, in words for anybody. */
  get endReason(): string {
    if (this.#breach !== undefined) return this.#breach;
    const code = this.exitStatus?.code ?? undefined;
    return code === undefined ? 'its process ended' : `its process ended (exit code ${code})`;
  }

  /** The last lines of stderr, redacted and printable. For operators, not for models. */
  stderrTail(): string[] {
    return this.#stderr.lines();
  }

  /** @throws SpawnError */
  start(): Promise<void> {
    if (this.#starting !== undefined || this.#closing !== undefined) {
      return Promise.reject(new Error('a StdioTransport can be started only once'));
    }
    this.#starting = this.#start();
    return this.#starting;
  }

  async #start(): Promise<void> {
    const group = await spawnGroup(this.#settings, this.#settings.log);
    this.#group = group;
    const { stdin, stdout, stderr } = group.child;
    this.#writer = new BatchWriter(stdin);
    const splitter = new LineSplitter(this.#settings.messageBytesMax, {
      onLine: (line) => this.#onLine(line),
      onOverflow: (head) => this.#guarded(() => this.#onOverflow(head)),
      onOversizeLine: ({ head, tail }) => this.#guarded(() => this.#failOversize(edgeId(head, tail))),
    });
    readFairly(stdout, (chunk) => splitter.push(chunk));
    stdout.on('end', () => {
      splitter.end();
      this.#onBroken('the server has closed its output');
    });
    // Read always: a full pipe would block the server in its own write (O12).
    readFairly(stderr, (chunk) => this.#guarded(() => this.#stderr.push(chunk)));
    stdin.on('close', () => this.#onBroken('the server has closed its input'));
    for (const stream of [stdin, stdout, stderr]) stream.on('error', (error) => this.onerror?.(error));
    group.child.on('exit', () => this.#onBroken('the server process has ended'));
    group.child.on('close', () => this.#finish());
  }

  /** Resolves when the message was handed to the pipe. @throws NotSentError when it was not and never will be. */
  send(message: JSONRPCMessage): Promise<void> {
    this.#notePending(message);
    const sent = new Promise<void>((resolve, reject) => {
      this.#write(message, { onSent: resolve, onUnsent: reject });
    });
    return 'method' in message ? sent : sent.finally(() => this.#requests.answered(message.id));
  }

  request(id: number, method: string, params: Params, sender: Sender): void {
    this.#newestId = id;
    this.#write({ jsonrpc: '2.0', id, method, params }, sender);
  }

  notify(method: string, params: Params): void {
    this.#write({ jsonrpc: '2.0', method, params }, undefined);
  }

  #write(message: JSONRPCMessage, sender: Sender | undefined): void {
    if (this.#writer === undefined) {
      sender?.onUnsent(new NotSentError('the server is not running'));
      return;
    }
    let text: string;
    try {
      text = `${JSON.stringify(message)}\n`;
    } catch (cause) {
      sender?.onUnsent(new NotSentError('the message cannot be written as JSON', { cause }));
      return;
    }
    this.#writer.write(text, sender);
  }

  /** Ends the whole process group within the grace; resolves when it is empty, or nothing more can be done. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#starting?.catch(() => {});
    if (this.#group === undefined) this.#finish();
    else await this.#endGroup(this.#group);
    await this.#closed;
  }

  async #endGroup(group: ChildGroup): Promise<void> {
    const { alias, stopGraceMs, log } = this.#settings;
    this.#writer?.end('the connection is being closed');
    await group.leave(stopGraceMs / 2);
    // Also when the direct child has left: a launcher must not leave the server that it started (MT-10).
    const isEmpty = await group.end(stopGraceMs / 2);
    if (!isEmpty) log.error('server.processes_left', { server: alias, process_group: group.pid });
    this.#finishSoon();
  }

  /** The first sign that a connection is over; the other signs follow at once unless an heir holds the pipes. */
  #onBroken(reason: string): void {
    this.#writer?.end(reason);
    if (this.#closing !== undefined) return;
    this.#finishSoon();
    void this.close();
  }

  #finishSoon(): void {
    if (this.#isFinished) return;
    // After a long stall of the event loop timers run before the pipes are read: they get one more turn.
    this.#drainTimer ??= setTimeout(() => setImmediate(() => this.#finish()), drainMsMax);
  }

  #finish(): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    clearTimeout(this.#drainTimer);
    this.#writer?.end('the connection is closed');
    this.#stderr.end();
    this.#log.flush({ server: this.#settings.alias });
    const child = this.#group?.child;
    for (const stream of [child?.stdin, child?.stdout, child?.stderr]) stream?.destroy();
    // Calls that were never written are to learn that, before onclose tells the others that their fate is unknown.
    queueMicrotask(() => {
      this.#markClosed();
      this.onclose?.();
    });
  }

  #notePending(message: JSONRPCMessage): void {
    if (!('method' in message)) return;
    if ('id' in message) {
      this.#pending.add(message.id);
      if (typeof message.id === 'number') this.#newestId = Math.max(this.#newestId, message.id);
    } else if (message.method === 'notifications/cancelled') {
      const { requestId } = message.params ?? {};
      if (isRequestId(requestId)) this.#pending.delete(requestId);
    }
  }

  #onLine(line: string): void {
    // Without `#guarded`, whose closure for each line would be the dearest part of it.
    try {
      this.#take(line, parseMessage(line));
    } catch (error) {
      this.#tellError(error);
    }
  }

  #take(line: string, value: Record<string, unknown> | undefined): void {
    if (value === undefined) {
      this.#noteUnasked();
      if (line.trim() !== '') this.#warn('server.stdout_noise', () => ({ text: this.#shown(line) }));
    } else if ('method' in value && !('result' in value) && !('error' in value)) {
      this.#noteUnasked();
      this.#takeUnasked(value);
    } else if (!this.#takeAnswer(value.id, value)) {
      this.#noteUnasked();
      this.#onStrayAnswer(value.id);
    }
  }

  #takeUnasked(value: Record<string, unknown>): void {
    if (!this.#requests.admit(value)) {
      if (value.id !== undefined)
        this.#warn('server.request_dropped', () => ({ method: this.#shown(nameOf(value.method)) }));
    } else if (this.receiver !== undefined && isProgress(value))
      this.receiver.takeProgress(value.params as Params | undefined);
    else this.onmessage?.(value as unknown as JSONRPCMessage);
  }

  /** False where nobody waits for it. */
  #takeAnswer(id: unknown, value: Readonly<Record<string, unknown>>): boolean {
    if (!isRequestId(id)) return false;
    const answer = wellFormedAnswer(id, value);
    const isAwaited = this.#handOver(id, answer ?? faultAnswer(id, 'malformed_answer'));
    if (isAwaited && answer === undefined) this.#warn('server.answer_malformed', () => ({ id }));
    return isAwaited;
  }

  #handOver(id: RequestId, answer: JSONRPCResultResponse | JSONRPCErrorResponse): boolean {
    if (this.#pending.delete(id)) {
      this.onmessage?.(answer);
      return true;
    }
    // Compared with its type: the SDK's client would take "7" for 7, and null for 0.
    return typeof id === 'number' && this.receiver?.takeAnswer(id, answerOf(answer)) === true;
  }

  #onStrayAnswer(id: unknown): void {
    // What was asked once and is asked no more is answered already, or was given up long ago.
    const isLate = typeof id === 'number' && id <= this.#newestId;
    this.#warn(isLate ? 'server.answer_late' : 'server.answer_unmatched', () => ({
      id: this.#shown(nameOf(id)),
    }));
  }

  #onOverflow(head: string): void {
    this.#noteUnasked();
    const id = edgeId(head);
    this.#warn('server.message_oversize', () => ({ bytes_max: this.#settings.messageBytesMax, id }));
    this.#failOversize(id);
  }

  #failOversize(id: number | undefined): void {
    if (id !== undefined) this.#handOver(id, faultAnswer(id, 'oversize'));
  }

  /** Counts a line that is no answer, and ends the connection when such lines never end. */
  #noteUnasked(): void {
    if (!this.#flood.note() || this.#breach !== undefined) return;
    this.#breach = floodReason;
    this.#onBroken(floodReason);
  }

  /** What a server sent must never end the process, whatever becomes of it here or in the receiver. */
  #guarded(handle: () => void): void {
    try {
      handle();
    } catch (error) {
      this.#tellError(error);
    }
  }

  #tellError(error: unknown): void {
    this.onerror?.(error instanceof Error ? error : new Error('a message could not be handled'));
  }

  #warn(event: string, fields: () => EventFields): void {
    this.#log.write('warn', event, () => ({ server: this.#settings.alias, ...fields() }));
  }

  #shown(text: string): string {
    return shown(text, this.#settings.redact, noiseCharsMax);
  }
}

const isProgress = ({ id, method }: Readonly<Record<string, unknown>>): boolean =>
  id === undefined && method === 'notifications/progress';

/** The transport of a stdio server; undefined for one that is reached over HTTP. */
export function stdioTransportOf(
  { alias, transport, resultBytesMax: messageBytesMax, stopGraceMs }: ServerSettings,
  { log, redact }: Pick<StdioSettings, 'log' | 'redact'>,
): StdioTransport | undefined {
  if (transport.kind !== 'stdio') return undefined;
  const { command, args, env, cwd } = transport;
  return new StdioTransport({ alias, command, args, env, cwd, messageBytesMax, stopGraceMs, log, redact });
}

const isRequestId = (id: unknown): id is RequestId => typeof id === 'number' || typeof id === 'string';

/** An id or a method as it stands in a log line: a value of another type can be of any size, and is only named. */
const nameOf = (value: unknown): string => (isRequestId(value) ? String(value) : `(${typeof value})`);

/** The JSON-RPC message in a line; undefined for anything else, which is noise. */
function parseMessage(line: string): Record<string, unknown> | undefined {
  // Parsing only what may be a message spares an exception for each ordinary log line.
  const text = line.charCodeAt(0) === openBrace ? line : line.trimStart();
  if (text.charCodeAt(0) !== openBrace || !text.includes('"jsonrpc"')) return undefined;
  try {
    const value = JSON.parse(text) as Record<string, unknown>;
    return value.jsonrpc === '2.0' ? value : undefined;
  } catch {
    return undefined;
  }
}
