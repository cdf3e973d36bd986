// The console of one busy gateway, as an operator uses it.

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';

import { accessible, chat, go, keyOf, keysOf, open, picture, shows, Site, sleep, until } from './site.mjs';

// As far as names may go: no space, no slash. Ids of requests may have slashes.
const hostile = process.env.PICTURES ? 'lab' : '<img><b>x<script>alert(1)&amp;';
const hostileId = '<img/src=x/onerror=alert(1)>';

const policies = {
  tiers: { free: { weight: 1, group: true, rpm: 120, max_wait: '0s', max_output_tokens: 1024 } },
  tenants: {
    shop: { weight: 4, max_wait: '4s', budgets: [{ tokens: 20_000_000, per: 'day' }], teams: {
      assistant: { weight: 3, keys: keysOf('assistant') },
      search: { weight: 1, keys: keysOf('search') },
    } },
    docs: { weight: 3, max_wait: '4s', tpm: 250_000, keys: keysOf('docs') },
    reports: { weight: 1, priority: 'background', max_wait: '2s', keys: keysOf('reports') },
    trial: { tier: 'free', keys: keysOf('trial') },
    quiet: { weight: 1, rpm: 1, max_wait: '5s', keys: keysOf('quiet') },
    [hostile]: { weight: 1, keys: keysOf('hostile') },
  },
};

const site = new Site();
let gateway, browser, page;

before(async () => {
  const mock = await site.mock('--first-token', '250ms', '--tokens-per-second', '260');
  gateway = await site.gateway('busy', {
    'llmgov.yaml': `upstreams:
  openai: {base_url: "${mock}/v1", api_key: sk-up}
pools:
  gpt-4o:
    models: ["gpt-4o", "gpt-4o-mini"]
    upstream: openai
    tpm: 600000
    rpm: 5000
    concurrency: 160
  embeddings: {models: ["text-embedding-3-small"], upstream: openai, rpm: 3000}
prices: {builtin: true}
`,
    'tenants/all.yaml': policies,
  }, '--node', 'gw-1', '--region', 'eu-west');
  const like = { prompt: 400, model: 'gpt-4o', stream: 0.5 };
  site.load(gateway.url, [
    { ...like, name: 'assistant', key: keyOf('assistant'), rate: 5, output: 350 },
    { ...like, name: 'search', key: keyOf('search'), rate: 2, output: 200 },
    { ...like, name: 'docs', key: keyOf('docs'), rate: 3, output: 420 },
    { ...like, name: 'reports', key: keyOf('reports'), rate: 3, output: 900 },
    { ...like, name: 'trial', key: keyOf('trial'), rate: 1.5, output: 150 },
    { ...like, name: 'hostile', key: keyOf('hostile'), rate: 0.5, output: 100 },
    { name: 'embed', key: keyOf('assistant'), rate: 12, path: 'embeddings', model: 'text-embedding-3-small', prompt: 300 },
  ]);
  browser = await site.browser();
  page = await open(browser, gateway.admin);
});
after(() => site.stop());
afterEach(async () => {
  await page.locator('#filter').fill('');
  assert.deepEqual(page.complaints.splice(0), []);
});

const text = (selector) => page.locator(selector).first().innerText();

test('the overview is live', async () => {
  await page.waitForSelector('.pool .shares li');
  assert.match(await text('.pool h2'), /gpt-4o/);
  assert.match(await text('.where'), /gw-1/);
  await until('the stream is live', async () => (await text('.live')) === 'live');
  const figure = () => text('.meter .figure');
  const first = await figure();
  await until('figures change by themselves', async () => (await figure()) !== first);
  await page.waitForSelector('.chart canvas');
  const painted = () => page.evaluate(() => {
    const from = document.querySelector('.chart canvas');
    const copy = Object.assign(document.createElement('canvas'), { width: 1, height: from.height }).getContext('2d', { willReadFrequently: true });
    copy.drawImage(from, 40 - from.width, 0);
    return new Set(copy.getImageData(0, 0, 1, from.height).data).size;
  });
  await until('the chart is painted', async () => (await painted()) > 8);
  await accessible(page);
});

