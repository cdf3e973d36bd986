// Model servers that tell their load, behind a pool whose limit goes by it.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { accessible, keyOf, keysOf, open, reads, Site } from './site.mjs';

const site = new Site();
let page;

before(async () => {
  const mock = await site.mock('--first-token', '100ms', '--tokens-per-second', '40', '--batch', '8', '--kv-cache', '3000');
  const gateway = await site.gateway('servers', {
    'llmgov.yaml': `upstreams:
  gpu-1: {base_url: "${mock}/v1", engine: {kind: vllm}}
  gpu-2: {base_url: "${mock}/v1", engine: {kind: vllm, url: "${mock}/nothing"}}
  hosted: {base_url: "${mock}/v1"}
pools:
  local: {models: ["local"], upstreams: [{name: gpu-1}, {name: gpu-2}], concurrency: {adaptive: gradient, min: 8, max: 64}}
  hosted: {models: ["hosted"], upstream: hosted, concurrency: 20}
`,
    'tenants/all.yaml': { tenants: { chat: { max_wait: '30s', keys: keysOf('chat') } } },
  });
  site.load(gateway.url, [{ name: 'chat', key: keyOf('chat'), rate: 8, prompt: 200, output: 120, model: 'local', stream: 1 }]);
  page = await open(await site.browser(), gateway.admin);
});
after(() => site.stop());
afterEach(() => assert.deepEqual(page.complaints.splice(0), []));

test('a pool shows the load of its servers, those first that cannot be read', async () => {
  const servers = () => page.locator('.pool', { hasText: 'Pool local' }).locator('.servers li').allInnerTexts().then((list) => list.map((t) => t.replace(/\s+/g, ' ')).join('\n'));
  await reads(servers, /^Server gpu-2 stale its metrics are not read: its status is 404 Not Found\nServer gpu-1 [1-9]\d* running \d+ waiting KV cache \d+(\.\d+)? %$/);
  await reads(() => page.locator('.pool', { hasText: 'Pool local' }).locator('.meter small').innerText(), /^adaptive \(gradient\), from 8 to 64/);
  assert.equal(await page.locator('.pool', { hasText: 'Pool hosted' }).locator('.servers').count(), 0);
  await accessible(page);
});
