"""`ServedLM`: a `dspy.LM` whose connection copes with server behavior that DSPy's client does not handle.

- A redirect of status 307 or 308 is followed; the key goes to no other host.
- A reply is read to `max_tokens` and to the request's timeout, whatever the server sends.
- Token counts that are not whole numbers from 0 on are repaired, or removed from the reply, where DSPy's client would
  discard the paid answer.

DSPy's client has no hook for these. Its requests pass through one transport per engine, which is replaced here as soon
as DSPy makes the engine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urljoin, urlsplit

import dspy
from dspy.clients.engines.lm15_engine import LM15Engine
from dspy.lm15 import CacheConfig, ProviderError
from dspy.lm15 import TimeoutError as LateError

from optimizers.ledger import whole

MOST_REDIRECTS = 5
LONGEST_REQUEST = 600.0
"""Seconds of a request whose connection knows none."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
"""What providers call a request's limit of the answer."""
BYTES_OF_A_TOKEN = 1024
BYTES_BESIDE = 2**20
MOST_TOKENS = 2**16
"""What a reply may have: of each token, beside them, and of requests without `max_tokens`."""

REPORTS = ("usage", "usageMetadata")
"""The fields of a reply with token counts, by OpenAI's and Google's names."""


class ServedLM(dspy.LM):
    """A `dspy.LM`; its native engines have the transport below."""

    def __init__(self, model: str, **settings: Any) -> None:
        super().__init__(model, **settings)
        self._engine_store = _Engines()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._engine_store = _Engines()


class _Engines(dict[Any, Any]):
    """DSPy's store of an LM's engines."""

    def __setitem__(self, key: Any, engine: Any) -> None:
        if isinstance(engine, LM15Engine):
            router = engine.router
            router._transport = Transport(router._shared_transport())
        super().__setitem__(key, engine)


class Transport:
    """A transport of DSPy's client, around another, that follows redirects and reads every reply within bounds."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def stream(self, request: Any) -> Any:
        """The response to a request."""
        seconds = request.read_timeout or getattr(self._inner, "_read_timeout", LONGEST_REQUEST)
        most, until = largest_reply(request.body), time.monotonic() + seconds
        for redirects in range(MOST_REDIRECTS + 1):
            response = self._inner.stream(request)
            response._chunks = _bounded(response, response._chunks, most, until)
            target = response.header("location") if response.status in (307, 308) else None
            if not target or redirects == MOST_REDIRECTS:
                break
            response.read()  # which frees the connection
            request = _redirected(request, urljoin(request.url, target))
        if response.status == 200 and "event-stream" not in (response.header("content-type") or ""):
            response._chunks = _repaired(response._chunks)
        return response


def largest_reply(body: bytes | None) -> int:
    """Bytes that the reply to a request may have: of a stream each token is an event of its own."""
    asked: dict[str, Any] = {}
    with suppress(ValueError, RecursionError):
        found = json.loads(body or b"")
        asked = found if isinstance(found, dict) else {}
    config = asked.get("generationConfig")
    fields = {**(config if isinstance(config, dict) else {}), **asked}
    limits = [whole(fields.get(name)) for name in LIMITS]
    tokens = max((limit for limit in limits if limit), default=MOST_TOKENS)
    return BYTES_BESIDE + min(tokens, MOST_TOKENS) * (whole(asked.get("n")) or 1) * BYTES_OF_A_TOKEN


def _bounded(response: Any, chunks: Iterator[bytes], most: int, until: float) -> Iterator[bytes]:
    """The parts of a reply; a server that goes on beyond a request's limits is left."""
    read = 0
    for chunk in chunks:
        read += len(chunk)
        late = time.monotonic() > until
        if late or read > most:
            response._release_once(body_consumed=False)  # which closes the connection
            if late:
                raise LateError("the reply was not complete in time")
            raise ProviderError(f"the reply has more than {most:,} bytes, which max_tokens does not allow")
        yield chunk


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
    yield repaired(b"".join(chunks))


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
