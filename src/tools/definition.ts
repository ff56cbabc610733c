import type { JsonObject } from '../core/json.ts';

/** A tool as its server describes it, accepted by the tolerant reader of `upstream/`. Untouched but for its keys. */
export interface ToolDefinition {
  /** The server's own name, byte for byte. */
  readonly name: string;
  readonly title?: string;
  readonly description?: string;
  /** As received; whether it is a usable schema is the gate's question. */
  readonly inputSchema: unknown;
  readonly outputSchema?: unknown;
  /** Boolean hints only; anything else was dropped. Untrusted (MCP, tool annotations). */
  readonly annotations?: JsonObject;
}

/** A tool that is not offered, and why, in words for the operator. */
export interface WithheldTool {
  readonly tool: string;
  readonly reason: string;
}