test('names are text, whatever they are', async () => {
  await go(page, '#/tenants');
  await page.waitForSelector(`td.name a[title="${hostile}"]`);
  assert.equal(await page.locator('main img').count(), 0);
  await page.locator(`td.name a[title="${hostile}"]`).first().click();
  await page.waitForFunction((name) => document.querySelector('h1')?.textContent === name, hostile);
  await chat(gateway.url, 'hostile', { id: hostileId });
  await go(page, '#/decisions');
  await page.getByRole('button', { name: 'admitted' }).click();
  await page.locator('#filter').fill(hostileId);
  await page.waitForSelector(`a.mono[title="${hostileId}"]`);
  await page.locator('#filter').fill('');
  await page.getByRole('button', { name: 'admitted' }).click();
  assert.equal(await page.locator('main img, main b > script, main iframe').count(), 0);
});

test('tenants can be filtered and sorted', async () => {
  await go(page, '#/tenants');
  await page.waitForSelector('tbody tr td.name');
  assert.equal((await text('.legend')).replace(/\s+/g, ' ').trim(), 'received asked for entitled');
  await page.locator('#filter').fill('shop');
  await until('only those of shop are there', async () => {
    const names = await page.locator('td.name').allInnerTexts();
    return names.length > 0 && names.every((n) => n.startsWith('shop'));
  });
  await page.locator('#filter').fill('');
  await page.locator('select').selectOption('gpt-4o');
  await page.getByRole('button', { name: 'Tenant' }).click();
  await until('names are in order', async () => {
    const names = await page.locator('td.name').allInnerTexts();
    return names.length > 3 && String(names) === String([...names].sort());
  });
  await page.getByRole('button', { name: 'Received' }).click();
  await accessible(page);
  await page.locator('select').selectOption('');
});

test('spend is shown by team, and by what one chooses', async () => {
  await go(page, '#/spend');
  await until('assistant has cost something', async () => /\$/.test(await text('tr:has(a[title="shop/assistant"]) td.number')));
  const total = await text('.bar-tools .count');
  assert.match(total, /^\$[0-9.,]+ for [0-9,]+ calls, .* of this gateway$/);
  await accessible(page);
  await picture(page, 'spend', 420);
  await page.getByRole('button', { name: 'model' }).click();
  await until('models are there', async () => String((await page.locator('td.name').allInnerTexts()).sort()) === 'gpt-4o,text-embedding-3-small');
  await page.locator('#filter').fill('embed');
  await until('one of them', async () => (await page.locator('td.name').count()) === 1);
  await page.locator('#filter').fill('');
  await page.getByRole('button', { name: 'team' }).click();
});

test('decisions can be filtered and paused', async () => {
  await go(page, '#/decisions');
  await page.waitForSelector('tbody .badge');
  await until('quiet is refused', async () => (await chat(gateway.url, 'quiet')).status === 429);
  const others = ['failed', 'shadow', 'throttled', 'reloaded'];
  for (const kind of others) await page.getByRole('button', { name: kind }).click();
  await until('only refusals are there', async () => {
    const kinds = await page.locator('tbody .badge').allInnerTexts();
    return kinds.length > 0 && kinds.every((k) => k === 'refused');
  });
  await accessible(page);
  for (const kind of ['admitted', 'ended', ...others]) await page.getByRole('button', { name: kind }).click();
  await page.locator('#filter').fill('trial');
  await until('only those of trial are there', async () => {
    const names = await page.locator('td.name').allInnerTexts();
    return names.length > 0 && names.every((n) => n === 'trial');
  });
  await page.locator('#filter').fill('');
  await page.getByRole('button', { name: 'Pause' }).click();
  const top = () => page.locator('tbody tr[aria-rowindex]').first().innerText();
  await sleep(500);
  const still = await top();
  await sleep(1500);
  assert.equal(await top(), still);
  await page.getByRole('button', { name: 'Resume' }).click();
  await until('it goes on', async () => (await top()) !== still);
});

