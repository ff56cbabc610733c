/** What the operator says about one tool, with every default already applied. */
export interface ToolPolicy {
  /** AZ-6: comes from the configuration, else `write`; a server's annotations count only with `trustAnnotations`. */
  readonly class: 'read' | 'write' | undefined;
  readonly timeoutMs: number;
  readonly outputCharsMax: number;
  readonly render: Render | undefined;
  readonly description: string | undefined;
}

/** How an output is written: a JSON envelope, or plain text. */
export type Render = 'envelope' | 'text';

/** What the operator says about the tools of one server. */
export interface ServerPolicy {
  readonly alias: string;
  readonly descriptionPrefix: string | undefined;
  readonly trustAnnotations: boolean;
  /** Whether `include` and `exclude` let the tool with this raw name through. */
  readonly offers: (rawName: string) => boolean;
  /** The settings of the tool with this raw name: `tools` entries over the server's over the defaults. */
  readonly toolPolicy: (rawName: string) => ToolPolicy;
}
