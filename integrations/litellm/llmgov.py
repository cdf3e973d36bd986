"""llmgov for the LiteLLM proxy: every call is reserved at llmgov before it is made, and committed after it.

Put this file beside LiteLLM's config, and name it there:

    litellm_settings:
      callbacks: [llmgov.governed]

Environment:

    LLMGOV_URL        the admission listener of llmgov; http://127.0.0.1:9091 by default
    LLMGOV_TOKEN      its admission.token
    LLMGOV_TENANT     the tenant of callers of whom nothing else says it; "" refuses them
    LLMGOV_MEMBER     user: the member is the user whom a call names, which any caller can write; else it is the user of its key
    LLMGOV_FAIL_OPEN  true lets calls through, ungoverned, while llmgov cannot be reached; they get 503 otherwise
    LLMGOV_TTL        seconds after which llmgov ends the call of a LiteLLM that has died; 60 by default

A caller's tenant is `llmgov_tenant` in the metadata of its team, else its team's alias, else the same of its key. Where users may
make keys of their own, give each a team: they could name any tenant in a key without one.

LiteLLM's hooks do not run on every way out of a call. So a reservation also belongs to the task that serves its request: it
is kept alive as long as that runs, and ended when it is done. If the whole process dies, llmgov ends it.
"""

import asyncio
import contextvars
import json
import os
import time
import uuid

import httpx
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import ProxyException

# The calls that reach a model, and what is known of the length of their answers.
TEXT = {"completion", "acompletion", "text_completion", "atext_completion", "anthropic_messages", "responses", "aresponses"}
NO_OUTPUT = {"embeddings", "embedding", "aembedding", "moderation", "amoderation", "rerank", "arerank"}
# Where a call has text that becomes part of its prompt.
PROMPT = ("messages", "prompt", "input", "system", "instructions", "tools", "functions", "response_format", "text", "prediction", "suffix", "query", "documents")
OPEN_OUTPUT = {"image_generation", "aimage_generation", "audio_transcription", "atranscription", "transcription", "audio_speech", "aspeech"}

# How long the usage of a stream that has ended is waited for, in seconds, and the time between two signs of life of a stream.
PATIENCE = 5
BEAT = 1


class Refused(ProxyException):
    """LiteLLM's own error, with OpenAI's code beside the status."""

    def to_dict(self):
        return {**super().to_dict(), "code": self.openai_code}


class Reservation:
    """A call that llmgov knows of, until it has ended."""

    def __init__(self, id, headers, ttl):
        self.id = id
        self.headers = headers
        self.ttl = ttl
        self.deltas = 0
        self.told = time.monotonic()  # when llmgov last heard of it
        self.ending = False  # somebody ends it
        self.ended = False
        self.interrupted = None
        self.usage = asyncio.get_running_loop().create_future()  # from LiteLLM's log


current = contextvars.ContextVar("llmgov_reservation", default=None)