test('a refusal is explained', async () => {
  await until('quiet is refused', async () => (await chat(gateway.url, 'quiet', { id: 'req_quiet' })).status === 429);
  let asked = 0;
  await page.route('**/api/v1/explain?*', (route) => (asked++ === 0 ? route.fulfill({ status: 404, body: '{"error": {"message": "None yet"}}' }) : route.continue()));
  await go(page, '#/tenant/quiet');
  await page.locator('tr', { has: page.locator('.badge.refused') }).locator('a.mono[title="req_quiet"]').first().click();
  await page.waitForSelector('.limits .decides');
  assert.ok(asked > 1);
  await page.unroute('**/api/v1/explain?*');
  assert.match(await text('h1'), /^Refused/);
  assert.equal(await text('.wide-facts a'), 'quiet');
  assert.match(await text('.message'), /requests per min \(RPM\): Limit 1, Used 1/);
  assert.match(await text('.limits .decides'), /quiet rpm[\s\S]*all\.yaml:1:\d+/);
  await accessible(page);
  await go(page, '#/request/req_of_nobody');
  await page.getByText('None of the last refusals').waitFor();
  assert.match(await text('h1'), /Unknown request/);
  // The browser tells of each 404 on its own.
  page.complaints = page.complaints.filter((c) => !c.includes('404'));
});

test('a tenant has its limits, teams, budgets and where each is written', async () => {
  await go(page, '#/tenant/shop');
  await page.waitForSelector('.teams a');
  assert.deepEqual(await page.locator('.teams a').allInnerTexts(), ['shop/assistant', 'shop/search']);
  assert.match(await text('.columns'), /Tokens \/ day[\s\S]*of 20M/);
  await page.locator('.teams a').first().click();
  await shows(page, 'shop/assistant');
  await page.waitForSelector('td.from .mono');
  assert.match(await text('td.from .mono'), /tenants\/all\.yaml:1:\d+/);
  await accessible(page);
});

test('the policy names the line of each setting', async () => {
  await go(page, '#/policy');
  await page.waitForSelector('tr.of-pool');
  await page.locator('select').selectOption('gpt-4o');
  assert.match(await page.locator('tr.of-pool', { hasText: 'tpm' }).first().innerText(), /tpm[\s\S]*600,000[\s\S]*llmgov\.yaml:7:\d+/);
  await accessible(page);
  const file = join(gateway.dir, 'tenants', 'bad.yaml');
  writeFileSync(file, 'tenants: {x: {wieght: 1}}\n');
  await page.locator('.problems', { hasText: 'bad.yaml:1:15' }).waitFor();
  writeFileSync(file, 'tenants: {}\n');
  await page.locator('.problems').waitFor({ state: 'detached' });
  await page.locator('select').selectOption('');
});

test('leases have their ages and tokens', async () => {
  await go(page, '#/leases');
  await page.waitForSelector('tbody .badge.streaming');
  assert.match(await text('tbody tr[aria-rowindex]'), /\d+(\.\d+)? (ms|s|min)/);
  await accessible(page);
});

test('it works by keyboard', async () => {
  await go(page, '#/tenants');
  await page.getByRole('button', { name: 'Tenant' }).click(); // else rows change places under the keys
  await go(page, '#/overview');
  for (const [i, title] of ['Overview', 'Tenants', 'Decisions', 'Leases', 'Nodes', 'Policy'].entries()) {
    await page.keyboard.press(String(i + 1));
    await shows(page, title);
  }
  await page.keyboard.press('2');
  await shows(page, 'Tenants');
  await page.waitForSelector('td.name a');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  const link = await page.evaluate(() => [[...document.querySelectorAll('td.name a')].indexOf(document.activeElement), document.activeElement.title]);
  assert.equal(link[0], 1);
  await page.keyboard.press('Enter');
  await shows(page, link[1]);
  await page.keyboard.press('Escape');
  await shows(page, 'Tenants');
  await page.keyboard.press('/');
  await page.keyboard.type('docs');
  await page.keyboard.press('Enter');
  await shows(page, 'docs');
  await page.keyboard.press('Escape'); // by then the filter has been left
  await shows(page, 'Tenants');
  await page.keyboard.press('?');
  await page.waitForSelector('#help[open]');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#help[open]').count(), 0);
  await page.getByRole('button', { name: 'Received' }).click();
});

