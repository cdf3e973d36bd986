// What an operator needs at night: outages, a past, and tenants that can be told apart.

import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';

import { accessible, chat, go, keyOf, keysOf, open, picture, reads, Site, sleep, until } from './site.mjs';

const words = ['search', 'assistant', 'reports', 'billing', 'support', 'translation', 'ingest', 'embeddings', 'summaries', 'moderation', 'agents', 'evals'];
const names = words.map((word, i) => `platform-${word}-service-team-production-eu-west-${i + 1}`);
const views = ['overview', 'tenants', 'decisions', 'leases', 'nodes', 'policy', `tenant/${names[0]}`];

const tenants = {};
for (const [i, name] of names.entries()) tenants[name] = { weight: 1 + (i % 4), max_wait: '1s', keys: [{ hash: keysOf(name)[0], name: `production-${i + 1}`, ...(i === 1 && { expires: '2030-01-31' }) }] };
tenants[names[0]].rpm = 10;
tenants[names[0]].budgets = [{ usd: 500, per: 'month' }];

const config = (url, more = '') => `upstreams:
  openai: {base_url: "${url}/v1", api_key: sk-up}
  azure: {base_url: "http://127.0.0.1:9/v1", api_key: sk-up}
pools:
  gpt-4o: {models: ["gpt-4o"], upstream: openai, tpm: 300000, concurrency: 100, budgets: [{usd: 20000, per: month}]}
  small: {models: ["small"], upstream: openai, tpm: 400000}
  claude: {models: ["claude"], upstream: azure, tpm: 200000}
prices: {gpt-4o: {input: 2.5, output: 10}, small: {input: 1, output: 2}, claude: {input: 3, output: 15}}
${more}`;

const site = new Site();
let mock, gateway, browser, page, began;

before(async () => {
  mock = await site.mock('--first-token', '100ms', '--tokens-per-second', '400');
  began = Date.now();
  gateway = await site.gateway('operator', { 'llmgov.yaml': config(mock), 'tenants/all.yaml': { tenants } }, '--node', 'gw-1');
  const load = [];
  for (const [i, name] of names.entries()) {
    const like = { key: keyOf(name), rate: 0.5, output: 200 + 40 * i, prompt: 300, stream: 0 };
    load.push({ ...like, name: `${name}-a`, model: 'gpt-4o' }, { ...like, name: `${name}-b`, model: 'small' });
  }
  site.load(gateway.url, load);
  browser = await site.browser();
  page = await open(browser, gateway.admin);
});
after(() => site.stop());
afterEach(() => assert.deepEqual(page.complaints.splice(0), []));

const text = (selector) => page.locator(selector).first().innerText();

test('an outage shows on its pool, among the decisions, and on every page', async () => {
  await page.waitForSelector('.pool .shares li');
  assert.equal(await page.locator('.condition').count(), 0);
  for (let i = 0; i < 12; i++) assert.ok((await chat(gateway.url, names[1 + (i % 11)], { model: 'claude' })).status >= 500); // the first tenant has used up its rpm
  await reads(() => text('.pool h2'), /claude[\s\S]*Upstream down since \d\d:\d\d, 12 calls failed in the last minute/); // it comes first
  assert.equal(await page.locator('.pool').first().evaluate((el) => el.classList.contains('down')), true);
  assert.match(await text('.pool .facts .bad'), /failed[\s\S]*12/);
  await until('failures are in the list below', async () => (await page.locator('.flat .badge.failed').count()) > 0);
  for (const view of views) {
    await go(page, `#/${view}`);
    await until(`the strip is above ${view}`, async () => /Upstream down since \d\d:\d\d[\s\S]*azure of pool claude is down: [^.]*; next probe in \d+ s\. 12 calls failed/.test(await text('#strip')));
  }
  await go(page, '#/decisions');
  await page.locator('#filter').fill('azure');
  const row = page.locator('tbody tr.failed').last();
  await until('the reason is there', async () => /Upstream azure cannot connect · 502/.test(await row.innerText()));
  await accessible(page);
  await page.locator('#filter').fill('');
});

