"""openai-agents: an agent that runs the tool itself, on chat completions and on responses."""

import agents
import httpx2
import openai
from harness.client import Answer, AsyncClient, TaskStream, ToolRun, Usage
from harness.prompt import PROMPT
from openai.types.responses import ResponseTextDeltaEvent

agents.set_tracing_disabled(True)


class Chat(AsyncClient):
    name = "openai-agents-chat"
    cases = frozenset({"tools", "tools_streamed"})
    kinds = {"key": "AuthenticationError", "rate": "RateLimitError", "spent": "RateLimitError", "error": "APIError", "hangup": "APIError"}
    keeps_pieces = False
    make = agents.OpenAIChatCompletionsModel

    def __init__(self, url, key, wire, retries=None):
        more = {} if retries is None else {"max_retries": retries}
        sdk = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, http_client=wire.concurrent(httpx2), **more)
        self.model = self.make("gpt-4o", openai_client=sdk)

    def agent(self, tools=()):
        settings = agents.ModelSettings(include_usage=True)
        return agents.Agent(name="speaker", model=self.model, tools=list(tools), model_settings=settings)

    def plain(self):
        return self.answer(self.run(agents.Runner.run(self.agent(), PROMPT)))

    @staticmethod
    def answer(result) -> Answer:
        usage = result.context_wrapper.usage
        return Answer(result.final_output, Usage(usage.input_tokens, usage.output_tokens))

    def stream(self, with_usage=True):
        async def pieces(stream):
            result = agents.Runner.run_streamed(self.agent(), PROMPT)
            try:
                async for event in result.stream_events():
                    if event.type == "raw_response_event" and isinstance(event.data, ResponseTextDeltaEvent):
                        yield event.data.delta
            finally:
                result.cancel()
            usage = result.context_wrapper.usage
            stream.usage = Usage(usage.input_tokens, usage.output_tokens)

        return TaskStream(self.loop, pieces)

    def tools(self, streamed):
        seen = []

        @agents.function_tool
        def speak(text: str) -> str:
            seen.append({"text": text})
            return "done"

        async def ask():
            agent = self.agent([speak])
            if not streamed:
                return (await agents.Runner.run(agent, PROMPT)).final_output
            result = agents.Runner.run_streamed(agent, PROMPT)
            async for _ in result.stream_events():
                pass
            return result.final_output

        text = self.run(ask())
        assert len(seen) == 1
        return ToolRun(seen[0], text)


class Responses(Chat):
    name = "openai-agents-responses"
    api = "responses"
    kinds = {**Chat.kinds, "error": "ModelBehaviorError"}
    make = agents.OpenAIResponsesModel


class Sync(Chat):
    """run_sync has a loop of its own."""

    name = "openai-agents"
    cases = frozenset({"no_stream"})

    def plain(self):
        return self.answer(agents.Runner.run_sync(self.agent(), PROMPT))


CLIENTS = [Chat, Responses, Sync]
