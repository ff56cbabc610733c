/** The name or address of a host, however a URL or an address writes it: without brackets and final dot. */
export const bareHost = (host: string): string =>
  host
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();

/**
 * Whether a host is this machine whatever the network looks like. Names under `.localhost` are not: where the system
 * does not know them by itself, it asks the network (RFC 6761 6.3).
 */
export function isLoopbackHost(host: string): boolean {
  const name = bareHost(host);
  if (name === 'localhost' || /^127(\.\d{1,3}){3}$/.test(name)) return true;
  // Only a URL knows all spellings of ::1.
  return (
    name.includes(':') && URL.canParse(`http://[${name}]`) && new URL(`http://[${name}]`).host === '[::1]'
  );
}