test('the strip says what is wrong with the files, and what needs a restart', async () => {
  const bad = join(gateway.dir, 'tenants', 'bad.yaml');
  writeFileSync(bad, 'tenants: {x: {keys: [], wieght: 1}}\n');
  await page.locator('.condition.error', { hasText: /Policy invalid since \d\d:\d\d\s*tenants\/bad\.yaml:1:25: .*wieght/ }).waitFor();
  await accessible(page);
  rmSync(bad);
  writeFileSync(join(gateway.dir, 'llmgov.yaml'), config(mock, 'timezone: Europe/Berlin\n'));
  await page.locator('.condition.warning', { hasText: 'Restart this gateway to apply timezone.' }).waitFor();
  await until('the files are good again', async () => (await page.locator('.condition', { hasText: 'Policy invalid' }).count()) === 0);
  writeFileSync(join(gateway.dir, 'llmgov.yaml'), config(mock));
  await until('nothing needs a restart', async () => (await page.locator('.condition', { hasText: 'Restart' }).count()) === 0);
});

test('a draining gateway says so', async () => {
  const other = await site.gateway('draining', { 'llmgov.yaml': config(mock), 'tenants/all.yaml': { tenants } });
  const its = await open(browser, other.admin);
  await its.waitForSelector('.pool');
  const long = chat(other.url, names[3], { max: 4000 }).catch(() => {}); // ten seconds
  await until('it runs', async () => /running\s+1/.test(await its.locator('.facts').allInnerTexts().then((t) => t.join())));
  await fetch(`${other.admin}/api/v1/drain`, { method: 'POST' });
  await its.locator('.condition.warning', { hasText: 'This gateway is draining' }).waitFor();
  await its.context().close();
  await long;
});

test('charts have a past when the page opens, and name their time zone', async () => {
  await until('the gateway is 25 s old', () => Date.now() - began > 25_000, 60);
  const late = await open(browser, gateway.admin, { timezoneId: 'Europe/Berlin' });
  const opened = Date.now() / 1000;
  const times = () => late.evaluate(() => [...document.querySelectorAll('.chart')].map((el) => el.plot?.data[0][0]));
  await until('the charts begin before the page does', async () => {
    const all = await times();
    return all.length === 3 && all.every((at) => at < opened - 10);
  });
  assert.match(await late.locator('figcaption .zone').first().innerText(), /times in Europe\/Berlin/);
  await late.getByRole('button', { name: '1 h' }).click();
  await late.reload();
  await late.waitForSelector('.chart canvas');
  assert.equal(await late.getByRole('button', { name: '1 h' }).getAttribute('aria-pressed'), 'true');
  assert.deepEqual(late.complaints, []);
  await late.context().close();
});

test('names are cut in their middle', async () => {
  await page.setViewportSize({ width: 1000, height: 860 });
  await go(page, '#/overview');
  await page.waitForSelector('.pool .shares li');
  let shown;
  await until('names are cut', async () => {
    shown = await page.locator('.shares .name-text').allInnerTexts();
    return shown.length > 8 && shown.some((n) => n.includes('…'));
  });
  for (const name of shown) assert.match(name, /^plat.*-?\d+$/);
  assert.deepEqual([...new Set(await page.locator('.shares .name-link').evaluateAll((all) => all.map((a) => a.title)))].filter((n) => !names.includes(n)), []);
  await until('each fits its place', () => page.locator('.shares .name-text').evaluateAll((all) => all.every((el) => el.scrollWidth <= el.clientWidth)));
  await page.setViewportSize({ width: 1360, height: 860 });
});

