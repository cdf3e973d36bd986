"""pydantic-ai: an agent that runs the tool itself, sync and async."""

import httpx2
import openai
from harness.client import Answer, AsyncClient, TaskStream, ToolRun, Usage
from harness.prompt import PROMPT
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


class Async(AsyncClient):
    name = "pydantic-ai-async"
    cases = frozenset({"tools", "tools_streamed"})
    kinds = {"key": "ModelAuthenticationError", "rate": "ModelRateLimitError", "spent": "ModelQuotaExceededError", "error": "ModelServerError", "hangup": "ModelAPIError"}
    shows_headers = False

    def __init__(self, url, key, wire, retries=None):
        more = {} if retries is None else {"max_retries": retries}
        sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, http_client=wire.concurrent(httpx2), **more)
        self.model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=sdk))
        self.agent = Agent(self.model)

    def plain(self):
        return self.answer(self.run(self.agent.run(PROMPT)))

    @staticmethod
    def answer(result) -> Answer:
        usage = result.usage
        return Answer(result.output, Usage(usage.input_tokens, usage.output_tokens))

    def stream(self, with_usage=True):
        async def pieces(stream):
            async with self.agent.run_stream(PROMPT) as result:
                async for piece in result.stream_text(delta=True, debounce_by=None):
                    yield piece
                stream.usage = Usage(result.usage.input_tokens, result.usage.output_tokens)

        return TaskStream(self.loop, pieces)

    def tools(self, streamed):
        seen = []
        agent = Agent(self.model)

        @agent.tool_plain
        def speak(text: str) -> str:
            seen.append({"text": text})
            return "done"

        async def ask():
            if not streamed:
                return (await agent.run(PROMPT)).output
            async with agent.run_stream(PROMPT) as result:
                return await result.get_output()

        text = self.run(ask())
        assert len(seen) == 1
        return ToolRun(seen[0], text)

    def problem(self, error):
        problem = super().problem(error)
        problem.code = (error.body or {}).get("code")
        return problem


class Sync(Async):
    """run_sync has a loop of its own."""

    name = "pydantic-ai"
    cases = frozenset({"no_stream"})

    def plain(self):
        return self.answer(self.agent.run_sync(PROMPT))


CLIENTS = [Async, Sync]
