import { readFileSync } from 'node:fs';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { createAuthenticator } from './auth/bearer.ts';
import { resourceMetadata } from './auth/resource-metadata.ts';
import type { Configuration } from './config/configuration.ts';
import { createRedactor } from './core/redact.ts';
import { CallsInFlight, cancelAsked } from './dispatch/calls-in-flight.ts';
import { Declarations } from './dispatch/declarations.ts';
import type { DispatchPorts } from './dispatch/ports.ts';
import { Admission } from './http/admission.ts';
import type { Readiness, Service } from './http/context.ts';
import { hostsAllowed } from './http/hosts-allowed.ts';
import { type Listener, listen, listenPlain } from './http/listener.ts';
import { newUuidV7 } from './ids.ts';
import { inSlices } from './in-slices.ts';
import { openLedger } from './ledger/open.ts';
import { openLiveRegistry } from './live-registry.ts';
import type { Metrics } from './telemetry/metrics.ts';
import type { Telemetry } from './telemetry/telemetry.ts';

/** What cancelled calls may take to be written down and answered, after the time for draining is over. */
const cancelMsMax = 5_000;
const metadataPath = '/.well-known/oauth-protected-resource';

/** A service that listens. */
export interface RunningService {
  readonly url: string;
  readonly metricsUrl: string | undefined;
  /** Settles when every server has listed its tools or failed once. */
  readonly firstListings: Promise<void>;
  readonly service: Service;
  /** Takes nothing new, lets what runs come to its end within `drainMs`, cancels the rest, ends everything (RL-8). */
  stop(): Promise<void>;
}

/**
 * Starts callgate: it listens at once, while the servers are still coming.
 * @throws what keeps it from listening; `LedgerRefused` where the ledger must not be used
 */
export async function startService(
  configuration: Configuration,
  telemetry: Telemetry,
): Promise<RunningService> {
  const { log, metrics, observer } = telemetry;
  // Before anything is started that would have to be ended if it failed.
  const openapi = readFileSync(new URL('../openapi.yaml', import.meta.url), 'utf8');
  const redact = createRedactor(configuration.secrets);
  const inFlight = new CallsInFlight();
  const nowMs = (): number => Date.now();
  const authenticator = createAuthenticator(configuration.auth, { log, nowMs });
  // First of all that is opened: what another process holds, or left behind, is to be known before any server starts.
  const ledger = await openLedger(configuration.ledger, {
    nowMs,
    log,
    isHeld: (id) => inFlight.get(id) !== undefined,
    onCancelRequested: (id) => inFlight.get(id)?.cancel(cancelAsked),
  });
  const stored = await ledger.loadToolLists().catch((error: unknown) => {
    log.warn('tools.not_restored', { reason: error instanceof Error ? error.message : String(error) });
    return [];
  });
  const { upstreams, current } = openLiveRegistry(configuration, stored, { log, redact, store: ledger });
  metrics.watchServers(() => upstreams.statuses());
  metrics.watchLedger({ inFlight: () => inFlight.size, isUsable: () => ledger.fault() === undefined });
  const admission = new Admission();

  const dispatch: DispatchPorts = {
    registry: current,
    upstream: upstreams,
    ledger,
    inFlight,
    observer,
    clock: { monotonicMs: () => performance.now(), nowMs },
    pause: (ms) => sleep(ms),
    nextLoopTurn: () => setImmediate(),
    inSlices: (steps) => inSlices(steps),
    newId: () => newUuidV7(nowMs()),
    hideForbidden: configuration.hideForbidden,
    aliases: [...configuration.servers, ...configuration.faultyServers].map(({ alias }) => alias),
  };

  const listings = { settled: false };
  const ready = setTimeout(() => markListed(), configuration.limits.readyAfterMs);
  const markListed = (): void => {
    clearTimeout(ready);
    listings.settled = true;
  };
  const firstListings = upstreams.firstListings.then(markListed);

  const readiness = (): Readiness => {
    const waitingFor = [
      ...(admission.isClosed ? ['the end: callgate is shutting down'] : []),
      ...(ledger.fault() === undefined ? [] : ['the ledger']),
      ...(authenticator.isUsable() ? [] : ['the keys of a token issuer']),
      ...(listings.settled ? [] : ['the first tool lists of the servers']),
    ];
    return { ready: waitingFor.length === 0, waitingFor };
  };

  const { publicUrl } = configuration;
  const metadata =
    publicUrl === undefined ? undefined : resourceMetadata(publicUrl, configuration.auth.issuers);
  const service: Service = {
    authenticator,
    dispatch,
    declarations: new Declarations(dispatch),
    serverStatuses: () => upstreams.statuses(),
    readiness,
    admission,
    limits: configuration.limits,
    resourceMetadata: metadata,
    resourceMetadataUrl:
      metadata === undefined || publicUrl === undefined ? undefined : new URL(metadataPath, publicUrl).href,
    hostsAllowed: hostsAllowed(configuration.listen.host, publicUrl),
    openapi,
    log,
  };

  const listeners: Listener[] = [];
  const end = async (): Promise<void> => {
    clearTimeout(ready);
    authenticator.close();
    await upstreams.stop();
    await ledger.close();
    for (const listener of listeners) listener.closeNow();
    await Promise.all(listeners.map((listener) => listener.close()));
  };
  try {
    // A restart takes no tool away from anybody: what was known before is known when the first caller comes.
    await upstreams.restored;
    listeners.push(await listen(service, configuration.listen, configuration.limits));
    if (configuration.metrics !== undefined)
      listeners.push(await listenMetrics(metrics, configuration.metrics));
  } catch (error) {
    await end();
    throw error;
  }
  void upstreams.start();
  const [url = '', metricsUrl] = listeners.map((listener) => listener.url);
  log.info('service.listening', { url, metrics_url: metricsUrl });
  for (const warning of configuration.warnings) log.warn('configuration.warning', { warning });
  for (const { alias, reason } of configuration.faultyServers)
    log.error('server.faulty', { server: alias, reason });

  return {
    url,
    metricsUrl,
    firstListings,
    service,
    stop: async () => {
      log.info('service.draining', { in_flight: inFlight.size });
      const { drainMs } = configuration.limits;
      const drainedByMs = performance.now() + drainMs;
      await admission.close(drainMs);
      // A call whose caller has left, or was told to come back, is in flight without a request.
      await inFlight.idle(Math.max(0, drainedByMs - performance.now()));
      inFlight.cancelAll('callgate was shut down');
      await inFlight.idle(cancelMsMax);
      await end();
      log.info('service.stopped', {});
      await telemetry.close();
    },
  };
}

const listenMetrics = (metrics: Metrics, address: { host: string; port: number }): Promise<Listener> =>
  listenPlain((request, response) => {
    if (request.url !== '/metrics' || request.method !== 'GET') {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('only GET /metrics is here\n');
      return;
    }
    metrics.text().then(
      (text) => response.writeHead(200, { 'content-type': metrics.contentType }).end(text),
      () => response.writeHead(500, { 'content-type': 'text/plain' }).end('the metrics could not be read\n'),
    );
  }, address);
