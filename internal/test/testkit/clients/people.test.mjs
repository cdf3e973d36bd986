// docs/configuration.md's recipe for people who use the admin side: a real oauth2-proxy in front of it. OAUTH2_PROXY and LLMGOV are the binaries.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { Process, start } from './harness/gateway.mjs';
import { provide } from './harness/provider.mjs';

const password = 'a-password-that-must-not-leak';

let provider, gateway, proxy, dir;
let url;

// free is a port that nobody listens at: oauth2-proxy does not say which one it was given.
const free = () => new Promise((resolve) => {
  const s = createServer().listen(0, '127.0.0.1', () => {
    const { port } = s.address();
    s.close(() => resolve(port));
  });
});

before(async () => {
  provider = await provide({ proxy: {} });
  gateway = await start(process.env.LLMGOV, { acme: {} }, undefined, {
    admin: {
      token: 'admin-token-0123456789', proxy: { from: ['127.0.0.1/32'] },
      roles: [{ name: 'on-call', role: 'operate', group: 'llm-ops', issuer: 'proxy' }],
    },
  });
  dir = mkdtempSync(join(tmpdir(), 'llmgov-people-'));
  const users = join(dir, 'users');
  writeFileSync(users, `ann:{SHA}${createHash('sha1').update(password).digest('base64')}\n`);
  const port = await free();
  proxy = new Process(process.env.OAUTH2_PROXY, [
    '--provider=oidc', `--oidc-issuer-url=${provider.issuer}`, `--upstream=${gateway.admin}/`, '--pass-user-headers', '--scope=openid email groups',
    '--client-id=proxy', '--client-secret=secret-proxy', `--cookie-secret=${randomBytes(16).toString('hex')}`, '--email-domain=*', `--http-address=127.0.0.1:${port}`,
    `--htpasswd-file=${users}`, '--htpasswd-user-group=llm-ops', // in place of a person at the provider's login page
  ]);
  url = `http://127.0.0.1:${port}`;
  await proxy.says(/OAuthProxy configured/);
  while (!(await fetch(`${url}/ping`).catch(() => null))?.ok) await sleep(100);
});
after(async () => {
  proxy?.child.kill();
  await proxy?.exited;
  await gateway?.stop();
  await provider?.stop();
  if (dir) rmSync(dir, { recursive: true });
});

const ann = { authorization: `Basic ${Buffer.from(`ann:${password}`).toString('base64')}` };
const ask = (method, path, headers = {}, body = undefined) => fetch(`${url}${path}`, { method, headers, body, redirect: 'manual' });

test('who has logged in has the role of a group, and the page needs no token', async () => {
  assert.deepEqual(await (await ask('GET', '/api/v1/me', ann)).json(), { user: 'ann (on-call)', role: 'operate' });
  assert.equal(await (await ask('GET', '/console/token', ann)).json(), false);
  assert.match(await (await ask('GET', '/console/', ann)).text(), /<title>llmgov/);
  assert.equal((await ask('POST', '/api/v1/reload', ann)).status, 200);
});

test('what the role is not for is refused', async () => {
  const answer = await ask('PUT', '/api/v1/tenants/acme', ann, '{"rpm": 1}');
  assert.equal(answer.status, 403);
  assert.match(await answer.text(), /needs the role admin, and ann \(on-call\) has the role operate/);
});

test('nobody names another user, or none', async () => {
  const forged = { 'X-Forwarded-User': 'root', 'X-Forwarded-Groups': 'admins', 'X-Forwarded-Email': 'root@example.com' };
  assert.deepEqual(await (await ask('GET', '/api/v1/me', { ...ann, ...forged })).json(), { user: 'ann (on-call)', role: 'operate' });
  for (const headers of [{}, forged, { authorization: `Basic ${Buffer.from('ann:wrong').toString('base64')}` }]) {
    const answer = await ask('GET', '/api/v1/me', headers);
    assert.ok([302, 401, 403].includes(answer.status), `${answer.status} of ${JSON.stringify(headers)}`);
    assert.doesNotMatch(await answer.text(), /"role"/);
  }
});
