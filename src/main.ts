import { readFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { createAuthenticator } from './auth/bearer.ts';
import { resourceMetadata } from './auth/resource-metadata.ts';
import type { Configuration } from './config/configuration.ts';
import { createRedactor } from './core/redact.ts';
import { Declarations } from './dispatch/declarations.ts';
import type { DispatchPorts } from './dispatch/ports.ts';
import { Admission } from './http/admission.ts';
import type { Readiness, Service } from './http/context.ts';
import { hostsAllowed } from './http/hosts-allowed.ts';
import { type Listener, listen, listenPlain } from './http/listener.ts';
import { newUuidV7 } from './ids.ts';
import { openLiveRegistry } from './live-registry.ts';
import type { Metrics } from './telemetry/metrics.ts';
import type { Telemetry } from './telemetry/telemetry.ts';

const metadataPath = '/.well-known/oauth-protected-resource';

/** A service that listens. */
export interface RunningService {
  readonly url: string;
  readonly metricsUrl: string | undefined;
  /** Settles when every server has listed its tools or failed once. */
  readonly firstListings: Promise<void>;
  readonly service: Service;
  /** Takes nothing new, lets what runs come to its end within `drainMs`, then ends everything (RL-8). */
  stop(): Promise<void>;
}

/** Starts callgate: it listens at once, while the servers are still coming. @throws what keeps it from listening */
export async function startService(
  configuration: Configuration,
  telemetry: Telemetry,
): Promise<RunningService> {
  const { log, metrics, observer } = telemetry;
  // Before anything is started that would have to be ended if it failed.
  const openapi = readFileSync(new URL('../openapi.yaml', import.meta.url), 'utf8');
  const redact = createRedactor(configuration.secrets);
  const { upstreams, current } = openLiveRegistry(configuration, { log, redact });
  const authenticator = createAuthenticator(configuration.auth, { log, nowMs: () => Date.now() });
  metrics.watchServers(() => upstreams.statuses());
  const admission = new Admission();

  const dispatch: DispatchPorts = {
    registry: current,
    upstream: upstreams,
    observer,
    clock: { monotonicMs: () => performance.now() },
    nextLoopTurn: () => setImmediate(),
    newId: () => newUuidV7(Date.now()),
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
    for (const listener of listeners) listener.closeNow();
    await Promise.all(listeners.map((listener) => listener.close()));
  };
  try {
    listeners.push(await listen(service, configuration.listen, configuration.limits));
    if (configuration.metrics !== undefined)
      listeners.push(await listenMetrics(metrics, configuration.metrics));
  } catch (error) {
    await end();
    throw error;
  }
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
      log.info('service.draining', { in_flight: admission.running });
      await admission.close(configuration.limits.drainMs);
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
