// @anthropic-ai/sdk, on messages.

import assert from 'node:assert/strict';

import Anthropic from '@anthropic-ai/sdk';

import { counted, eventually } from '../harness/books.mjs';
import { failure } from '../harness/failure.mjs';
import { pieces, prompt, speak } from '../harness/prompt.mjs';

const request = { model: 'claude-sonnet', max_tokens: pieces.length, messages: [{ role: 'user', content: prompt }] };

export const anthropic = {
  name: '@anthropic-ai/sdk',
  package: '@anthropic-ai/sdk',
  tenant: 'anthropic',
  api: 'chat', // a prompt is as long as one there

  // It puts /v1 into its paths itself.
  connect: ({ url, key, fetch, retries }) => new Anthropic({ baseURL: url, apiKey: key, fetch, maxRetries: retries }),

  async plain(client) {
    const answer = await client.messages.create(request);
    return { text: answer.content[0].text, usage: usage(answer.usage) };
  },

  async* stream(client, { signal }) {
    const stream = await client.messages.create({ ...request, stream: true }, { signal });
    let told = null;
    for await (const event of stream) {
      if (event.type === 'content_block_delta') yield event.delta.text;
      if (event.type === 'message_delta') told = usage(event.usage);
    }
    return told;
  },

  async tools(client, streamed) {
    const messages = [...request.messages];
    const params = { ...request, messages, tools: [{ name: speak.name, input_schema: speak.schema }] };
    const ask = () => (streamed ? client.messages.stream(params).finalMessage() : client.messages.create(params));
    const first = await ask();
    const [call] = first.content;
    messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'done' }] });
    return { name: call.name, args: call.input, text: (await ask()).content[0].text };
  },

  async models(client) {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    return ids;
  },

  problem: (err) => ({
    kind: err.constructor.name, status: err.status, code: err.type, message: err.message,
    header: (name) => err.headers.get(name), id: err.requestID,
  }),
  rateCode: 'rate_limit_error',
  spentCode: 'rate_limit_error',
  kinds: { key: 'AuthenticationError', rate: 'RateLimitError', spent: 'RateLimitError' },
  obeysRetryAfter: true,
  ownWait: 500,
  spentAttempts: 1,
  aborted: null,
  broken: { kind: 'APIError', message: /server had an error/ },

  own: { 'usage of the cache': cacheUsage, count_tokens: countTokens, 'classes of errors': classes },
};

// The model server tells of marked blocks as if they were cached: 'be brief' are
// two tokens that are read, 'hello' two that are written (internal/lab/mock/doc.go).
const cached = {
  ...request,
  system: [{ type: 'text', text: 'be brief', cache_control: { type: 'ephemeral' } }],
  messages: [{ role: 'user', content: [{ type: 'text', text: 'hello', cache_control: { type: 'ephemeral' } }] }],
};

async function cacheUsage(open, gw) {
  const { tenant } = anthropic;
  const charged = (kind) => counted(gw, 'llmgov_tokens_total', { tenant, kind });
  const before = { input: await charged('input'), cached: await charged('cached_input') };
  const { client } = open(tenant);
  const want = { input_tokens: 7, cache_creation_input_tokens: 2, cache_read_input_tokens: 2, output_tokens: 12 };
  for (const answer of [await client.messages.create(cached), await client.messages.stream(cached).finalMessage()]) {
    const { service_tier: _, ...got } = answer.usage;
    assert.deepEqual(got, want);
  }
  // The gateway books the whole prompt as input, and of it what was read from the cache.
  await eventually('charged input', async () => await charged('input') - before.input, 22);
  assert.equal(await charged('cached_input') - before.cached, 4);
}

async function countTokens(open) {
  const { client } = open(anthropic.tenant);
  const { max_tokens: _, ...prompt } = request;
  assert.deepEqual(await client.messages.countTokens(prompt), { input_tokens: 11 });
}

async function classes(open) {
  const ask = (more, how) => failure(open(anthropic.tenant, { retries: 0, ...how }).client.messages.create({ ...request, ...more }));
  for (const [want, status, err] of [
    [Anthropic.NotFoundError, 404, await ask({ model: 'nothing' })],
    [Anthropic.BadRequestError, 400, await ask({ max_tokens: -1 })],
    [Anthropic.InternalServerError, 500, await ask({}, { hook: { error_status: 500 } })],
    [Anthropic.OverloadedError, 529, await ask({}, { hook: { error_status: 529 } })],
  ]) {
    assert.ok(err instanceof want, `${err.constructor.name}: ${err.message}`);
    assert.equal(err.status, status);
    assert.match(err.requestID, /^req_/);
    assert.match(err.headers.get('x-request-id'), /^req_/);
  }
}

const usage = (u) => ({ input: u.input_tokens, output: u.output_tokens });
