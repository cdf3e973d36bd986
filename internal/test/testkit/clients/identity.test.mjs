// Tokens of a real identity provider in place of keys. LLMGOV is the binary.

import assert from 'node:assert/strict';
import { createHmac, createPublicKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { start } from './harness/gateway.mjs';
import { provide } from './harness/provider.mjs';

const admin = 'admin-token-0123456789';
const tenants = { acme: {}, beta: {} };

let provider;
let brief; // whose tokens last for seconds
let gateway;

before(async () => {
  provider = await provide({ app: { org: 'acme' }, stranger: { org: 'nobody' }, ops: { org: 'beta', groups: ['everybody', 'llm-ops'] } });
  brief = await provide({ app: { org: 'acme' } }, 3);
  gateway = await start(process.env.LLMGOV, tenants, undefined, {
    identity: {
      issuers: [provider, brief].map((p) => ({ issuer: p.issuer, audience: p.audience, algorithms: ['ES256', 'RS256'], leeway: '0s' })), tenant: '{org}',
    },
    admin: { token: admin, roles: [{ name: 'on-call', role: 'operate', group: 'llm-ops', issuer: provider.issuer }] },
  });
});
after(async () => {
  await gateway?.stop();
  await provider?.stop();
  await brief?.stop();
});

// call is the status of a call of a model.
async function call(token) {
  const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello' }] }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const claimsOf = (token) => JSON.parse(Buffer.from(token.split('.')[1], 'base64url'));

// forged is a token with claims that somebody else has signed.
function forged(head, claims, signature) {
  const text = `${part(head)}.${part(claims)}`;
  return `${text}.${signature(text)}`;
}

test('a token opens what its claims name, and no more', async () => {
  const token = await provider.token('app');
  assert.equal(await call(token), 200);
  assert.equal(await call(await provider.token('stranger')), 401);
  assert.equal(await call(await provider.token('app', 'https://another.example')), 401);
  assert.equal(await call(`${token.slice(0, -4)}AAAA`), 401);
  const [head, , signature] = token.split('.');
  assert.equal(await call(`${head}.${part({ ...claimsOf(token), org: 'beta' })}.${signature}`), 401);
});

test('a token that is over begins no call', async () => {
  const token = await brief.token('app');
  assert.equal(await call(token), 200);
  await sleep(claimsOf(token).exp * 1000 - Date.now() + 100);
  assert.equal(await call(token), 401);
});

test('no other algorithm than that of the keys counts', async () => {
  const token = await provider.token('app');
  const claims = claimsOf(token);
  const [key] = await provider.published();
  const pem = createPublicKey({ key, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
  for (const secret of [pem, JSON.stringify(key), key.x, '']) {
    for (const alg of ['HS256', 'ES256']) {
      assert.equal(await call(forged({ alg, kid: key.kid, typ: 'at+jwt' }, claims, (text) => createHmac('sha256', secret).update(text).digest('base64url'))), 401);
    }
  }
  for (const alg of ['none', 'None', '']) assert.equal(await call(forged({ alg, kid: key.kid }, claims, () => '')), 401);
  const own = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = own.publicKey.export({ format: 'jwk' });
  const byOwn = (text) => sign('sha256', Buffer.from(text), own.privateKey).toString('base64url');
  for (const head of [{ alg: 'RS256', kid: key.kid }, { alg: 'RS256', jwk }, { alg: 'RS256', jku: `${provider.issuer}/jwks`, kid: key.kid }]) {
    assert.equal(await call(forged(head, claims, byOwn)), 401);
  }
});

test('keys are rotated under load without a refused call', async () => {
  const statuses = {};
  let over = false;
  const caller = async () => {
    while (!over) {
      const status = await call(await provider.token('app'));
      statuses[status] = (statuses[status] ?? 0) + 1;
      await sleep(100); // fewer calls than the pool's 165 a second, however fast the machine is
    }
  };
  const callers = Array.from({ length: 8 }, caller);
  for (let i = 0; i < 4; i++) {
    await sleep(1500);
    provider.rotate();
  }
  await sleep(1500);
  over = true;
  await Promise.all(callers);
  assert.deepEqual(Object.keys(statuses), ['200']);
  assert.ok(statuses[200] > 50, `only ${statuses[200]} calls`);
});

test('tokens by unknown keys have the provider asked once a second at most, and hold up nobody', async () => {
  const known = await provider.token('app');
  assert.equal(await call(known), 200);
  const own = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const before = provider.asked.keys;
  const began = Date.now();
  const statuses = new Set();
  const stranger = async () => {
    while (Date.now() - began < 3000) {
      statuses.add(await call(forged({ alg: 'ES256', kid: randomUUID() }, { ...claimsOf(known), jti: randomUUID() }, (text) => (
        sign('sha256', Buffer.from(text), { key: own.privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')
      ))));
    }
  };
  const strangers = Array.from({ length: 20 }, stranger);
  assert.equal(await call(known), 200);
  await Promise.all(strangers);
  assert.deepEqual(statuses, new Set([401]));
  const most = 2 + (Date.now() - began) / 1000;
  assert.ok(provider.asked.keys - before <= most, `asked ${provider.asked.keys - before} times, ${most} at most`);
  assert.equal(await call(await provider.token('app')), 200);
});

test('a group of a token has a role on the admin side', async () => {
  const ask = async (token, method, path) => (await fetch(`${gateway.admin}${path}`, { method, headers: { authorization: `Bearer ${token}` } })).status;
  const ops = await provider.token('ops');
  assert.equal(await ask(ops, 'GET', '/api/v1/snapshot'), 200);
  assert.equal(await ask(ops, 'POST', '/api/v1/keys'), 403);
  assert.equal(await ask(await provider.token('app'), 'GET', '/api/v1/snapshot'), 403); // known, and without a role
  assert.equal(await ask(await brief.token('app', 'https://another.example'), 'GET', '/api/v1/snapshot'), 401);
});

test('gateway and model server end well, and showed no key', async () => {
  assert.deepEqual(await gateway.stop(), []);
});