class Llmgov(CustomLogger):
    def __init__(self):
        super().__init__()
        self.tenant = os.environ.get("LLMGOV_TENANT", "")
        self.by_user = os.environ.get("LLMGOV_MEMBER", "").lower() == "user"
        self.fail_open = os.environ.get("LLMGOV_FAIL_OPEN", "").lower() == "true"
        self.ttl = float(os.environ.get("LLMGOV_TTL", "60"))
        self.http = None
        self.logged = {}  # reservations of which LiteLLM's log may tell the usage, by the id of the call
        self.tasks = set()

    # Before the call

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        if call_type not in TEXT | NO_OUTPUT | OPEN_OUTPUT:
            return data
        call_id = str(data.get("litellm_call_id") or uuid.uuid4())
        ask = {
            "reservation_id": "rsv_" + uuid.uuid4().hex,
            "tenant": tenant_of(user_api_key_dict) or self.tenant,
            "model": str(data.get("model") or ""),
            "request_id": "".join(c for c in call_id if "!" <= c <= "~")[:128],
            "input_bytes": size_of(data),
            "stream": data.get("stream") is True,
            "ttl_seconds": self.ttl,
        }
        member = getattr(user_api_key_dict, "user_id", None)  # whom LiteLLM has checked
        if self.by_user:
            member = data.get("user") or getattr(user_api_key_dict, "end_user_id", None) or member
        if member:
            ask["member"] = str(member)[:256]
        bound = next((data[k] for k in ("max_completion_tokens", "max_tokens", "max_output_tokens") if whole(data.get(k))), 0)
        if call_type in TEXT and bound:
            ask["max_output_tokens"] = min(bound, 2**53)  # beyond a thousand million it is none
        if whole(data.get("n")):
            ask["copies"] = data["n"]
        if call_type in NO_OUTPUT:
            ask["no_output"] = True
        if call_type in OPEN_OUTPUT:
            ask["open_output"] = True
        reservation = await self.reserve(ask)
        if reservation is not None:
            current.set(reservation)
            self.logged[call_id] = reservation
            self.look_after(reservation, call_id, asyncio.current_task())
        return data

    async def reserve(self, ask):
        try:
            answer = await self.post("", ask, timeout=None)
        except asyncio.CancelledError:  # it may have been made, although the answer comes too late
            self.spawn(self.cancel(ask["reservation_id"]))
            raise
        except httpx.HTTPError as lost:
            self.spawn(self.cancel(ask["reservation_id"]))  # it may have been made all the same
            if self.fail_open:
                return None
            raise Refused(f"llmgov cannot be asked: {lost!r}", "admission_unavailable", None, 503, {"retry-after": "1"}, "admission_unavailable") from lost
        said = answer.json()
        if answer.status_code == 200:
            return Reservation(said["reservation_id"], said["headers"], said["ttl_seconds"])
        error = said["error"]
        headers = {k: v for k, v in answer.headers.items() if k.startswith(("x-ratelimit-", "x-llmgov-", "x-should-retry", "retry-after"))}
        raise Refused(error["message"], error["type"], error["param"], answer.status_code, headers, error["code"])

    # While it runs

    async def async_post_call_response_headers_hook(self, data, user_api_key_dict, response, request_headers=None, litellm_call_info=None):
        reservation = current.get()
        return dict(reservation.headers) if reservation else None

    async def async_post_call_streaming_iterator_hook(self, user_api_key_dict, response, request_data):
        reservation = current.get()
        if reservation is None:
            async for chunk in response:
                yield chunk
            return
        usage = None
        outcome = "cancelled"  # if the caller leaves, the generator is closed
        try:
            async for chunk in response:
                reservation.deltas += 1
                usage = usage_of(chunk) or usage
                if time.monotonic() - reservation.told > BEAT:
                    self.spawn(self.progress(reservation))
                if reservation.interrupted:
                    outcome = "failed"
                    raise Refused(reservation.interrupted["message"], reservation.interrupted["code"], None, reservation.interrupted["status"])
                yield chunk
            outcome = "completed"
        except Exception:
            outcome = "failed"
            raise
        finally:
            if outcome == "completed" and usage is None:
                self.end_by_log(reservation, outcome, PATIENCE)
            else:
                self.end(reservation, outcome, usage)

    def look_after(self, reservation, call_id, task):
        """Keeps a reservation alive as long as its request is served, and ends it then."""

        async def beat():
            while not reservation.ended:
                await asyncio.sleep(reservation.ttl / 3)
                if not reservation.ended and time.monotonic() - reservation.told > reservation.ttl / 4:
                    await self.progress(reservation)

        beating = self.spawn(beat())

        def served(_):
            beating.cancel()
            asyncio.get_running_loop().call_later(2 * PATIENCE, self.logged.pop, call_id, None)
            if not reservation.ending:
                self.end_by_log(reservation, "cancelled", 0.2)

        task.add_done_callback(served)

    async def progress(self, reservation):
        reservation.told = time.monotonic()
        try:
            answer = await self.post(f"/{reservation.id}/progress", {"deltas": reservation.deltas})
            if answer.status_code == 200:
                reservation.interrupted = answer.json().get("interrupted")
        except httpx.HTTPError:
            pass  # the next sign of life may arrive

    # After it

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        reservation = current.get()
        if reservation is not None:
            self.end(reservation, "completed", usage_of(response))
        return response

    async def async_post_call_failure_hook(self, request_data, original_exception, user_api_key_dict, traceback_str=None):
        reservation = current.get()
        if reservation is not None:
            self.end(reservation, "failed" if reservation.deltas else outcome_of(original_exception), None)

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        reservation = self.logged.get(kwargs.get("litellm_call_id"))
        if reservation is not None and not reservation.usage.done():
            reservation.usage.set_result(usage_of(response_obj))

    def end_by_log(self, reservation, otherwise, patience):
        """Ends a reservation with the usage that LiteLLM logs, if it does so soon."""

        async def wait():
            try:
                usage = await asyncio.wait_for(asyncio.shield(reservation.usage), patience)
                self.end(reservation, "completed", usage)
            except asyncio.TimeoutError:
                self.end(reservation, otherwise, None)

        reservation.ending = True
        self.spawn(wait())

    def end(self, reservation, outcome, usage):
        if reservation.ended:
            return
        reservation.ending = reservation.ended = True
        end = {"outcome": outcome, "deltas": reservation.deltas}
        if usage is not None:
            end["usage"] = usage
        self.spawn(self.commit(reservation.id, end))

    async def commit(self, id, end):
        for pause in (0.1, 1, 5, 20, 0):
            try:
                answer = await self.post(f"/{id}/commit", end)
                if answer.status_code < 500:
                    return
            except httpx.HTTPError:
                pass  # a commit may be repeated
            await asyncio.sleep(pause)

    async def cancel(self, id):
        try:
            await self.post(f"/{id}/cancel", {})
        except httpx.HTTPError:
            pass  # its ttl ends it

    def spawn(self, coroutine):
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def post(self, path, body, timeout=10):
        if self.http is None:  # not earlier: it belongs to the loop
            self.http = httpx.AsyncClient(
                base_url=os.environ.get("LLMGOV_URL", "http://127.0.0.1:9091"),
                headers={"Authorization": "Bearer " + os.environ.get("LLMGOV_TOKEN", "")},
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
            )
        return await self.http.post("/v1/reservations" + path, json=body, timeout=httpx.Timeout(timeout, connect=10))


