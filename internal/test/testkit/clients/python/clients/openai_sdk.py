"""openai: chat completions and responses, sync and async."""

import json

import httpx2
import openai
from harness.client import Answer, AsyncClient, Client, PlainStream, TaskStream, ToolRun, Usage
from harness.prompt import PROMPT, TOOL, TOOL_SCHEMA

KINDS = {"key": "AuthenticationError", "rate": "RateLimitError", "spent": "RateLimitError", "error": "APIError", "hangup": "APIError"}
MESSAGES = [{"role": "user", "content": PROMPT}]
TOOLS = [{"type": "function", "function": {"name": TOOL, "parameters": TOOL_SCHEMA}}]
ITEM_TOOLS = [{"type": "function", "name": TOOL, "parameters": TOOL_SCHEMA, "strict": False}]
EVERY_CASE = frozenset({"usage_by_request", "tools", "tools_streamed", "embeddings", "models"})


def options(url, key, retries):
    more = {} if retries is None else {"max_retries": retries}
    return {"base_url": f"{url}/v1", "api_key": key, **more}


def usage_of(usage) -> Usage:
    return Usage(usage.prompt_tokens, usage.completion_tokens)


def usage_of_items(usage) -> Usage:
    return Usage(usage.input_tokens, usage.output_tokens)


def chat_stream(with_usage: bool) -> dict:
    more = {"stream_options": {"include_usage": True}} if with_usage else {}
    return {"model": "gpt-4o", "messages": MESSAGES, "stream": True, **more}


def read_chunk(stream, chunk, with_usage: bool) -> str | None:
    if chunk.usage:
        stream.usage = usage_of(chunk.usage)
    if not with_usage:
        assert len(chunk.choices) == 1, f"a chunk that nobody asked for: {chunk}"
    return chunk.choices[0].delta.content if chunk.choices else None


class BrokenResponse(Exception):
    """The SDK returns an error of a response as an event, so a program has to look for it."""


def read_event(stream, event) -> str | None:
    if event.type == "error":
        raise BrokenResponse(event.message)
    if event.type == "response.completed":
        stream.usage = usage_of_items(event.response.usage)
    return event.delta if event.type == "response.output_text.delta" else None


def after_tool(message, call) -> list:
    return [*MESSAGES, message, {"role": "tool", "tool_call_id": call.id, "content": "done"}]


def after_item_tool(item) -> list:
    return [*MESSAGES, item, {"type": "function_call_output", "call_id": item.call_id, "output": "done"}]


class Chat(Client):
    name = "openai-chat"
    cases = EVERY_CASE
    kinds = KINDS

    def __init__(self, url, key, wire, retries=None):
        self.sdk = openai.OpenAI(http_client=wire.sync(httpx2), **options(url, key, retries))

    def plain(self):
        answer = self.sdk.chat.completions.create(model="gpt-4o", messages=MESSAGES)
        return Answer(answer.choices[0].message.content, usage_of(answer.usage))

    def stream(self, with_usage=True):
        def pieces(stream):
            with self.sdk.chat.completions.create(**chat_stream(with_usage)) as chunks:
                for chunk in chunks:
                    if piece := read_chunk(stream, chunk, with_usage):
                        yield piece

        return PlainStream(pieces)

    def tools(self, streamed):
        def ask(messages):
            if not streamed:
                return self.sdk.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS).choices[0].message
            with self.sdk.chat.completions.stream(model="gpt-4o", messages=messages, tools=TOOLS) as events:
                return events.get_final_completion().choices[0].message

        first = ask(MESSAGES)
        call = first.tool_calls[0]
        assert call.function.name == TOOL
        return ToolRun(json.loads(call.function.arguments), ask(after_tool(first, call)).content)

    def embed(self, texts):
        return [item.embedding for item in self.sdk.embeddings.create(model="text-embedding-3-small", input=texts).data]

    def models(self):
        return [model.id for model in self.sdk.models.list()]


