// A small identity provider on loopback: one RS256 key, its key set over HTTP, access tokens as RFC 9068 has them.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';

const audience = 'https://callgate.bench.invalid';

export async function startIssuer() {
  const { privateKey, publicKey } = await generateKeyPair('RS256');
  const keySet = { keys: [{ ...(await exportJWK(publicKey)), kid: 'bench', alg: 'RS256', use: 'sig' }] };
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(keySet));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${server.address().port}/`;
  return {
    /** The entry for `auth.issuers` of callgate's configuration. */
    settings: { issuer, audience, jwksUri: `${issuer}jwks`, algorithms: ['RS256'], allowHttp: true },
    keySet,
    token: (scope) =>
      new SignJWT({ scope, client_id: 'bench' })
        .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: 'bench' })
        .setIssuer(issuer)
        .setAudience(audience)
        .setSubject('bench-user')
        .setJti(randomUUID())
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey),
    stop: () => server.close(),
  };
}
