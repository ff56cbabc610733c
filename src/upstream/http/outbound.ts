import { lookup as resolve } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector, request } from 'undici';
import { type AddressRules, isAddressAllowed, isMetadataHost } from '../../core/addresses.ts';
import { bareHost, isLoopbackHost } from '../../core/hosts.ts';
import { BodyText } from './http-body.ts';

/** Where connections may go, and how long one may take to come about. */
export interface OutboundOptions {
  readonly rules: AddressRules;
  readonly connectTimeoutMs: number;
}

/** Nothing was sent, because of where it would have gone. The message is for anybody and names no address. */
export class AddressRefused extends Error {}

/** What a request for metadata or a token may say. */
export interface OutboundRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | URLSearchParams | null | undefined;
  readonly signal?: AbortSignal | null | undefined;
}

/** Requests for metadata and tokens. */
export interface Outbound {
  /**
   * Leads only where the rules allow and follows no redirect; resolves with the whole body, of 64 KB at most.
   * @throws AddressRefused, HttpFault for a body over the limit, and what undici says about the network
   */
  fetch(url: string | URL, init?: OutboundRequest): Promise<Response>;
  close(): Promise<void>;
}

const bodyBytesMax = 65_536;

/**
 * Makes connections only to addresses that the rules allow. A name is resolved once, and the connection goes to the
 * very address that was looked at, so that a name that changes its mind gains nothing (DNS rebinding).
 */
export function outboundConnector({ rules, connectTimeoutMs }: OutboundOptions): buildConnector.connector {
  const connect = buildConnector({ timeout: connectTimeoutMs, lookup: lookupBy(rules) });
  return (target, callback) => {
    const refusal = hostRefusal(target.hostname, rules);
    if (refusal === undefined) connect(target, callback);
    else queueMicrotask(() => callback(refusal, null));
  };
}

/** Requests for metadata and tokens, to addresses that the rules allow. */
export function createOutbound(options: OutboundOptions): Outbound {
  const { connectTimeoutMs } = options;
  // A server that accepts a connection and then falls silent may take as long again.
  const dispatcher = new Agent({
    connect: outboundConnector(options),
    headersTimeout: connectTimeoutMs,
    bodyTimeout: connectTimeoutMs,
  });
  return {
    async fetch(url, { method = 'GET', headers = {}, body: sent = null, signal = null } = {}) {
      const target = new URL(url);
      const refusal = schemeRefusal(target, options.rules);
      if (refusal !== undefined) throw refusal;
      const isForm = sent instanceof URLSearchParams;
      const response = await request(target, {
        dispatcher,
        method,
        headers: {
          ...(isForm ? { 'content-type': 'application/x-www-form-urlencoded' } : {}),
          ...headers,
          'accept-encoding': 'identity',
        },
        body: isForm ? sent.toString() : sent,
        signal,
      });
      const { statusCode: status } = response;
      const body = new BodyText({}, bodyBytesMax);
      for await (const chunk of response.body) body.take(chunk);
      return new Response(bodiless.has(status) ? null : body.text(), {
        status,
        headers: headersOf(response.headers),
      });
    },
    close: () => dispatcher.destroy(),
  };
}

/** Statuses whose Response may have no body. */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);

function headersOf(headers: Readonly<Record<string, string | string[] | undefined>>): Headers {
  const copy = new Headers();
  for (const [name, value] of Object.entries(headers)) {
    for (const one of [value ?? []].flat()) copy.append(name, one);
  }
  return copy;
}

function schemeRefusal({ protocol, hostname }: URL, rules: AddressRules): AddressRefused | undefined {
  if (protocol === 'https:' || (protocol === 'http:' && rules.writtenBy === 'operator')) return undefined;
  if (protocol === 'http:' && rules.allowLoopback && isLoopbackHost(hostname)) return undefined;
  return new AddressRefused('its URL is not an https URL, which one that the operator did not write must be');
}

const addressRefused = (): AddressRefused =>
  new AddressRefused('its host leads to an address that callgate does not connect to');

function hostRefusal(host: string, rules: AddressRules): AddressRefused | undefined {
  const name = bareHost(host);
  // No name is looked up for an address, so that it has to be looked at here.
  const isAllowed = isIP(name) === 0 ? !isMetadataHost(name) : isAddressAllowed(name, name, rules);
  return isAllowed ? undefined : addressRefused();
}

/** Resolves a name to those of its addresses that the rules allow. */
const lookupBy =
  (rules: AddressRules): LookupFunction =>
  (host, options, callback) => {
    resolve(host, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, '', 0);
      const allowed = addresses.filter(({ address }) => isAddressAllowed(host, address, rules));
      const [first] = allowed;
      if (first === undefined) callback(addressRefused(), '', 0);
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