def tenant_of(user):
    """Teams come first: users may be allowed to make keys of their own, but not teams."""
    return tenant_in(user.team_metadata) or user.team_alias or tenant_in(user.metadata) or user.key_alias or ""


def tenant_in(metadata):
    return str(metadata.get("llmgov_tenant") or "") if isinstance(metadata, dict) else ""


def size_of(data):
    """How long the prompt is, in bytes."""
    prompt = {k: data[k] for k in PROMPT if k in data}
    texts = prompt.get("messages")
    if texts and set(prompt) == {"messages"} and all(isinstance(m, dict) and isinstance(m.get("content"), str) for m in texts):
        return sum(len(m["content"].encode()) + 16 for m in texts)
    return len(json.dumps(prompt, default=str).encode()) if prompt else 0


def whole(n):
    return isinstance(n, int) and not isinstance(n, bool) and n > 0


def outcome_of(error):
    """How a call ended that LiteLLM answers with an error."""
    status = getattr(error, "status_code", None)
    if status == 499 or isinstance(error, asyncio.CancelledError):
        return "cancelled"
    causes = []
    while error is not None and error not in causes:
        causes.append(error)
        error = getattr(error, "original_exception", None) or error.__cause__ or error.__context__
    broke_off = {"APIConnectionError", "APITimeoutError", "Timeout", "TransportError"}
    if any(broke_off & {kind.__name__ for kind in type(cause).__mro__} for cause in causes) or not isinstance(status, int):
        return "failed"  # the model server may have worked for it
    return "answered_error"


def usage_of(response):
    """The usage in an answer or a chunk, or None."""

    def told(name):
        return response.get(name) if isinstance(response, dict) else getattr(response, name, None)

    usage = told("usage")
    if usage is None:
        return None
    if not isinstance(usage, dict):
        usage = usage.model_dump() if hasattr(usage, "model_dump") else vars(usage)

    def of(*names):
        return next((usage[n] for n in names if isinstance(usage.get(n), int)), 0)

    def part(whole, *names):
        details = next((usage[n] for n in whole if isinstance(usage.get(n), dict)), {})
        return next((details[n] for n in names if isinstance(details.get(n), int)), 0)

    prompt = ("prompt_tokens_details", "input_tokens_details")
    answer = ("completion_tokens_details", "output_tokens_details")
    written = max(of("cache_creation_input_tokens"), part(prompt, "cache_creation_tokens", "cache_write_tokens"))
    hour = part(("cache_creation",), "ephemeral_1h_input_tokens")
    if not hour and isinstance(usage.get(prompt[0]), dict):
        hour = (usage[prompt[0]].get("cache_creation_token_details") or {}).get("ephemeral_1h_input_tokens") or 0
    tier = told("service_tier") or usage.get("service_tier")
    items = told("output") if isinstance(told("output"), list) else []
    ran = [item.get("type") if isinstance(item, dict) else getattr(item, "type", None) for item in items]
    sent = of("prompt_tokens", "input_tokens")
    cached = part(prompt, "cached_tokens")
    if "prompt_tokens" not in usage and "cache_read_input_tokens" in usage:  # Anthropic's words leave both out
        cached = of("cache_read_input_tokens")
        sent += cached + written
    out = {
        "input_tokens": sent,
        "output_tokens": of("completion_tokens", "output_tokens"),
        "cached_input_tokens": cached,
        "cache_write_tokens": max(0, written - hour),
        "cache_write_hour_tokens": hour,
        "reasoning_tokens": part(answer, "reasoning_tokens"),
        "audio_input_tokens": part(prompt, "audio_tokens"),
        "audio_output_tokens": part(answer, "audio_tokens"),
        "image_input_tokens": part(prompt, "image_tokens"),
        "image_output_tokens": part(answer, "image_tokens"),
        "tool_calls": max(part(("server_tool_use",), "web_search_requests"), ran.count("web_search_call")),
        "file_searches": ran.count("file_search_call"),
        "code_sessions": min(1, ran.count("code_interpreter_call")),
    }
    if isinstance(tier, str) and tier not in ("auto", "default", "standard"):
        out["service_tier"] = tier[:48]
    return out if out["input_tokens"] or out["output_tokens"] else None


governed = Llmgov()
