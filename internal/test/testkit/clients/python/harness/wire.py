"""Transports for the clients' HTTP library. They keep each attempt, and put the model server's hook into bodies."""

import dataclasses
import json
import time
from collections.abc import Callable
from types import ModuleType


@dataclasses.dataclass
class Attempt:
    body: dict
    sent: float
    came: float = 0
    status: int = 0
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


class Wire:
    """The attempts of one client. Clients differ in which generation of httpx they are made with."""

    def __init__(self, hook: dict | None = None, on_answer: Callable[[Attempt], None] | None = None):
        self.hook = hook
        self.on_answer = on_answer
        self.attempts: list[Attempt] = []

    def sync(self, httpx: ModuleType):
        wire = self

        class Transport(httpx.HTTPTransport):
            def handle_request(self, request):
                answer = super().handle_request(wire.leaves(httpx, request))
                wire.came(answer)
                return answer

        return httpx.Client(transport=Transport(), timeout=30)

    def concurrent(self, httpx: ModuleType):
        wire = self

        class Transport(httpx.AsyncHTTPTransport):
            async def handle_async_request(self, request):
                answer = await super().handle_async_request(wire.leaves(httpx, request))
                wire.came(answer)
                return answer

        return httpx.AsyncClient(transport=Transport(), timeout=30)

    def leaves(self, httpx: ModuleType, request):
        body = json.loads(request.content or b"{}")
        self.attempts.append(Attempt(body, time.monotonic()))
        if not self.hook or request.method != "POST":
            return request
        headers = request.headers.copy()
        del headers["content-length"]
        content = json.dumps({**body, "mock": self.hook}).encode()
        return httpx.Request(request.method, request.url, headers=headers, content=content, extensions=request.extensions)

    def came(self, answer) -> None:
        attempt = self.attempts[-1]
        attempt.came = time.monotonic()
        attempt.status = answer.status_code
        attempt.headers = dict(answer.headers)
        if self.on_answer:
            self.on_answer(attempt)
