// Vercel's AI SDK: ai with @ai-sdk/openai, on responses, which is what it takes
// by itself, and on chat completions.

import { createOpenAI } from '@ai-sdk/openai';
import { embedMany, generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

import { prompt, speak } from '../harness/prompt.mjs';

const common = {
  package: '@ai-sdk/openai',

  connect: ({ url, key, fetch, retries }) => ({
    provider: createOpenAI({ baseURL: `${url}/v1`, apiKey: key, fetch }), maxRetries: retries,
  }),

  async plain(client) {
    const answer = await generateText({ model: this.model(client.provider), prompt, maxRetries: client.maxRetries });
    return { text: answer.text, usage: usage(answer.usage) };
  },

  async* stream(client, { signal }) {
    const answer = streamText({
      model: this.model(client.provider), prompt, abortSignal: signal, maxRetries: client.maxRetries,
      onError() {}, // else it is printed
    });
    let told = null;
    // textStream would end without a word: errors and aborts are parts of fullStream.
    for await (const part of answer.fullStream) {
      if (part.type === 'text-delta') yield part.text;
      if (part.type === 'finish') told = usage(part.totalUsage);
      if (part.type === 'error') throw part.error;
      if (part.type === 'abort') throw new DOMException('aborted', 'AbortError');
    }
    return told;
  },

  async tools(client, streamed) {
    let args;
    const params = {
      model: this.model(client.provider), prompt, stopWhen: stepCountIs(2),
      tools: { [speak.name]: tool({ inputSchema: z.object({ text: z.string() }), execute: async (input) => { args = input; return 'done'; } }) },
    };
    const answer = streamed ? streamText(params) : await generateText(params);
    const [first] = await answer.steps;
    return { name: first.toolCalls[0].toolName, args, text: await answer.text };
  },

  problem(err) {
    const last = err.lastError ?? err;
    return {
      kind: err.constructor.name, status: last.statusCode, code: last.data?.error.code, message: last.message,
      header: (name) => last.responseHeaders[name], id: last.responseHeaders['x-request-id'],
    };
  },
  kinds: { key: 'APICallError', rate: 'APICallError', spent: 'RetryError' },
  obeysRetryAfter: true,
  ownWait: 2000,
  spentAttempts: 3,
  aborted: 'AbortError',
};

export const responses = {
  ...common,
  name: 'ai, responses',
  tenant: 'ai-responses',
  api: 'responses',
  model: (openai) => openai('gpt-4o'),
  broken: { kind: 'StreamProviderError', message: /server had an error/ },
};

export const chat = {
  ...common,
  name: 'ai, chat',
  tenant: 'ai-chat',
  api: 'chat',
  model: (openai) => openai.chat('gpt-4o'),
  usageIsAsked: true, // always

  async embed(client, texts) {
    const answer = await embedMany({ model: client.provider.embeddingModel('text-embedding-3-small'), values: texts });
    return { vectors: answer.embeddings, tokens: answer.usage.tokens };
  },

  broken: { kind: 'StreamProviderError', message: /server had an error/ },
};

const usage = (u) => ({ input: u.inputTokens, output: u.outputTokens });
