// Runs the contract with every client, against one gateway. LLMGOV is the binary.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';

import * as aisdk from './clients/aisdk.mjs';
import { anthropic } from './clients/anthropic.mjs';
import { langchain } from './clients/langchain.mjs';
import * as openai from './clients/openai.mjs';
import { contract, tenantsOf } from './contract.mjs';
import { keyOf, start } from './harness/gateway.mjs';
import { text } from './harness/prompt.mjs';
import { run, snippets } from './harness/snippets.mjs';

const clients = [openai.chat, openai.responses, aisdk.chat, aisdk.responses, langchain, anthropic];

let gateway;

before(async () => {
  gateway = await start(process.env.LLMGOV, Object.assign({}, ...clients.map(tenantsOf)));
});
after(() => gateway?.stop());

for (const client of clients) contract(client, () => gateway);

describe('docs/clients.md', () => {
  const blocks = snippets(new URL('../../../../docs/clients.md', import.meta.url));
  test('has a block for each package', () => assert.equal(blocks.length, 4));
  for (const snippet of blocks) {
    test(snippet.heading, async () => {
      assert.equal((await run(snippet, gateway.url, keyOf(openai.chat.tenant))).trim(), text.trim());
    });
  }
  test('names the versions that are tested', () => {
    const page = readFileSync(new URL('../../../../docs/clients.md', import.meta.url), 'utf8');
    const { dependencies } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
    for (const name of ['openai', 'ai', '@ai-sdk/openai', '@langchain/openai', '@anthropic-ai/sdk']) {
      assert.ok(page.includes(`\`${name}\``) && page.includes(dependencies[name]), `${name} ${dependencies[name]}`);
    }
  });
});

// The last, when all is over.
test('gateway and model server end well, and showed no key', async () => {
  assert.deepEqual(await gateway.stop(), []);
});
