/** A parsed right: `tools:<alias>:<tool | prefix* | *>[:read|:write]` (design section 10, AZ-4). */
export interface Grant {
  /** A configured alias, or `*`. */
  readonly alias: string;
  /** A tool name, a prefix followed by `*`, or `*`. */
  readonly tool: string;
  /** Absent: any class. */
  readonly class?: 'read' | 'write';
}
