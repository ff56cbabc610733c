import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { CallObserver, FinishedCall, ReplayedCall } from '../dispatch/ports.ts';

/** Seconds; from the overhead of a cached call up to the longest tools. */
const buckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

/** What the ledger could not do, for whom, and why. */
export type LedgerFailure = Parameters<CallObserver['ledgerFailed']>[0];

/** The measurements of the service, in the Prometheus text format. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #calls = new Counter({
    name: 'callgate_calls_total',
    help: 'Finished calls by server, tool and outcome code ("ok" for success).',
    labelNames: ['server', 'tool', 'code'],
    registers: [this.#registry],
  });
  readonly #replayed = new Counter({
    name: 'callgate_calls_replayed_total',
    help: 'Calls posted again and answered without another run, by the status they were answered with.',
    labelNames: ['status'],
    registers: [this.#registry],
  });
  readonly #ledgerFailures = new Counter({
    name: 'callgate_ledger_failures_total',
    help: 'What the ledger could not do, by what it was asked for.',
    labelNames: ['during'],
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
    help: 'Time of a call on its way to the server and back, queueing and connecting included.',
    labelNames: ['server'],
    buckets,
    registers: [this.#registry],
  });

  // With its labels looked up once, a measurement costs a tenth.
  readonly #countOf = memoised((server, tool, code) => this.#calls.labels(server, tool, code));
  readonly #upstreamOf = memoised((server) => this.#upstream.labels(server));

  constructor() {
    // Event loop delay, memory, CPU, open descriptors.
    collectDefaultMetrics({ register: this.#registry });
  }

  callFinished({ settled, binding, upstreamMs }: FinishedCall): void {
    // Names from outside never become labels: a call that found no binding has none.
    this.#countOf(binding?.alias ?? '', binding?.tool ?? '', settled.outcome.error?.code ?? 'ok').inc();
    this.#overhead.observe(Math.max(0, settled.durationMs - upstreamMs) / 1_000);
    if (binding !== undefined && upstreamMs > 0) this.#upstreamOf(binding.alias).observe(upstreamMs / 1_000);
  }

  callReplayed({ settled }: ReplayedCall): void {
    this.#replayed.inc({ status: settled.outcome.status });
  }

  ledgerFailed({ during }: LedgerFailure): void {
    this.#ledgerFailures.inc({ during });
  }

  /** Publishes how many calls are on their way, and whether they can be recorded; both are asked at each scrape. */
  watchLedger({ inFlight, isUsable }: { inFlight: () => number; isUsable: () => boolean }): void {
    this.#watch(
      'callgate_calls_in_flight',
      'Calls that were taken and have not come to their end.',
      inFlight,
    );
    this.#watch('callgate_ledger_usable', '1 while the ledger can be written, else 0.', () =>
      Number(isUsable()),
    );
  }

  #watch(name: string, help: string, read: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.set(read());
      },
    });
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

function memoised<T>(make: (...labels: string[]) => T): (...labels: string[]) => T {
  const made = new Map<string, T>();
  return (...labels) => {
    const key = labels.join('\0');
    let value = made.get(key);
    if (value === undefined) {
      value = make(...labels);
      made.set(key, value);
    }
    return value;
  };
}
