// openai: the SDK for JavaScript, on chat completions and on responses.

import OpenAI from 'openai';

import { prompt, speak } from '../harness/prompt.mjs';

const connect = ({ url, key, fetch, retries }) => new OpenAI({ baseURL: `${url}/v1`, apiKey: key, fetch, maxRetries: retries });

const common = {
  package: 'openai',
  connect,

  async embed(client, texts) {
    const answer = await client.embeddings.create({ model: 'text-embedding-3-small', input: texts });
    return { vectors: answer.data.map((item) => item.embedding), tokens: answer.usage.prompt_tokens };
  },

  async models(client) {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    return ids;
  },

  problem: (err) => ({
    kind: err.constructor.name, status: err.status, code: err.code, message: err.message,
    header: (name) => err.headers.get(name), id: err.requestID,
  }),
  kinds: { key: 'AuthenticationError', rate: 'RateLimitError', spent: 'RateLimitError' },
  obeysRetryAfter: true,
  ownWait: 500, // ms at most, before its first retry, when it is told nothing
  spentAttempts: 1,
  aborted: null, // the stream just ends,
};

export const chat = {
  ...common,
  name: 'openai, chat',
  tenant: 'openai-chat',
  api: 'chat',

  async plain(client) {
    const answer = await client.chat.completions.create({ model: 'gpt-4o', messages: [{ role: 'user', content: prompt }] });
    return { text: answer.choices[0].message.content, usage: usage(answer.usage) };
  },

  async* stream(client, { withUsage, signal }) {
    const stream = await client.chat.completions.create({
      model: 'gpt-4o', messages: [{ role: 'user', content: prompt }], stream: true,
      ...(withUsage && { stream_options: { include_usage: true } }),
    }, { signal });
    let told = null;
    for await (const chunk of stream) {
      if (chunk.usage) told = usage(chunk.usage);
      if (chunk.choices[0]?.delta.content) yield chunk.choices[0].delta.content;
      if (!withUsage && chunk.choices.length !== 1) throw new Error(`a chunk that nobody asked for: ${JSON.stringify(chunk)}`);
    }
    return told;
  },
  usageIsAsked: true,
  usageIsOptional: true,

  async tools(client, streamed) {
    const messages = [{ role: 'user', content: prompt }];
    const tools = [{ type: 'function', function: { name: speak.name, parameters: speak.schema } }];
    const ask = async () => {
      const params = { model: 'gpt-4o', messages, tools };
      const answer = streamed
        ? await client.chat.completions.stream(params).finalChatCompletion()
        : await client.chat.completions.create(params);
      return answer.choices[0];
    };
    const first = await ask();
    const [call] = first.message.tool_calls;
    messages.push(first.message, { role: 'tool', tool_call_id: call.id, content: 'done' });
    return { name: call.function.name, args: JSON.parse(call.function.arguments), text: (await ask()).message.content };
  },

  broken: { kind: 'APIError', message: /server had an error/ },
};

export const responses = {
  ...common,
  name: 'openai, responses',
  tenant: 'openai-responses',
  api: 'responses',
  embed: undefined, // as above
  models: undefined,

  async plain(client) {
    const answer = await client.responses.create({ model: 'gpt-4o', input: prompt });
    return { text: answer.output_text, usage: itemUsage(answer.usage) };
  },

  async* stream(client, { signal }) {
    const stream = await client.responses.create({ model: 'gpt-4o', input: prompt, stream: true }, { signal });
    let told = null;
    for await (const event of stream) {
      if (event.type === 'response.output_text.delta') yield event.delta;
      if (event.type === 'response.completed') told = itemUsage(event.response.usage);
    }
    return told;
  },

  async tools(client, streamed) {
    const input = [{ role: 'user', content: prompt }];
    const tools = [{ type: 'function', name: speak.name, parameters: speak.schema, strict: false }];
    const ask = () => {
      const params = { model: 'gpt-4o', input, tools };
      return streamed ? client.responses.stream(params).finalResponse() : client.responses.create(params);
    };
    const [call] = (await ask()).output;
    input.push(call, { type: 'function_call_output', call_id: call.call_id, output: 'done' });
    return { name: call.name, args: JSON.parse(call.arguments), text: (await ask()).output_text };
  },

  broken: { kind: 'APIError', message: /server had an error/ },
};

const usage = (u) => ({ input: u.prompt_tokens, output: u.completion_tokens });
const itemUsage = (u) => ({ input: u.input_tokens, output: u.output_tokens });