class AsyncChat(AsyncClient):
    name = "openai-chat-async"
    cases = EVERY_CASE
    kinds = KINDS

    def __init__(self, url, key, wire, retries=None):
        self.sdk = openai.AsyncOpenAI(http_client=wire.concurrent(httpx2), **options(url, key, retries))

    def plain(self):
        answer = self.run(self.sdk.chat.completions.create(model="gpt-4o", messages=MESSAGES))
        return Answer(answer.choices[0].message.content, usage_of(answer.usage))

    def stream(self, with_usage=True):
        async def pieces(stream):
            async with await self.sdk.chat.completions.create(**chat_stream(with_usage)) as chunks:
                async for chunk in chunks:
                    if piece := read_chunk(stream, chunk, with_usage):
                        yield piece

        return TaskStream(self.loop, pieces)

    def tools(self, streamed):
        async def ask(messages):
            if not streamed:
                answer = await self.sdk.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS)
                return answer.choices[0].message
            async with self.sdk.chat.completions.stream(model="gpt-4o", messages=messages, tools=TOOLS) as events:
                return (await events.get_final_completion()).choices[0].message

        first = self.run(ask(MESSAGES))
        call = first.tool_calls[0]
        assert call.function.name == TOOL
        return ToolRun(json.loads(call.function.arguments), self.run(ask(after_tool(first, call))).content)

    def embed(self, texts):
        answer = self.run(self.sdk.embeddings.create(model="text-embedding-3-small", input=texts))
        return [item.embedding for item in answer.data]

    def models(self):
        async def ids():
            return [model.id async for model in self.sdk.models.list()]

        return self.run(ids())


ITEM_KINDS = {**KINDS, "error": "BrokenResponse"}


class Responses(Client):
    name = "openai-responses"
    api = "responses"
    cases = frozenset({"tools", "tools_streamed"})
    kinds = ITEM_KINDS

    def __init__(self, url, key, wire, retries=None):
        self.sdk = openai.OpenAI(http_client=wire.sync(httpx2), **options(url, key, retries))

    def plain(self):
        answer = self.sdk.responses.create(model="gpt-4o", input=PROMPT)
        return Answer(answer.output_text, usage_of_items(answer.usage))

    def stream(self, with_usage=True):
        def pieces(stream):
            with self.sdk.responses.create(model="gpt-4o", input=PROMPT, stream=True) as events:
                for event in events:
                    if piece := read_event(stream, event):
                        yield piece

        return PlainStream(pieces)

    def tools(self, streamed):
        def ask(items):
            if not streamed:
                return self.sdk.responses.create(model="gpt-4o", input=items, tools=ITEM_TOOLS)
            with self.sdk.responses.stream(model="gpt-4o", input=items, tools=ITEM_TOOLS) as events:
                return events.get_final_response()

        item = ask(MESSAGES).output[0]
        assert item.name == TOOL
        return ToolRun(json.loads(item.arguments), ask(after_item_tool(item)).output_text)


class AsyncResponses(AsyncClient):
    name = "openai-responses-async"
    api = "responses"
    cases = frozenset({"tools", "tools_streamed"})
    kinds = ITEM_KINDS

    def __init__(self, url, key, wire, retries=None):
        self.sdk = openai.AsyncOpenAI(http_client=wire.concurrent(httpx2), **options(url, key, retries))

    def plain(self):
        answer = self.run(self.sdk.responses.create(model="gpt-4o", input=PROMPT))
        return Answer(answer.output_text, usage_of_items(answer.usage))

    def stream(self, with_usage=True):
        async def pieces(stream):
            async with await self.sdk.responses.create(model="gpt-4o", input=PROMPT, stream=True) as events:
                async for event in events:
                    if piece := read_event(stream, event):
                        yield piece

        return TaskStream(self.loop, pieces)

    def tools(self, streamed):
        async def ask(items):
            if not streamed:
                return await self.sdk.responses.create(model="gpt-4o", input=items, tools=ITEM_TOOLS)
            async with self.sdk.responses.stream(model="gpt-4o", input=items, tools=ITEM_TOOLS) as events:
                return await events.get_final_response()

        item = self.run(ask(MESSAGES)).output[0]
        assert item.name == TOOL
        return ToolRun(json.loads(item.arguments), self.run(ask(after_item_tool(item))).output_text)


CLIENTS = [Chat, AsyncChat, Responses, AsyncResponses]