// colours are those of tenants with a bar, by pool.
const colours = () => page.locator('.pool').evaluateAll((pools) => pools.map((pool) => Object.fromEntries([...pool.querySelectorAll('.shares li')].map((li) => [
  li.querySelector('.name-link').title, getComputedStyle(li.querySelector('.dot')).backgroundColor]))));

test('a tenant has one colour, everywhere and after a reload, and no other tenant has it', async () => {
  await go(page, '#/overview');
  const seen = new Map();
  const check = async () => {
    for (const pool of await colours()) {
      const list = Object.values(pool);
      assert.equal(new Set(list).size, list.length, 'two tenants of one colour');
      for (const [name, colour] of Object.entries(pool)) {
        assert.equal(seen.get(name) ?? colour, colour, name);
        seen.set(name, colour);
      }
    }
  };
  await until('all pools have bars', async () => (await page.locator('.pool .shares li').count()) >= 16);
  await check();
  await page.reload();
  await until('all pools have bars', async () => (await page.locator('.pool .shares li').count()) >= 16);
  await check();
  const [name, colour] = [...seen][0];
  await go(page, `#/tenant/${name}`);
  await until('the tenant’s page is there', async () => (await page.locator('h1 .dot').count()) === 1);
  assert.equal(await page.locator('h1 .dot').evaluate((el) => getComputedStyle(el).backgroundColor), colour);
  // Forty tenants are more than there are colours.
  const of = await page.evaluate(async (chart) => {
    const { assign, coloursOf } = await import('./colours.js');
    const forty = Array.from({ length: 40 }, (_, i) => `tenant-${i}`);
    const charts = [];
    for (const order of [forty, [...forty].reverse()]) {
      assign(order);
      charts.push(forty.map((_, i) => [...coloursOf(Array.from({ length: chart }, (_, k) => forty[(i + 3 * k) % 40])).values()]));
    }
    return charts;
  }, 12);
  for (const chart of of[0]) assert.equal(new Set(chart).size, 12);
  assert.deepEqual(of[0], of[1]);
});

test('what a tenant received is seen on every bar, and what it asked for is hatched', async () => {
  await go(page, '#/overview');
  await until('somebody lacks something', async () => (await page.locator('.shares .wanted').count()) > 0);
  for (const fill of await page.locator('.shares .fill.some').evaluateAll((all) => all.map((el) => ({ width: el.offsetWidth, ground: getComputedStyle(el).backgroundColor, track: getComputedStyle(el.parentElement).backgroundColor })))) {
    assert.ok(fill.width >= 3 && fill.ground !== fill.track, JSON.stringify(fill));
  }
  assert.match(await page.locator('.shares .wanted').first().evaluate((el) => getComputedStyle(el).backgroundImage), /repeating-linear-gradient/);
  assert.match(await text('.shares .legend .scale'), /scale 0–\d+(\.\d)? % of the pool/);
});

test('decisions begin with what needs attention, its reason first', async () => {
  await page.reload();
  await go(page, '#/decisions');
  await page.waitForSelector('tbody .badge');
  const pressed = await page.locator('.toggles button').evaluateAll((all) => all.filter((b) => b.getAttribute('aria-pressed') === 'true').map((b) => b.firstChild.nodeValue));
  assert.deepEqual(pressed, ['refused', 'failed', 'shadow', 'throttled', 'reloaded']);
  const kinds = new Set(await page.locator('tbody .badge').allInnerTexts());
  assert.ok(!kinds.has('admitted') && !kinds.has('ended'), [...kinds].join());
  assert.deepEqual((await page.locator('th').allInnerTexts()).slice(0, 4), ['Time', 'Decision', 'Reason', 'Tenant']);
  assert.match(await page.getByRole('button', { name: 'admitted' }).innerText(), /admitted \d/);
  await page.getByRole('button', { name: 'admitted' }).click();
  await page.waitForSelector('tbody .badge.admitted');
});

