"""langchain-openai, sync and async."""

import httpx2
from harness.client import Answer, AsyncClient, Client, PlainStream, TaskStream, ToolRun, Usage
from harness.prompt import PROMPT, TOOL, TOOL_SCHEMA
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

KINDS = {"key": "OpenAIAuthenticationError", "rate": "OpenAIRateLimitError", "spent": "OpenAIRateLimitError", "error": "APIError", "hangup": "APIError"}
CASES = frozenset({"tools", "tools_streamed", "embeddings"})
TOOLS = [{"type": "function", "function": {"name": TOOL, "parameters": TOOL_SCHEMA}}]
QUESTION = HumanMessage(PROMPT)


def options(url, key, retries) -> dict:
    more = {} if retries is None else {"max_retries": retries}
    return {"base_url": f"{url}/v1", "api_key": key, **more}


def usage_of(message) -> Usage:
    return Usage(message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"])


def read_chunk(stream, chunk) -> str:
    if chunk.usage_metadata:
        stream.usage = usage_of(chunk)
    return chunk.content


def added(chunks):
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    return total


def after_tool(first) -> list:
    return [QUESTION, first, ToolMessage("done", tool_call_id=first.tool_calls[0]["id"])]


class Sync(Client):
    name = "langchain"
    cases = CASES
    kinds = KINDS

    def __init__(self, url, key, wire, retries=None):
        how = {**options(url, key, retries), "http_client": wire.sync(httpx2)}
        self.chat = ChatOpenAI(model="gpt-4o", stream_usage=True, **how)
        self.embeddings = OpenAIEmbeddings(model="text-embedding-3-small", check_embedding_ctx_length=False, **how)

    def plain(self):
        answer = self.chat.invoke([QUESTION])
        return Answer(answer.content, usage_of(answer))

    def stream(self, with_usage=True):
        def pieces(stream):
            for chunk in self.chat.stream([QUESTION]):
                if piece := read_chunk(stream, chunk):
                    yield piece

        return PlainStream(pieces)

    def tools(self, streamed):
        chat = self.chat.bind_tools(TOOLS)

        def ask(messages):
            return added(list(chat.stream(messages))) if streamed else chat.invoke(messages)

        first = ask([QUESTION])
        assert first.tool_calls[0]["name"] == TOOL
        return ToolRun(first.tool_calls[0]["args"], ask(after_tool(first)).content)

    def embed(self, texts):
        return self.embeddings.embed_documents(texts)


class Async(AsyncClient):
    name = "langchain-async"
    cases = CASES
    kinds = KINDS

    def __init__(self, url, key, wire, retries=None):
        how = {**options(url, key, retries), "http_async_client": wire.concurrent(httpx2)}
        self.chat = ChatOpenAI(model="gpt-4o", stream_usage=True, **how)
        self.embeddings = OpenAIEmbeddings(model="text-embedding-3-small", check_embedding_ctx_length=False, **how)

    def plain(self):
        answer = self.run(self.chat.ainvoke([QUESTION]))
        return Answer(answer.content, usage_of(answer))

    def stream(self, with_usage=True):
        async def pieces(stream):
            async for chunk in self.chat.astream([QUESTION]):
                if piece := read_chunk(stream, chunk):
                    yield piece

        return TaskStream(self.loop, pieces)

    def tools(self, streamed):
        chat = self.chat.bind_tools(TOOLS)

        async def ask(messages):
            if streamed:
                return added([chunk async for chunk in chat.astream(messages)])
            return await chat.ainvoke(messages)

        first = self.run(ask([QUESTION]))
        assert first.tool_calls[0]["name"] == TOOL
        return ToolRun(first.tool_calls[0]["args"], self.run(ask(after_tool(first))).content)

    def embed(self, texts):
        return self.run(self.embeddings.aembed_documents(texts))


CLIENTS = [Sync, Async]
