import type { ToolDefinition, WithheldTool } from '../tools/definition.ts';
import { type ConnectFailure, listFailure } from './connect-failure.ts';
import type { Connection } from './connection.ts';
import { ListPace } from './list-pace.ts';

/** A list is read again this often even if nobody says that it has changed: notices get lost (O27). */
const pollMs = 60_000;
/** A list that is slow to read takes no more than this part of the time. */
const pollRestFactor = 100;

/** What a watch needs from outside. */
export interface ToolListWatchDeps {
  readonly monotonicMs: () => number;
  /** The pause before the next try after so many failures in a row. */
  readonly gapMs: (failures: number) => number;
  /** Takes each good list, whole. */
  readonly onTools: (
    tools: readonly ToolDefinition[],
    refused: readonly WithheldTool[],
  ) => void | Promise<void>;
  /** A good list has been taken in. */
  readonly onListed: () => void;
  /** A list could not be read. */
  readonly onFailed: (connection: Connection, failure: ConnectFailure) => void;
}

/** One connection whose list is watched. */
interface Watched {
  readonly connection: Connection;
  isReading: boolean;
  /** Its tools may have changed since the list was asked for that is being read. */
  isOutdated: boolean;
  failures: number;
  timer: NodeJS.Timeout | undefined;
}

/**
 * Reads the tool list of a server whenever it may have changed: when a connection comes up, when the server says so,
 * and from time to time. The last good list stays until there is another one.
 */
export class ToolListWatch {
  readonly #deps: ToolListWatchDeps;
  readonly #pace = new ListPace();
  #watched: Watched | undefined;
  #hasListed = false;
  #isCurrent = false;

  constructor(deps: ToolListWatchDeps) {
    this.#deps = deps;
  }

  /** Whether a list has ever been read. */
  get hasListed(): boolean {
    return this.#hasListed;
  }

  /** Whether the last list came from the connection that is watched now, and no later try to read it failed. */
  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  /** Reads the list of a new connection, and follows it from now on. */
  watch(connection: Connection): void {
    this.unwatch();
    this.#watched = { connection, isReading: false, isOutdated: false, failures: 0, timer: undefined };
    void this.#read(this.#watched);
  }

  /** The connection is gone. */
  unwatch(): void {
    clearTimeout(this.#watched?.timer);
    this.#watched = undefined;
    this.#isCurrent = false;
  }

  /** The tools may have changed; a burst of such notices is answered by one look or two. */
  noticed(): void {
    const watched = this.#watched;
    if (watched === undefined || watched.isOutdated) return;
    watched.isOutdated = true;
    if (!watched.isReading) this.#readAtPace(watched);
  }

  #readAtPace(watched: Watched): void {
    this.#readIn(this.#pace.waitMs(this.#deps.monotonicMs()), watched);
  }

  #readIn(waitMs: number, watched: Watched): void {
    clearTimeout(watched.timer);
    watched.timer = setTimeout(() => void this.#read(watched), waitMs);
  }

  async #read(watched: Watched): Promise<void> {
    const startedMs = this.#deps.monotonicMs();
    const isNoticed = watched.isOutdated;
    watched.isReading = true;
    watched.isOutdated = false;
    const failure = await this.#readOnce(watched);
    watched.isReading = false;
    if (this.#watched !== watched) return;
    const endedMs = this.#deps.monotonicMs();
    if (isNoticed) this.#pace.looked(startedMs, endedMs);
    if (failure !== undefined) {
      this.#isCurrent = false;
      watched.failures++;
      this.#deps.onFailed(watched.connection, failure);
      // Whoever was told may have given up the connection.
      if (this.#watched === watched) this.#readIn(this.#deps.gapMs(watched.failures), watched);
    } else if (watched.isOutdated) this.#readAtPace(watched);
    else this.#readIn(Math.max(pollMs, pollRestFactor * (endedMs - startedMs)), watched);
  }

  async #readOnce(watched: Watched): Promise<ConnectFailure | undefined> {
    try {
      const { tools, refused } = await watched.connection.listTools();
      if (this.#watched !== watched) return undefined;
      // Listed is what can be called: before its tools are taken in, a call would find no such name.
      await this.#deps.onTools(tools, refused);
      if (this.#watched !== watched) return undefined;
      this.#hasListed = true;
      this.#isCurrent = true;
      watched.failures = 0;
      this.#deps.onListed();
      return undefined;
    } catch (error) {
      return listFailure(error);
    }
  }
}
