// What the console shows to callers of each role, by token or by a proxy that names them.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { accessible, chat, go, keysOf, open, reads, Site, until } from './site.mjs';

const admin = 'the-admin-token-of-roles';
const token = (role) => `the-${role}-token-of-roles`;

const site = new Site();
let gateway, browser;
const pages = [];

before(async () => {
  const mock = await site.mock('--first-token', '50ms');
  gateway = await site.gateway('roles', {
    'llmgov.yaml': {
      admin: {
        listen: '127.0.0.1:0', token: admin, proxy: { from: ['127.0.0.1/32'] },
        roles: [
          ...['view', 'operate'].map((role) => ({ name: role, role, token: token(role) })),
          { name: 'portal', role: 'keys', tenants: ['acme'], token: token('keys') },
          { name: 'on-call', role: 'operate', group: 'llm-ops', issuer: 'proxy' },
        ],
      },
      upstreams: { openai: { base_url: `${mock}/v1`, api_key: 'sk-up' } },
      pools: { 'gpt-4o': { models: ['gpt-4o'], upstream: 'openai', tpm: 300000 } },
    },
    'tenants/all.yaml': {
      tenants: {
        acme: { keys: keysOf('acme'), members: { by: 'body.user', each: { budgets: [{ tokens: 5000, per: 'life' }] } } },
        beta: { keys: keysOf('beta') },
      },
    },
  });
  assert.equal((await chat(gateway.url, 'acme')).status, 200);
  browser = await site.browser();
});
after(() => site.stop());
afterEach(() => assert.deepEqual(pages.splice(0).flatMap((p) => p.complaints), []));

const override = async () => {
  const answer = await fetch(`${gateway.admin}/api/v1/overrides/acme`, { method: 'PUT', headers: { authorization: `Bearer ${admin}` }, body: JSON.stringify({ tpm: 500000, why: 'launch' }) });
  assert.ok(answer.ok);
};

// as opens the console with a token, or with what a proxy tells.
async function as(role, headers) {
  const page = await open(browser, gateway.admin, headers ? { extraHTTPHeaders: headers } : {});
  pages.push(page);
  if (!headers) {
    await page.locator('#ask-token').fill(token(role));
    await page.locator('#ask button').click();
  }
  return page;
}

const text = (page, selector) => page.locator(selector).first().innerText();

for (const [who, role, headers] of [
  ['view', 'view'],
  ['operate', 'operate'],
  ['ann (on-call)', 'operate', { 'X-Forwarded-User': 'ann', 'X-Forwarded-Groups': 'staff, llm-ops' }],
]) {
  test(`${who} sees all${role === 'operate' ? ', and can clear and reload' : ', and changes nothing'}`, async () => {
    await override();
    const page = await as(role, headers);
    await reads(() => text(page, '.who'), new RegExp(`${who.replace(/[()]/g, '.')}\\s*${role}`));
    await go(page, '#/policy');
    await page.locator('td.name').first().waitFor();
    assert.equal(await page.getByRole('button', { name: 'Reload' }).count(), role === 'operate' ? 1 : 0);
    await go(page, '#/tenant/acme');
    await reads(() => text(page, '.override'), /acme tpm 500,000[\s\S]*by admin token: launch, until it is cleared/);
    await reads(() => page.locator('.panel', { hasText: 'Members: ' }).innerText(), /Members: 1[\s\S]*calls that name nobody[\s\S]*tokens in the last minute[\s\S]*% of Tokens \/ life/);
    await accessible(page);
    const clear = page.getByRole('button', { name: 'Clear' });
    if (role === 'view') {
      assert.equal(await clear.count(), 0);
      return;
    }
    page.on('dialog', (d) => d.accept());
    await clear.click();
    await until('the override is gone', async () => (await page.locator('.override').count()) === 0);
    await go(page, '#/policy');
    await page.getByRole('button', { name: 'Reload' }).click();
  });
}

test('who only makes keys sees those of the role’s tenants', async () => {
  const page = await as('keys');
  await page.locator('.keys li').first().waitFor();
  assert.deepEqual(await page.locator('nav a').allInnerTexts(), ['Keys']);
  assert.deepEqual(await page.locator('.panel h2').allInnerTexts(), ['acme']);
  await go(page, '#/policy'); // leads back
  assert.deepEqual(await page.locator('.panel h2').allInnerTexts(), ['acme']);
  await accessible(page);
});
