"""The contract: what each client must see of the gateway, and the gateway's books of it."""

import math

import pytest
from harness import prompt
from harness.books import Slot, counted, eventually, leases, upstream
from harness.client import Answer, ToolRun, Usage
from harness.gateway import key_of
from harness.wire import Wire


@pytest.fixture
def connect(made, gateway):
    """Makes a client of the kind under test with a tenant's key: the client, and its wire."""

    def open_one(tenant: str, retries: int | None = None, **how):
        wire = Wire(**how)
        return made(gateway.url, key_of(tenant), wire, retries), wire

    return open_one


def needs(made, case: str) -> None:
    if case not in made.cases:
        pytest.skip(f"{made.name} has no {case}")


def can_stream(made) -> None:
    if "no_stream" in made.cases:
        pytest.skip(f"{made.name} does not stream")


def usage(made) -> Usage:
    return Usage(prompt.PROMPT_TOKENS[made.api], len(prompt.PIECES))


def test_plain(made, connect):
    client, _ = connect(made.name)
    assert client.plain() == Answer(prompt.TEXT, usage(made))


@pytest.mark.parametrize("with_usage", [True, False])
def test_stream(made, connect, gateway, with_usage):
    can_stream(made)
    if not with_usage:
        needs(made, "usage_by_request")
    before = counted(gateway, "llmgov_tokens_total", tenant=made.name, kind="output")
    client, _ = connect(made.name)
    stream = client.stream(with_usage)
    assert list(stream) == prompt.PIECES
    assert stream.usage == (usage(made) if with_usage else None)

    def charged():
        return counted(gateway, "llmgov_tokens_total", tenant=made.name, kind="output") - before

    eventually("charged output tokens", charged, len(prompt.PIECES))


@pytest.mark.parametrize("streamed", [False, True])
def test_tools(made, connect, streamed):
    needs(made, "tools_streamed" if streamed else "tools")
    client, wire = connect(made.name)
    assert client.tools(streamed) == ToolRun({"text": prompt.TOOL_TEXT}, prompt.TEXT)
    assert [(a.status, bool(a.body.get("stream"))) for a in wire.attempts] == [(200, streamed)] * 2


def test_embeddings(made, connect):
    needs(made, "embeddings")
    client, _ = connect(made.name)
    vectors = client.embed(["one", "two"])
    assert len(vectors) == 2
    for i, vector in enumerate(vectors):
        assert vector == pytest.approx(prompt.vector(i))


def test_models(made, connect):
    needs(made, "models")
    client, _ = connect(made.name)
    assert sorted(client.models()) == ["claude-sonnet", "gpt-4o", "text-embedding-3-small"]


def test_abort(made, connect, gateway):
    can_stream(made)
    before = upstream(gateway)["cancelled"]
    client, _ = connect(made.name, hook={"stall_after": 3})
    stream = client.stream()
    assert [next(stream) for _ in range(3)] == prompt.PIECES[:3]
    # Whatever has come was not kept back until the end: the call still runs.
    assert upstream(gateway)["running"] == 1
    assert leases(gateway, made.name) == 1
    stream.abort()
    eventually("calls that run upstream", lambda: upstream(gateway)["running"], 0)
    eventually("leases", lambda: leases(gateway, made.name), 0)
    assert upstream(gateway)["cancelled"] - before == 1


@pytest.mark.parametrize("way", ["error", "hangup"])
def test_broken_stream(made, connect, gateway, way):
    """A stream that breaks must never look like one that ended."""
    can_stream(made)
    client, wire = connect(made.name, hook={f"{way}_after": 5})
    stream = client.stream()
    got = []
    with pytest.raises(Exception) as caught:
        for piece in stream:
            got.append(piece)
    assert type(caught.value).__name__ == made.kinds[way]
    assert got == prompt.PIECES[: 5 if made.keeps_pieces else len(got)]
    assert len(wire.attempts) == 1, "half an answer is not asked for again"
    eventually("leases", lambda: leases(gateway, made.name), 0)


def test_wrong_key(made, connect):
    client, wire = connect("nobody")
    with pytest.raises(Exception) as caught:
        client.plain()
    problem = client.problem(caught.value)
    assert problem.status == 401
    assert problem.kind == made.kinds["key"]
    assert len(wire.attempts) == 1


def check_refusal(made, problem, wire, why: str, code: str) -> None:
    assert problem.status == 429
    assert problem.kind == made.kinds[why]
    assert problem.code == made.codes.get(why, code)
    told = wire.attempts[-1].headers
    if made.shows_headers:
        assert problem.headers["x-request-id"] == told["x-request-id"]
        assert problem.headers.get("retry-after") == told.get("retry-after")
    assert told["x-request-id"].startswith("req_")


def test_429_is_seen(made, connect, gateway):
    tenant = f"{made.name}-slot"
    slot = Slot(gateway, tenant)
    try:
        client, wire = connect(tenant, retries=0)
        with pytest.raises(Exception) as caught:
            client.plain()
        problem = client.problem(caught.value)
        check_refusal(made, problem, wire, "rate", "rate_limit_exceeded")
        told = wire.attempts[-1].headers
        assert int(told["retry-after"]) == math.ceil(int(told["retry-after-ms"]) / 1000)
        assert f"tenant {tenant} on concurrent calls" in problem.message
        assert "Please try again in" in problem.message
        assert len(wire.attempts) == 1
    finally:
        slot.release()


def test_429_is_come_back_from(made, connect, gateway):
    """Refused once, by the slot that another call holds until then."""
    tenant = f"{made.name}-again"
    slot = Slot(gateway, tenant)

    def on_answer(attempt):
        if attempt.status == 429:
            slot.release()

    client, wire = connect(tenant, on_answer=on_answer)
    assert client.plain().text == prompt.TEXT
    assert [a.status for a in wire.attempts] == [429, 200]
    refused, served = wire.attempts
    promised = int(refused.headers["retry-after-ms"]) / 1000
    assert promised == 1
    if made.obeys_retry_after:
        assert served.sent - refused.came >= promised


def test_spent_budget(made, connect, gateway):
    tenant = f"{made.name}-budget"
    client, wire = connect(tenant)
    client.plain()  # takes it all: while nothing else runs, one call may
    eventually("leases", lambda: leases(gateway, tenant), 0)
    wire.attempts.clear()
    with pytest.raises(Exception) as caught:
        client.plain()
    check_refusal(made, client.problem(caught.value), wire, "spent", "insufficient_quota")
    assert wire.attempts[-1].headers["x-should-retry"] == "false"
    assert len(wire.attempts) == made.spent_attempts
    refused = counted(gateway, "llmgov_requests_total", tenant=tenant, outcome="refused", reason="budget")
    assert refused == made.spent_attempts