test('a gateway without others shows its version, uptime and memory', async () => {
  await go(page, '#/nodes');
  const facts = await text('.facts');
  assert.match(facts, /version[\s\S]+uptime\s+\d+[\s\S]+memory\s+[\d.]+ MiB/);
  assert.match(await text('main'), /Single gateway\. Set store: to share limits between several\./);
  await accessible(page);
});

test('a tenant’s page has its keys and charts', async () => {
  await go(page, `#/tenant/${names[0]}`);
  await page.waitForSelector('.keys li');
  assert.match(await text('.keys'), /production-1[\s\S]*last used \d\d:\d\d · never expires/);
  await page.waitForSelector('.share .chart canvas');
  assert.match(await text('figcaption'), /Share of pool (gpt-4o|small)/);
  await go(page, `#/tenant/${names[1]}`);
  await until('its key expires', async () => /production-2[\s\S]*expires 31 Jan 2030/.test(await text('.keys')));
  await accessible(page);
});

test('the arrow and the order agree', async () => {
  await go(page, '#/tenants');
  await page.locator('select').selectOption('gpt-4o');
  await page.getByRole('button', { name: 'Tenant' }).click();
  await page.waitForSelector('td.name');
  const figure = (t) => Number.parseFloat(t) * ({ k: 1e3, M: 1e6 }[/\d([kM])\b/.exec(t)?.[1]] ?? 1);
  for (const column of ['Received', 'Entitled', 'Asked for', 'Weight', 'Refused / min']) {
    const button = page.getByRole('button', { name: column });
    for (const way of ['descending', 'ascending']) {
      await button.click();
      await page.waitForSelector(`th[aria-sort=${way}]`);
      const { at, shown, arrows } = await page.evaluate(() => {
        const heads = [...document.querySelectorAll('th')];
        const at = heads.findIndex((th) => th.ariaSort);
        return { at, arrows: heads.filter((th) => /[↑↓]/.test(th.textContent)).length, shown: [...document.querySelectorAll('tbody tr[aria-rowindex]')].map((tr) => tr.children[at].innerText) };
      });
      assert.equal(arrows, 1);
      assert.equal(await page.locator('th').nth(at).innerText(), `${column} ${way === 'ascending' ? '↑' : '↓'}`);
      const sorted = [...shown].sort((a, b) => (way === 'ascending' ? 1 : -1) * (figure(a) - figure(b)));
      assert.deepEqual(shown.map(figure), sorted.map(figure), column);
    }
  }
  await page.getByRole('button', { name: 'Received' }).click();
  await page.locator('select').selectOption('');
});

test('units are those of the trade', async () => {
  await go(page, '#/overview');
  await page.waitForSelector('.meter');
  const meters = (await page.locator('.meter').allInnerTexts()).join('\n');
  assert.match(meters, /Concurrent calls/);
  assert.match(meters, /\$ \/ month[\s\S]*\$[\d.]+ of \$20,000/);
  await go(page, `#/tenant/${names[0]}`);
  await until('the budget is there', async () => /of \$500[\s\S]*resets \d+ \w+ \d\d:\d\d \S+/.test((await page.locator('.columns').allInnerTexts()).join()));
  assert.deepEqual(await page.evaluate(async () => {
    const f = await import('./format.js');
    return [f.short(2.5e9), f.short(594_000), f.dollars(1.5), f.dollars(20000), f.dollars(0.00123), f.middle('abcdefghijklmnop', 9)];
  }), ['2.5B', '594k', '$1.50', '$20,000', '$0.0012', 'abcde…nop']);
});

test('pictures of an outage', { skip: !process.env.PICTURES }, async () => {
  await go(page, '#/overview');
  await until('the gateway is two minutes old', () => Date.now() - began > 120_000, 150);
  for (let i = 0; i < 31; i++) await chat(gateway.url, names[1 + (i % 11)], { model: 'claude' });
  await sleep(12_000); // until the gateway remembers them
  await picture(page, 'outage', 700);
});
