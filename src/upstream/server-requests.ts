type Message = Readonly<Record<string, unknown>>;

/** The notifications that callgate acts on; to look at log messages would only cost time. */
const heeded: ReadonlySet<string> = new Set([
  'notifications/tools/list_changed',
  'notifications/cancelled',
  'notifications/progress',
  'notifications/subscriptions/acknowledged',
]);

/**
 * What a server may ask of callgate at one time: so many requests as are not answered yet, and each id once. More is
 * not handed on, so that a flood of pings costs neither the work nor the memory of its answers.
 */
export class ServerRequests {
  readonly #unansweredMax: number;
  readonly #unanswered = new Set<unknown>();

  constructor(unansweredMax: number) {
    this.#unansweredMax = unansweredMax;
  }

  /** Whether a message with a method, a request or a notification, is handed on. */
  admit({ id, method, params }: Message): boolean {
    if (typeof method !== 'string') return false;
    if (id === undefined) {
      // The SDK's client gives no answer to a request that was taken back.
      if (method === 'notifications/cancelled') this.answered((params as Message | null)?.requestId);
      return heeded.has(method);
    }
    const isNew = (typeof id === 'string' || typeof id === 'number') && !this.#unanswered.has(id);
    if (!isNew || this.#unanswered.size >= this.#unansweredMax) return false;
    this.#unanswered.add(id);
    return true;
  }

  /** The answer to a request has left, or never will. */
  answered(id: unknown): void {
    this.#unanswered.delete(id);
  }
}
