// What it costs to find out who the caller is, for a token that was verified before. A request cannot show this small a part of
// itself, so the authenticator is called directly.
import { createAuthenticator } from '../../dist/auth/bearer.js';
import { cpuUs } from '../cpu.mjs';
import { startIssuer } from '../issuer.mjs';
import { atMost, range } from '../report.mjs';
import { spread } from '../statistics.mjs';

const times = 200_000;

export async function measureToken(_folder, { rounds }) {
  const issuer = await startIssuer();
  const { settings, keySet } = issuer;
  const log = { info() {}, warn: console.error, error: console.error };
  const authenticator = createAuthenticator(
    {
      clockToleranceS: 30,
      globalWildcards: false,
      issuers: [
        {
          issuer: settings.issuer,
          audience: settings.audience,
          keys: { kind: 'inline', keys: keySet.keys },
          algorithms: settings.algorithms,
          profile: 'rfc9068',
          scopeClaims: ['scope'],
          scopeMap: {},
          grantsMax: undefined,
          lifetimeMaxS: 86_400,
        },
      ],
    },
    { log, nowMs: Date.now },
  );
  const header = `Bearer ${await issuer.token('tools:echo:*')}`;
  const first = await authenticator.authenticate(header);
  if (!first.ok) throw new Error(`the token was refused: ${JSON.stringify(first.error)}`);

  const costs = [];
  for (let round = 0; round < rounds; round += 1) {
    const before = cpuUs(process.pid);
    for (let time = 0; time < times; time += 1) {
      // A new string each time, as a request brings it: a string remembers its own hash.
      const actor = authenticator.authenticate(Buffer.from(header, 'latin1').toString('latin1'));
      if (actor !== first && actor.value !== first.value) throw new Error('a known token was verified again');
    }
    costs.push((cpuUs(process.pid) - before) / times);
  }
  authenticator.close();
  issuer.stop();
  return {
    title: 'Token',
    text: [
      `A known RS256 token, in a header of ${header.length} characters, costs ${range(spread(costs), 2)} us of CPU to authenticate.`,
    ],
    goals: [atMost('known token, CPU us', spread(costs), 3)],
  };
}
