// A thousand tenants behind an admin token.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { go, keyOf, keysOf, open, shows, Site, sleep, until } from './site.mjs';

const many = 1000;
const token = 'the-admin-token-of-many';
const site = new Site();
let gateway, browser;

before(async () => {
  const mock = await site.mock('--first-token', '50ms');
  const tenants = {};
  for (let i = 0; i < many; i++) tenants[`tenant-${String(i).padStart(4, '0')}`] = { weight: 1 + (i % 5), max_wait: '1s', keys: keysOf(`t${i}`) };
  gateway = await site.gateway('many', {
    'llmgov.yaml': {
      admin: { listen: '127.0.0.1:0', token },
      upstreams: { openai: { base_url: `${mock}/v1`, api_key: 'sk-up' } },
      pools: { 'gpt-4o': { models: ['gpt-4o'], tpm: 2000000 } },
    },
    'tenants/all.yaml': { tenants },
  });
  const load = [];
  for (let i = 0; i < 100; i++) load.push({ name: `t${i}`, key: keyOf(`t${i * 10}`), rate: 0.5, model: 'gpt-4o', stream: 0, prompt: 300, output: 100 + i });
  site.load(gateway.url, load);
  browser = await site.browser();
});
after(() => site.stop());

test('the token is asked for, once a session', async () => {
  const page = await open(browser, gateway.admin);
  const answer = async (text) => {
    await page.waitForSelector('#ask[open]');
    await page.locator('#ask-token').fill(text);
    await page.keyboard.press('Enter');
  };
  await page.waitForSelector('#ask[open]');
  assert.deepEqual(page.complaints, []); // nothing was asked for in vain
  await answer('not-it');
  await page.getByText('did not accept that token').waitFor();
  await answer(token);
  await page.waitForSelector('.pool .shares li');
  await page.reload();
  await page.waitForSelector('.pool .shares li');
  await until('the stream is live', async () => (await page.locator('.live').innerText()) === 'live');
  assert.equal(await page.evaluate((t) => Object.values(localStorage).includes(t), token), false);
  const others = page.complaints.filter((c) => !c.includes('401')); // of which the browser tells on its own
  assert.deepEqual(others, []);
  await page.context().close();
});

test('a thousand tenants are a few rows at a time', async () => {
  const page = await open(browser, gateway.admin);
  await page.waitForSelector('#ask[open]');
  await page.locator('#ask-token').fill(token);
  await page.keyboard.press('Enter');
  await go(page, '#/tenants');
  await page.getByText('1,000 tenants').waitFor();
  const rows = () => page.locator('tbody tr[aria-rowindex]').count();
  assert.ok((await rows()) < 60, `${await rows()} rows are there`);
  await page.locator('th .sort', { hasText: 'Tenant' }).click();
  await page.waitForSelector('a[title="tenant-0000"]');
  await page.evaluate(() => { const s = document.querySelector('.scroll'); s.scrollTop = s.scrollHeight; });
  await page.waitForSelector('a[title="tenant-0999"]');
  assert.ok((await rows()) < 60);
  await page.locator('#filter').fill('tenant-0500');
  await page.getByText('1 tenant', { exact: true }).waitFor();
  await page.locator('td.name a').click();
  await page.waitForFunction(() => document.querySelector('h1')?.textContent === 'tenant-0500');
  // By its name a tenant is found also if it has done nothing, so that the snapshot is without it.
  await page.locator('#filter').fill('tenant-0501');
  await page.keyboard.press('Enter');
  await shows(page, 'tenant-0501');
  // What a drawing costs is the page's own work, whatever else the machine does.
  await go(page, '#/tenants');
  await sleep(1000);
  const nodes = await page.evaluate(() => document.querySelectorAll('*').length);
  assert.ok(nodes < 1500, `${nodes} elements`);
  await page.context().close();
});
