"""`ServedLM`: a `dspy.LM` whose connection copes with server behavior that DSPy's client does not handle.

- A redirect of status 307 or 308 is followed; the key goes to no other host.
- An answer of a server of one's own that repeats itself is ended, see `repetition`.
- Token counts that are not whole numbers from 0 on are repaired, or removed from the reply, where DSPy's client would
  discard the paid answer.

DSPy's client has no hook for these. Its requests pass through one transport per engine, which is replaced here as soon
as DSPy makes the engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin, urlsplit

import dspy
from dspy.clients.engines.lm15_engine import LM15Engine
from dspy.lm15 import CacheConfig

from optimizers.metering import whole
from pipeline.lms.repetition import ADDED, Reply, streamed

MOST_REDIRECTS = 5
LARGEST_REPLY = 64 * 2**20
"""Bytes of a reply that are read to repair it; a longer one passes unchanged."""


REPORTS = ("usage", "usageMetadata")
"""The fields of a reply with token counts, by OpenAI's and Google's names."""


class ServedLM(dspy.LM):
    """A `dspy.LM`; its native engines have the transport below."""

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._engine_store = _Engines(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._engine_store = _Engines(self)


class _Engines(dict[Any, Any]):
    """DSPy's store of an LM's engines."""

    def __init__(self, lm: dspy.LM) -> None:
        super().__init__()
        self._own_server = bool(lm.kwargs.get("api_base"))

    def __setitem__(self, key: Any, engine: Any) -> None:
        if isinstance(engine, LM15Engine):
            router = engine.router
            router._transport = Transport(router._shared_transport(), ending=self._own_server)
        super().__setitem__(key, engine)


class Transport:
    """A transport of DSPy's client, around another, that follows redirects and repairs token counts.

    Args:
        inner: The other one.
        ending: Whether answers that repeat themselves are ended; a server that refuses streams is asked for none.
    """

    def __init__(self, inner: Any, *, ending: bool = False) -> None:
        self._inner, self._ending = inner, ending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def stream(self, request: Any) -> Any:
        """The response to a request."""
        body = streamed(request.body) if self._ending else None
        if body is not None:
            response = self._followed(replace(request, body=body))
            if response.status == 200:
                return _put_together(response) if _is_stream(response) else response
            if response.status not in (400, 422):
                return response
            refusal = response.read()
            if not any(name.encode() in refusal for name in ADDED):
                response._chunks = iter([refusal])
                return response
            self._ending = False
        return self._followed(request)

    def _followed(self, request: Any) -> Any:
        for _ in range(MOST_REDIRECTS):
            response = self._inner.stream(request)
            target = response.header("location") if response.status in (307, 308) else None
            if not target:
                break
            response.read()  # which frees the connection
            request = _redirected(request, urljoin(request.url, target))
        else:
            response = self._inner.stream(request)
        if response.status == 200 and not _is_stream(response):
            response._chunks = _repaired(response._chunks)
        return response


def _is_stream(response: Any) -> bool:
    return "event-stream" in (response.header("content-type") or "")


def _put_together(response: Any) -> Any:
    """A streamed response as if it had not been asked for in parts; it ends where its text repeats itself."""
    chunks = response._chunks

    def body() -> Iterator[bytes]:
        reply = Reply()
        yield repaired(reply.read(chunks))
        if reply.ended:
            response._release_once(body_consumed=False)  # which closes the connection

    response._chunks = body()
    response.headers = [pair for pair in response.headers if pair[0].lower() != "content-type"]
    response.headers.append(("content-type", "application/json"))
    return response


def _redirected(request: Any, url: str) -> Any:
    """The request to another address; another host gets no credentials."""
    headers = request.headers
    if _origin(url) != _origin(request.url):
        secret = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
        headers = [(name, value) for name, value in headers if name.lower() not in secret]
    return replace(request, url=url, headers=headers)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _repaired(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """A reply's body; as it was if it is not a JSON object with token counts to repair."""
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > LARGEST_REPLY:
            yield bytes(body)
            yield from chunks
            return
    yield repaired(bytes(body))


def repaired(body: bytes) -> bytes:
    """A reply in which every token count is a whole number from 0 on, or absent."""
    with suppress(ValueError, RecursionError):
        reply = json.loads(body)
        for name in REPORTS if isinstance(reply, dict) else ():
            usage = reply.get(name)
            if usage is not None and not _same(counts := _counts(usage), usage):
                return json.dumps({**reply, name: counts}).encode()
    return body


def _same(one: Any, other: Any) -> bool:
    """Whether two reports are written the same; `1.0` equals `1` in Python."""
    return json.dumps(one) == json.dumps(other)


def _counts(usage: Any) -> dict[str, Any]:
    """The readable counts of a report, and its other fields as they are."""
    if not isinstance(usage, dict):
        return {}
    counts: dict[str, Any] = {}
    for name, value in usage.items():
        if name.endswith("_details"):
            counts[name] = _counts(value) if value is not None else None
        elif name.endswith(("_tokens", "TokenCount")):
            if (number := whole(value)) is not None:
                counts[name] = number
        else:
            counts[name] = value
    return counts


PROVIDERS = ("anthropic",)
"""Providers that need marks; others cache common beginnings automatically, or not at all."""


class MarkingLM(ServedLM):
    """Marks the system message and, where there are demonstrations, the last of them: only the task comes after."""

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """As `dspy.LM`, whose default for all requests can't mark the end of a request's constant part."""
        marked = {"prompt_cache": constant_part(messages)} if messages else {}
        return super().__call__(prompt, messages=messages, **{**marked, **kwargs})


def constant_part(messages: list[dict[str, Any]]) -> CacheConfig:
    """The part of a request to cache: all but its last message."""
    turns = sum(message["role"] != "system" for message in messages)
    return CacheConfig(prefix_until_index=turns - 2) if turns > 1 else CacheConfig(prefix="stable")
