"""What a client says of itself: how it is called, and what it makes of a refusal. The cases are in test_contract.py."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping

from .wire import Wire


@dataclasses.dataclass
class Usage:
    input: int
    output: int


@dataclasses.dataclass
class Answer:
    text: str
    usage: Usage


@dataclasses.dataclass
class ToolRun:
    """A call of the tool, and the answer after its result."""

    arguments: dict
    text: str


@dataclasses.dataclass
class Problem:
    """An error as its client shows it. What a client hides is None."""

    kind: str
    status: int | None
    code: str | None = None
    message: str = ""
    headers: Mapping[str, str] | None = None
    id: str | None = None


class Stream:
    """Pieces of an answer. usage is set at the end, if the client tells it."""

    usage: Usage | None = None

    def __next__(self) -> str:
        raise NotImplementedError

    def __iter__(self) -> Iterator[str]:
        return self

    def abort(self) -> None:
        raise NotImplementedError


class PlainStream(Stream):
    def __init__(self, pieces):
        self.pieces = pieces(self)

    def __next__(self) -> str:
        return next(self.pieces)

    def abort(self) -> None:
        self.pieces.close()


class TaskStream(Stream):
    """The stream of a task, which is aborted as tasks are: by its cancellation."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pieces):
        self.loop = loop
        self.come: asyncio.Queue[str] = asyncio.Queue()
        self.task = loop.create_task(self._read(pieces(self)))

    async def _read(self, pieces: AsyncIterator[str]) -> None:
        async for piece in pieces:
            self.come.put_nowait(piece)

    def __next__(self) -> str:
        try:
            return self.loop.run_until_complete(self._next())
        except StopAsyncIteration:
            raise StopIteration from None

    async def _next(self) -> str:
        piece = asyncio.ensure_future(self.come.get())
        await asyncio.wait([piece, self.task], return_when=asyncio.FIRST_COMPLETED)
        if piece.done():
            return piece.result()
        piece.cancel()
        await self.task  # raises the stream's error, if it had one
        raise StopAsyncIteration

    def abort(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self.loop.run_until_complete(self.task)
        assert self.task.cancelled(), "the client swallowed its cancellation"


class Client:
    """A client with a key, on a wire. retries is the client's default if it is None."""

    name: str  # also the tenant's
    api = "chat"  # which decides how long a prompt is
    cases: frozenset[str]  # of plain, stream, usage_by_request, tools, tools_streamed, embeddings, models
    kinds: dict[str, str]  # the errors' classes: key, rate, spent, error and hangup (in mid-stream)
    codes: dict[str, str] = {}  # as the client shows them, if it does not show llmgov's
    spent_attempts = 1
    keeps_pieces = True  # that came before a stream's error
    obeys_retry_after = True
    shows_headers = True

    def __init__(self, url: str, key: str, wire: Wire, retries: int | None = None):
        raise NotImplementedError

    def plain(self) -> Answer:
        raise NotImplementedError

    def stream(self, with_usage: bool = True) -> Stream:
        raise NotImplementedError

    def tools(self, streamed: bool) -> ToolRun:
        raise NotImplementedError

    def embed(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError

    def models(self) -> list[str]:
        raise NotImplementedError

    def problem(self, error: Exception) -> Problem:
        """The error of an SDK made by Stainless, or of whatever wraps one."""
        status = getattr(error, "status_code", None)
        answer = getattr(error, "response", None)
        return Problem(
            kind=type(error).__name__,
            status=status,
            code=getattr(error, "code", None),
            message=str(error),
            headers=answer.headers if answer is not None else None,
            id=getattr(error, "request_id", None),
        )


class AsyncClient(Client):
    """A client whose calls are coroutines. All run on one loop, because some clients keep workers on theirs."""

    loop = asyncio.new_event_loop()

    def run(self, work: Coroutine):
        return self.loop.run_until_complete(work)
