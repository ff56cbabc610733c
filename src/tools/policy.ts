/** What the operator says about one tool, with every default already applied. */
export interface ToolPolicy {
  /** AZ-6: comes from the configuration, else `write`; a server's annotations count only with `trustAnnotations`. */
  readonly class: 'read' | 'write' | undefined;
  /** Whether the tool may be run twice with the same arguments to the same effect (AZ-6, as the class). */
  readonly idempotent: boolean;
  /** `safe`: what cannot have run, or is classed read or idempotent, may be sent once more by itself. */
  readonly retry: 'never' | 'safe';
  /** From the call to its answer; a progress message begins it anew. */
  readonly timeoutMs: number;
  /** The same, whatever progress is told (RL-5). */
  readonly timeoutTotalMs: number;
  readonly outputCharsMax: number;
  readonly render: Render | undefined;
  readonly description: string | undefined;
}

/** What the configuration says about one tool; whether it is idempotent it may leave open. */
export type StatedPolicy = Omit<ToolPolicy, 'idempotent'> & { readonly idempotent: boolean | undefined };

/** How an output is written: a JSON envelope, or plain text. */
export type Render = 'envelope' | 'text';

/** What the operator says about the tools of one server. */
export interface ServerPolicy {
  readonly alias: string;
  readonly descriptionPrefix: string | undefined;
  readonly trustAnnotations: boolean;
  /** Whether each run has a connection of its own, so that a call without one cannot be sent. */
  readonly needsRun: boolean;
  /** Whether `include` and `exclude` let the tool with this raw name through. */
  readonly offers: (rawName: string) => boolean;
  /** The settings of the tool with this raw name: `tools` entries over the server's over the defaults. */
  readonly toolPolicy: (rawName: string) => StatedPolicy;
}
