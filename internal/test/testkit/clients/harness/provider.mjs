// A real identity provider: node-oidc-provider, which is certified by the OpenID Foundation. Programs get tokens by their client credentials.

import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { Provider } from 'oidc-provider';

const audience = 'https://llmgov.example';

// newKey is a private key as a provider keeps it.
const newKey = () => ({ ...generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'ES256', use: 'sig' });

// provide starts a provider. claims is by client what its tokens say.
export async function provide(claims, lasts = 600) {
  let keys = [newKey()];
  let handle;
  const asked = { keys: 0 };
  const server = createServer((request, response) => {
    if (request.url.startsWith('/jwks')) asked.keys++;
    handle(request, response);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const begin = () => {
    const provider = new Provider(issuer, {
      jwks: { keys },
      clients: Object.keys(claims).map((id) => ({ client_id: id, client_secret: `secret-${id}`, grant_types: ['client_credentials'], id_token_signed_response_alg: 'ES256', redirect_uris: [], response_types: [] })),
      extraTokenClaims: (_, token) => claims[token.clientId],
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => audience,
          getResourceServerInfo: (_, resource) => ({ scope: '', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: lasts, jwt: { sign: { alg: 'ES256' } } }),
        },
      },
    });
    handle = provider.callback();
  };
  begin();
  return {
    issuer,
    audience,
    asked,
    // published are the public keys.
    published: async () => (await (await fetch(`${issuer}/jwks`)).json()).keys,
    // rotate signs with a new key from now on. The one before is published still, and those before that are withdrawn.
    rotate() {
      keys = [newKey(), keys[0]];
      begin();
    },
    // token is one of a client.
    async token(client, resource = audience) {
      const answer = await fetch(`${issuer}/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from(`${client}:secret-${client}`).toString('base64')}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource }),
      });
      const said = await answer.json();
      if (!answer.ok) throw new Error(`the provider answers ${answer.status}: ${JSON.stringify(said)}`);
      return said.access_token;
    },
    stop: () => new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    }),
  };
}
