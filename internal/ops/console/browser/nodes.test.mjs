// Three gateways share a limit over a real PostgreSQL, and one is cut off from it.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { accessible, chat, go, keyOf, keysOf, open, picture, Site, sleep, until } from './site.mjs';

const site = new Site();
const nodes = {};
let browser, cable;

before(async () => {
  const postgres = await site.postgres();
  const { port } = await site.cable(postgres);
  cable = await site.cable(postgres);
  const mock = await site.mock('--first-token', '100ms', '--tokens-per-second', '400');
  for (const [node, region, at] of [['gw-us-1', 'us-east', port], ['gw-eu-1', 'eu-west', cable.port], ['gw-ap-1', 'ap-south', port]]) {
    nodes[node] = await site.gateway(node, {
      'llmgov.yaml': {
        store: `postgres://llmgov@127.0.0.1:${at}/postgres?sslmode=disable`,
        upstreams: { openai: { base_url: `${mock}/v1`, api_key: 'sk-up' } },
        pools: {
          'gpt-4o': { models: ['gpt-4o'], tpm: 300000, on_store_loss: { local: 0.1 }, expect_nodes: 3 },
          slots: { models: ['slots'], concurrency: 12, on_store_loss: { local: 0.1 }, expect_nodes: 3 },
        },
      },
      'tenants/all.yaml': { tenants: { shop: { weight: 2, max_wait: '3s', keys: keysOf('shop') }, docs: { max_wait: '3s', keys: keysOf('docs') } } },
    }, '--node', node, '--region', region);
  }
  const like = { prompt: 300, output: 300, model: 'gpt-4o', stream: 0 };
  for (const [node, rate] of [['gw-us-1', 3], ['gw-eu-1', 2], ['gw-ap-1', 1]]) {
    site.load(nodes[node].url, [{ ...like, name: 'shop', key: keyOf('shop'), rate }, { ...like, name: 'docs', key: keyOf('docs'), rate: rate / 2 }]);
  }
  browser = await site.browser();
});
after(() => site.stop());

// of finds what the page of nodes shows of the pool with tokens.
const of = (page, selector) => page.locator('.panel', { hasText: 'Pool gpt-4o' }).locator(selector);

test('a node that is cut off is shown as such, here and there', async () => {
  const here = await open(browser, nodes['gw-eu-1'].admin);
  const there = await open(browser, nodes['gw-us-1'].admin);
  for (const page of [here, there]) {
    await go(page, '#/nodes');
    await until('three nodes are there and live', async () => (await of(page, '.node.reached').count()) === 3, 60);
    assert.equal(await of(page, '.node.lost').count(), 0);
    await accessible(page);
  }
  await sleep(process.env.PICTURES ? 30_000 : 0); // so that there is something to see
  cable.cut();
  await of(here, '.alarm').waitFor({ timeout: 60_000 });
  // At first it goes on with what it was granted, then with the part that is withheld for it.
  await until('it says how it goes on', async () => /gw-eu-1[\s\S]*local/.test(await of(here, '.node.lost').innerText()), 60);
  await until('the others see it', async () => (await of(there, '.node.lost').count()) === 1, 60);
  assert.match(await of(there, '.node.lost').innerText(), /gw-eu-1[\s\S]*cut off/);
  assert.equal(await of(there, '.node.reached').count(), 2);
  for (const page of [here, there]) await accessible(page);
  await until('the strip names both pools', async () =>
    /Store lost since \d\d:\d\d[\s\S]*does not answer for pools gpt-4o, slots[\s\S]*Failure mode in force: local/.test(await here.locator('#strip').innerText()));
  await picture(there, 'node-cut-off', 400);
  await picture(here, 'node-degraded', 520);
  await go(here, '#/overview');
  await here.locator('.pool .badge.bad', { hasText: 'degraded: local' }).first().waitFor();
  cable.mend();
  await go(here, '#/nodes');
  for (const page of [here, there]) await until('all are back', async () => (await of(page, '.node.reached').count()) === 3, 60);
  for (const page of [here, there]) assert.deepEqual(page.complaints, []);
});

test('nodes of a pool of slots show how these are divided', async () => {
  const page = await open(browser, nodes['gw-us-1'].admin);
  await go(page, '#/nodes');
  const call = chat(nodes['gw-us-1'].url, 'shop', { model: 'slots', max: 4000 }).catch(() => {}); // ten seconds
  const pool = page.locator('.panel', { hasText: 'Pool slots' });
  await until('its slots are there', async () => /granted\s+\d+ slots\s+used\s+1[\s\S]*Concurrent calls in all gateways\s+1 of 12/.test(await pool.innerText()));
  await accessible(page);
  await call;
  await page.context().close();
});
