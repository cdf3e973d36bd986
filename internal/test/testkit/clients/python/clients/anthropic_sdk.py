"""anthropic, on messages, sync and async."""

import anthropic
import httpx2
from harness.client import Answer, AsyncClient, Client, PlainStream, TaskStream, ToolRun, Usage
from harness.prompt import PIECES, PROMPT, TOOL, TOOL_SCHEMA

MESSAGES = [{"role": "user", "content": PROMPT}]
REQUEST = {"model": "claude-sonnet", "max_tokens": len(PIECES)}
TOOLS = [{"name": TOOL, "input_schema": TOOL_SCHEMA}]
KINDS = {"key": "AuthenticationError", "rate": "RateLimitError", "spent": "RateLimitError", "error": "APIStatusError", "hangup": "APIStatusError"}


def options(url, key, retries):
    """The SDK puts /v1 into its paths itself."""
    more = {} if retries is None else {"max_retries": retries}
    return {"base_url": url, "api_key": key, **more}


def usage_of(usage) -> Usage:
    return Usage(usage.input_tokens, usage.output_tokens)


def read_event(stream, event) -> str | None:
    if event.type == "message_delta":
        stream.usage = usage_of(event.usage)
    return event.delta.text if event.type == "content_block_delta" else None


def after_tool(first) -> list:
    result = {"type": "tool_result", "tool_use_id": first.content[0].id, "content": "done"}
    return [*MESSAGES, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]


def problem_of(client, error):
    """Refusals are of Anthropic's types."""
    problem = Client.problem(client, error)
    problem.code = getattr(error, "type", None)
    return problem


class Messages(Client):
    name = "anthropic"
    cases = frozenset({"tools", "tools_streamed", "models"})
    kinds = KINDS
    codes = {"rate": "rate_limit_error", "spent": "rate_limit_error"}
    problem = problem_of

    def __init__(self, url, key, wire, retries=None):
        self.sdk = anthropic.Anthropic(http_client=wire.sync(httpx2), **options(url, key, retries))

    def plain(self):
        answer = self.sdk.messages.create(messages=MESSAGES, **REQUEST)
        return Answer(answer.content[0].text, usage_of(answer.usage))

    def stream(self, with_usage=True):
        def pieces(stream):
            with self.sdk.messages.create(messages=MESSAGES, stream=True, **REQUEST) as events:
                for event in events:
                    if piece := read_event(stream, event):
                        yield piece

        return PlainStream(pieces)

    def tools(self, streamed):
        def ask(messages):
            if not streamed:
                return self.sdk.messages.create(messages=messages, tools=TOOLS, **REQUEST)
            with self.sdk.messages.stream(messages=messages, tools=TOOLS, **REQUEST) as events:
                return events.get_final_message()

        first = ask(MESSAGES)
        assert first.content[0].name == TOOL
        return ToolRun(first.content[0].input, ask(after_tool(first)).content[0].text)

    def models(self):
        return [model.id for model in self.sdk.models.list()]


class AsyncMessages(AsyncClient):
    name = "anthropic-async"
    cases = frozenset({"tools", "tools_streamed", "models"})
    kinds = KINDS
    codes = Messages.codes
    problem = problem_of

    def __init__(self, url, key, wire, retries=None):
        self.sdk = anthropic.AsyncAnthropic(http_client=wire.concurrent(httpx2), **options(url, key, retries))

    def plain(self):
        answer = self.run(self.sdk.messages.create(messages=MESSAGES, **REQUEST))
        return Answer(answer.content[0].text, usage_of(answer.usage))

    def stream(self, with_usage=True):
        async def pieces(stream):
            async with await self.sdk.messages.create(messages=MESSAGES, stream=True, **REQUEST) as events:
                async for event in events:
                    if piece := read_event(stream, event):
                        yield piece

        return TaskStream(self.loop, pieces)

    def tools(self, streamed):
        async def ask(messages):
            if not streamed:
                return await self.sdk.messages.create(messages=messages, tools=TOOLS, **REQUEST)
            async with self.sdk.messages.stream(messages=messages, tools=TOOLS, **REQUEST) as events:
                return await events.get_final_message()

        first = self.run(ask(MESSAGES))
        assert first.content[0].name == TOOL
        return ToolRun(first.content[0].input, self.run(ask(after_tool(first))).content[0].text)

    def models(self):
        async def ids():
            return [model.id async for model in self.sdk.models.list()]

        return self.run(ids())


CLIENTS = [Messages, AsyncMessages]
