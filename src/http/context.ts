import type { Authenticator } from '../auth/bearer.ts';
import type { ResourceMetadata } from '../auth/resource-metadata.ts';
import type { EventLog } from '../core/events.ts';
import type { Declarations } from '../dispatch/declarations.ts';
import type { DispatchPorts } from '../dispatch/ports.ts';
import type { ServerStatus } from '../upstream/settings.ts';
import type { Admission } from './admission.ts';

/** Bounds of requests, as the operator set them. */
export interface RequestLimits {
  readonly bodyBytesMax: number;
  readonly turnBytesMax: number;
  readonly intentsMax: number;
  /** How long a POST is held for calls that are not done yet. */
  readonly waitMaxMs: number;
}

/** What a probe is told. */
export interface Readiness {
  readonly ready: boolean;
  /** What is still missing, in words; empty when ready. */
  readonly waitingFor: readonly string[];
}

/** All that the routes need; made once at start. */
export interface Service {
  readonly authenticator: Authenticator;
  readonly dispatch: DispatchPorts;
  readonly declarations: Declarations;
  readonly serverStatuses: () => readonly ServerStatus[];
  readonly readiness: () => Readiness;
  readonly admission: Admission;
  readonly limits: RequestLimits;
  /** Absent where no issuer makes tokens for the public URL; then there is nothing to describe. */
  readonly resourceMetadata: ResourceMetadata | undefined;
  readonly resourceMetadataUrl: string | undefined;
  /** Names under which the service may be addressed while it is bound to loopback (MT-15); undefined allows any. */
  readonly hostsAllowed: ReadonlySet<string> | undefined;
  /** The text of `openapi.yaml`. */
  readonly openapi: string;
  readonly log: EventLog;
}
