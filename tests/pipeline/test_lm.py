"""`make_lm` holds these:

- an LM that can't be used is one line that says why and what to do, before anything is sampled;
- a key that is missing is found without a request;
- what passes, such as too many requests at the moment, is no reason to refuse an LM.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pipeline.errors import Exit, LMUnavailable, UsageError
from pipeline.lm import PROBE_TOKENS, make_lm

ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 0,
    "model": "tiny",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ready"}}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
}


class Server(ThreadingHTTPServer):
    """An OpenAI-compatible server on loopback that answers every request alike, and keeps them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.answer = 200, dict(ANSWER)
        self.requests: list[dict[str, Any]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def refuse(self, status: int, message: str, code: str | None = None) -> None:
        self.status, self.answer = status, {"error": {"message": message, "type": "error", "code": code}}


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = json.dumps(self.server.answer).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def refusal(model: str, api_base: str | None = None) -> str:
    with pytest.raises(LMUnavailable) as caught:
        make_lm(model, api_base)
    assert caught.value.exit_code == Exit.LM
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("model", "variable"), [("openai/gpt-4o", "OPENAI_API_KEY"), ("anthropic/claude-3-5-sonnet", "ANTHROPIC_API_KEY")]
)
def test_a_missing_key_is_named(model: str, variable: str) -> None:
    """Without a request: tests have no network."""
    assert refusal(model) == f"{model}: no API key; set {variable} in the environment"


def test_a_server_that_asks_for_no_key_still_needs_one_set() -> None:
    """The message says so, as the client insists."""
    assert refusal("openai/tiny", "http://127.0.0.1:9/v1").endswith("(any value, if the server asks for none)")


def test_an_unknown_provider_is_told() -> None:
    """With what was expected."""
    assert "expected PROVIDER/MODEL, such as openai/gpt-4o, or embedded" in refusal("nobody/knows")


@pytest.mark.parametrize("model", ["openai/", ""])
def test_a_model_string_cut_short_is_told(model: str) -> None:
    """DSPy's own refusal of it is passed on."""
    assert refusal(model).startswith(f"{model}: model ")


@pytest.mark.parametrize(
    ("status", "message", "code", "told"),
    [
        (401, "Incorrect API key provided", "invalid_api_key", "refuses the key: Incorrect API key provided"),
        (404, "The model `tiny` does not exist", "model_not_found", "has no such model: The model `tiny` does not"),
        (400, "temperature is not supported", None, "it can't be used: temperature is not supported"),
        (500, "on fire", None, "it can't be used: on fire"),
    ],
)
def test_a_refusal_is_told_in_the_server_s_words(
    server: Server, monkeypatch: pytest.MonkeyPatch, status: int, message: str, code: str | None, told: str
) -> None:
    """A refused key, an unknown model, a parameter that is not taken, a broken server."""
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    server.refuse(status, message, code)
    assert told in refusal("openai/tiny", server.address)


def test_an_unreachable_server_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    assert "no answer from http://127.0.0.1:9/v1: " in refusal("openai/tiny", "http://127.0.0.1:9/v1")


def test_a_usable_lm_is_asked_once_and_cheaply(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what samples are drawn with, a seed and a temperature, so that a server that takes none shows at once."""
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    lm = make_lm("openai/tiny", server.address, temperature=0.4, max_tokens=77)
    (request,) = server.requests
    assert (request["model"], request["max_completion_tokens"], request["seed"]) == ("tiny", PROBE_TOKENS, 0)
    assert (lm.kwargs["temperature"], lm.kwargs["max_tokens"], lm.cache) == (0.4, 77, True)
    assert not lm.history


def test_a_busy_server_is_usable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many requests now are not too many later."""
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    server.refuse(429, "slow down", "rate_limit_exceeded")
    assert make_lm("openai/tiny", server.address).model == "openai/tiny"


def test_nothing_is_asked_when_probing_is_off(server: Server) -> None:
    """A program that is loaded is not always run."""
    make_lm("openai/tiny", server.address, probed=False)
    assert not server.requests


def test_a_model_that_reasons_is_taken_with_its_own_bounds(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """DSPy refuses to ask it for short answers."""
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    lm = make_lm("openai/o3", server.address, temperature=0.4, probed=False)
    assert lm.kwargs.get("max_completion_tokens") is None


@pytest.mark.parametrize("model", ["embedded", "embedded/0", "embedded/small"])
def test_the_embedded_lm_needs_nothing(model: str) -> None:
    """No key, no network, no cache; its version is in its name."""
    lm = make_lm(model)
    assert lm.model.startswith("embedded/small-" if "small" in model else "embedded/")
    assert not lm.cache


def test_the_embedded_lm_has_no_address() -> None:
    """The mistake is in the options: exit code 2."""
    with pytest.raises(UsageError, match="--api-base"):
        make_lm("embedded", "http://127.0.0.1:9/v1")
