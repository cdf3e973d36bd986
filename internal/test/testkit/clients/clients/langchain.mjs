// @langchain/openai.

import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai';

import { prompt, speak } from '../harness/prompt.mjs';

export const langchain = {
  name: '@langchain/openai',
  package: '@langchain/openai',
  tenant: 'langchain',
  api: 'chat',

  connect: ({ url, key, fetch, retries }) => {
    const configuration = { baseURL: `${url}/v1`, fetch };
    return {
      model: (more) => new ChatOpenAI({ model: 'gpt-4o', apiKey: key, configuration, maxRetries: retries, ...more }),
      embeddings: () => new OpenAIEmbeddings({ model: 'text-embedding-3-small', apiKey: key, configuration, maxRetries: retries }),
    };
  },

  async plain(client) {
    const answer = await client.model().invoke(prompt);
    return { text: answer.content, usage: usage(answer.usage_metadata) };
  },

  async* stream(client, { withUsage, signal }) {
    const stream = await client.model({ streamUsage: withUsage }).stream(prompt, { signal });
    let told = null;
    for await (const chunk of stream) {
      if (chunk.usage_metadata) told = usage(chunk.usage_metadata);
      if (chunk.content) yield chunk.content;
    }
    return told;
  },
  usageIsAsked: true, // unless it is told not to
  usageIsOptional: true,

  async tools(client, streamed) {
    const model = client.model().bindTools([{ type: 'function', function: { name: speak.name, parameters: speak.schema } }]);
    const messages = [new HumanMessage(prompt)];
    const ask = async () => {
      if (!streamed) return model.invoke(messages);
      // Not invoke with streaming: true, which fetches a tokenizer's table from the net.
      const chunks = [];
      for await (const chunk of await model.stream(messages)) chunks.push(chunk);
      return chunks.reduce((sum, chunk) => sum.concat(chunk));
    };
    const first = await ask();
    const [call] = first.tool_calls;
    messages.push(first, new ToolMessage({ content: 'done', tool_call_id: call.id }));
    return { name: call.name, args: call.args, text: (await ask()).content };
  },

  async embed(client, texts) {
    return { vectors: await client.embeddings().embedDocuments(texts) };
  },

  problem: (err) => ({
    kind: err.constructor.name, status: err.status, code: err.code, message: err.message,
    header: (name) => err.headers.get(name), id: err.requestID,
  }),
  kinds: { key: 'AuthenticationError', rate: 'RateLimitError', spent: 'RateLimitError' },
  obeysRetryAfter: false,
  spentAttempts: 1,
  aborted: 'AbortError',
  broken: { kind: 'APIError', message: /server had an error/ },
};

const usage = (u) => ({ input: u.input_tokens, output: u.output_tokens });
