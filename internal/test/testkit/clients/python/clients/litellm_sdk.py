"""litellm as a client, sync and async."""

import contextlib
import json

import httpx
import litellm
from harness.client import Answer, AsyncClient, Client, PlainStream, TaskStream, ToolRun, Usage
from harness.prompt import PROMPT, TOOL, TOOL_SCHEMA

MESSAGES = [{"role": "user", "content": PROMPT}]
KINDS = {"key": "AuthenticationError", "rate": "RateLimitError", "spent": "RateLimitError", "error": "MidStreamFallbackError", "hangup": "MidStreamFallbackError"}
TOOLS = [{"type": "function", "function": {"name": TOOL, "parameters": TOOL_SCHEMA}}]
CASES = frozenset({"usage_by_request", "tools", "tools_streamed", "embeddings"})

litellm.telemetry = False
litellm.suppress_debug_info = True


def usage_of(usage) -> Usage:
    return Usage(usage.prompt_tokens, usage.completion_tokens)


def read_chunk(stream, chunk) -> str | None:
    if getattr(chunk, "usage", None):
        stream.usage = usage_of(chunk.usage)
    return chunk.choices[0].delta.content if chunk.choices else None


def streaming(with_usage: bool) -> dict:
    return {"stream": True, **({"stream_options": {"include_usage": True}} if with_usage else {})}


def after_tool(message) -> list:
    return [*MESSAGES, message, {"role": "tool", "tool_call_id": message.tool_calls[0]["id"], "content": "done"}]


def tool_run(message, text) -> ToolRun:
    function = message.tool_calls[0]["function"]
    assert function["name"] == TOOL
    return ToolRun(json.loads(function["arguments"]), text)


class Sync(Client):
    name = "litellm"
    cases = CASES
    kinds = KINDS
    codes = {"rate": "429", "spent": "429"}
    shows_headers = False  # by these names: it puts llm_provider- before them

    def __init__(self, url, key, wire, retries=None):
        litellm.client_session = wire.sync(httpx)
        litellm.in_memory_llm_clients_cache.flush_cache()
        more = {} if retries is None else {"max_retries": retries}
        self.how = {"api_base": f"{url}/v1", "api_key": key, **more}

    def plain(self):
        answer = litellm.completion("openai/gpt-4o", MESSAGES, **self.how)
        return Answer(answer.choices[0].message.content, usage_of(answer.usage))

    def stream(self, with_usage=True):
        def pieces(stream):
            chunks = litellm.completion("openai/gpt-4o", MESSAGES, **streaming(with_usage), **self.how)
            # The stream that litellm returns cannot be closed. The one in it can.
            with contextlib.closing(chunks.completion_stream):
                for chunk in chunks:
                    if piece := read_chunk(stream, chunk):
                        yield piece

        return PlainStream(pieces)

    def tools(self, streamed):
        def ask(messages):
            if not streamed:
                return litellm.completion("openai/gpt-4o", messages, tools=TOOLS, **self.how).choices[0].message
            chunks = list(litellm.completion("openai/gpt-4o", messages, tools=TOOLS, stream=True, **self.how))
            return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message

        first = ask(MESSAGES)
        return tool_run(first, ask(after_tool(first)).content)

    def embed(self, texts):
        answer = litellm.embedding("openai/text-embedding-3-small", input=texts, encoding_format="float", **self.how)
        return [item["embedding"] for item in answer.data]


class Async(AsyncClient):
    name = "litellm-async"
    cases = CASES
    kinds = KINDS
    codes = {"rate": "429", "spent": "429"}
    shows_headers = False  # by these names: it puts llm_provider- before them

    def __init__(self, url, key, wire, retries=None):
        litellm.aclient_session = wire.concurrent(httpx)
        litellm.in_memory_llm_clients_cache.flush_cache()
        more = {} if retries is None else {"max_retries": retries}
        self.how = {"api_base": f"{url}/v1", "api_key": key, **more}

    def plain(self):
        answer = self.run(litellm.acompletion("openai/gpt-4o", MESSAGES, **self.how))
        return Answer(answer.choices[0].message.content, usage_of(answer.usage))

    def stream(self, with_usage=True):
        async def pieces(stream):
            chunks = await litellm.acompletion("openai/gpt-4o", MESSAGES, **streaming(with_usage), **self.how)
            async for chunk in chunks:
                if piece := read_chunk(stream, chunk):
                    yield piece

        return TaskStream(self.loop, pieces)

    def tools(self, streamed):
        async def ask(messages):
            answer = await litellm.acompletion("openai/gpt-4o", messages, tools=TOOLS, stream=streamed, **self.how)
            if not streamed:
                return answer.choices[0].message
            chunks = [chunk async for chunk in answer]
            return litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message

        first = self.run(ask(MESSAGES))
        return tool_run(first, self.run(ask(after_tool(first))).content)

    def embed(self, texts):
        answer = self.run(litellm.aembedding("openai/text-embedding-3-small", input=texts, encoding_format="float", **self.how))
        return [item["embedding"] for item in answer.data]


CLIENTS = [Sync, Async]
