import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** Seconds; from the overhead of a cached call up to the longest tools. */
const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

export interface CallMeasure {
  /** Empty for a call that found no binding: names from outside never become labels. */
  readonly server: string;
  readonly tool: string;
  /** An outcome code, or `ok`. */
  readonly code: string;
  readonly durationMs: number;
  readonly upstreamMs: number;
}

/** The measurements of the service, in the Prometheus text format. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #calls = new Counter({
    name: 'callgate_calls_total',
    help: 'Finished calls by server, tool and outcome code ("ok" for success).',
    labelNames: ['server', 'tool', 'code'],
    registers: [this.#registry],
  });
  readonly #overhead = new Histogram({
    name: 'callgate_call_overhead_seconds',
    help: 'Time of a call spent in callgate itself.',
    buckets,
    registers: [this.#registry],
  });
  readonly #upstream = new Histogram({
    name: 'callgate_upstream_seconds',
    help: 'Time of a call spent waiting for its server, queueing and connecting included.',
    labelNames: ['server'],
    buckets,
    registers: [this.#registry],
  });

  constructor() {
    // Event loop delay, memory, CPU, open descriptors.
    collectDefaultMetrics({ register: this.#registry });
  }

  callFinished(measure: CallMeasure): void {
    this.#calls.inc({ server: measure.server, tool: measure.tool, code: measure.code });
    this.#overhead.observe(Math.max(0, measure.durationMs - measure.upstreamMs) / 1_000);
    if (measure.upstreamMs > 0)
      this.#upstream.observe({ server: measure.server }, measure.upstreamMs / 1_000);
  }

  /** Publishes the state of every server; `read` is asked at each scrape. */
  watchServers(read: () => readonly { alias: string; state: string }[]): void {
    new Gauge({
      name: 'callgate_server_state',
      help: '1 for the state that a server is in.',
      labelNames: ['server', 'state'],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { alias, state } of read()) this.set({ server: alias, state }, 1);
      },
    });
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }
}
