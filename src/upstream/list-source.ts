import { hash } from 'node:crypto';
import type { ServerSettings } from './settings.ts';

/**
 * Says where a server's tool list comes from, in a hash: a list is only good for the server that gave it, not for
 * another one that has got the same alias. Credentials are no part of it, since they change.
 */
export function listSource({ transport }: ServerSettings): string {
  const place =
    transport.kind === 'stdio' ? [transport.command, transport.args, transport.cwd] : [transport.url];
  return hash('sha256', JSON.stringify([transport.kind, ...place]), 'base64url');
}