test('keys may come faster than the browser tells of a new address', async () => {
  await go(page, '#/overview');
  await page.locator('main').focus();
  const focused = await page.evaluate(async () => {
    const heard = new Promise((resolve) => addEventListener('hashchange', resolve, { once: true }));
    location.hash = '#/tenants'; // of which the page hears when this task is over
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '/', bubbles: true }));
    await heard;
    return document.activeElement.id;
  });
  assert.equal(focused, 'filter');
  await shows(page, 'Tenants');
  await page.locator('#filter').blur();
});

test('a row keeps the focus when it changes places', async () => {
  assert.deepEqual(await page.evaluate(async () => {
    const { h, render } = await import('./dom.js');
    const list = document.body.appendChild(document.createElement('ul'));
    const show = (names) => render(list, names.map((name) => h('li', { key: name }, h('button', null, name))));
    const focused = [];
    for (const order of ['abc', 'cba', 'bca', 'ab']) {
      show([...order]);
      if (focused.length === 0) list.querySelector('button').focus();
      focused.push(document.activeElement.textContent);
    }
    list.remove();
    return focused;
  }), ['a', 'a', 'a', 'a']);
});

test('the theme can be chosen, and stays', async () => {
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await go(page, '#/overview');
  await page.locator('main').focus();
  const auto = await ground();
  await page.keyboard.press('t');
  assert.equal(await ground(), auto); // light, as the browser's
  await page.keyboard.press('t');
  assert.notEqual(await ground(), auto);
  await page.reload();
  await page.waitForSelector('.pool .shares li');
  assert.notEqual(await ground(), auto);
  await accessible(page);
  await page.locator('main').focus();
  await page.keyboard.press('t');
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.notEqual(await ground(), auto); // as the system
  await page.emulateMedia({ colorScheme: 'light' });
});

test('a phone has room for all of it', async () => {
  const phone = await open(browser, gateway.admin, { viewport: { width: 390, height: 844 }, isMobile: true, deviceScaleFactor: 2 });
  for (const view of ['overview', 'tenants', 'decisions', 'leases', 'nodes', 'policy', 'tenant/shop']) {
    await go(phone, `#/${view}`);
    await phone.waitForSelector('main .panel');
    await sleep(300);
    assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${view} is wider than the phone`);
  }
  await accessible(phone);
  assert.deepEqual(phone.complaints, []);
  await phone.context().close();
});

test('pictures', { skip: !process.env.PICTURES }, async () => {
  await go(page, '#/overview');
  await sleep(80_000); // the first minute is over
  await page.evaluate(() => scrollTo(0, 0));
  await picture(page, 'overview-light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await sleep(1500);
  await picture(page, 'overview-dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await go(page, '#/tenant/reports');
  await sleep(2500);
  await picture(page, 'tenant');
  await page.locator('tbody tr', { has: page.locator('.badge.refused') }).first().locator('a.mono').click();
  await page.waitForSelector('.limits .decides');
  await sleep(500);
  await picture(page, 'refusal');
  await go(page, '#/tenants');
  await sleep(2500);
  await picture(page, 'tenants');
  const phone = await open(browser, gateway.admin, { viewport: { width: 390, height: 844 }, isMobile: true, deviceScaleFactor: 2 });
  await sleep(50_000);
  await picture(phone, 'phone');
  await phone.context().close();
});
