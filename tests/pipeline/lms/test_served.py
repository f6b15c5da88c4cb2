"""The connection to a server holds these:

- a redirect of status 307 or 308 is followed, and the key goes to no other host;
- a paid answer is not discarded, whatever is wrong with the token counts beside it.
"""

import json
import pickle
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from dspy._vendor.lm15.transports._types import TransportRequest, TransportResponse
from dspy.lm15 import ProviderError
from dspy.lm15 import TimeoutError as LateError

from optimizers.ledger import Ledger
from optimizers.requests import sampled
from pipeline.lms.factory import make_lm
from pipeline.lms.served import MOST_REDIRECTS, ServedLM, Transport, largest_reply, repaired
from tests.support.lm_server import Server, fault


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with Server() as server:
        yield server


def lm_at(server: Server, **settings: Any) -> Any:
    return make_lm("openai/some", server.address, probed=False, cache=False, num_retries=0, **settings)


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_is_followed_with_the_key_and_the_body(server: Server, status: int) -> None:
    server.set(faults=[fault("redirect", status, at=[1])], key="secret")
    assert lm_at(server)("hello")
    first, second = server.requests()
    assert (first["status"], second["status"]) == (status, 200) and first["body"] == second["body"]


def test_another_host_gets_no_key(server: Server) -> None:
    with Server(key="secret") as other:
        server.set(faults=[fault("redirect", 307, at=[1], location=f"{other.address}/chat/completions")])
        with pytest.raises(Exception, match="Incorrect API key"):
            lm_at(server)("hello")


def test_redirects_in_a_circle_end(server: Server) -> None:
    server.set(faults=[fault("redirect", 308)])
    with pytest.raises(Exception, match=r"308|redirect"):
        lm_at(server)("hello")
    assert len(server.requests()) == MOST_REDIRECTS + 1


@pytest.mark.parametrize(
    ("usage", "prompt", "estimated"),
    [
        ({"prompt_tokens": "40", "completion_tokens": "3"}, 40, False),
        ({"prompt_tokens": 40.0, "completion_tokens": 3}, 40, False),
        ({"prompt_tokens": -40, "completion_tokens": -3, "total_tokens": -43}, 34, True),
        ({"prompt_tokens": 10**15, "completion_tokens": 10**15}, 34, True),
        ({"prompt_tokens": "many", "prompt_tokens_details": "few"}, 34, True),
        (["forty"], 34, True),
        (None, 34, True),
    ],
)
def test_an_answer_counts_whatever_its_usage_says(server: Server, usage: Any, prompt: int, estimated: bool) -> None:
    """What can be read is read, and the rest is estimated: a hundred characters, here at three a token."""
    server.set(faults=[fault("usage", usage=usage)])
    lm, ledger = lm_at(server), Ledger()
    twin = sampled(lm, ledger, lambda callers: "it")
    assert twin("x" * 100)
    count = ledger.total
    assert (count.calls, count.failed, count.prompt) == (1, 0, prompt)
    assert bool(count.estimated) is estimated


def test_a_reply_that_is_right_is_left_as_it_is() -> None:
    right = json.dumps({"usage": {"prompt_tokens": 4, "details": None}, "choices": []}).encode()
    assert repaired(right) is right and repaired(b"<html>") == b"<html>" and repaired(b"[1]") == b"[1]"
    fixed = json.loads(repaired(b'{"usageMetadata": {"promptTokenCount": "4", "x_tokens_details": {"a_tokens": -1}}}'))
    assert fixed == {"usageMetadata": {"promptTokenCount": 4, "x_tokens_details": {}}}


def test_a_copy_through_pickle_connects_alike(server: Server) -> None:
    server.set(faults=[fault("redirect", 307, at=[1])])
    again = pickle.loads(pickle.dumps(lm_at(server)))
    assert isinstance(again, ServedLM) and again("hello")


class Endless:
    """A connection whose server sends parts of a reply for ever."""

    def __init__(self, part: bytes, seconds: float = 0.0) -> None:
        self.part, self.seconds, self.released = part, seconds, list[bool]()

    def stream(self, request: TransportRequest) -> TransportResponse:
        def chunks() -> Iterator[bytes]:
            while True:
                time.sleep(self.seconds)
                yield self.part

        return TransportResponse(
            status=200, reason="", http_version="1.1", headers=[], chunks=chunks(), release=self.released.append
        )


@pytest.mark.parametrize(
    ("server", "error", "message"),
    [
        (Endless(b"x" * 2**16), ProviderError, "max_tokens does not allow"),
        (Endless(b"x", 0.01), LateError, "in time"),
    ],
)
def test_a_reply_without_end_is_left_at_the_bounds_of_its_request(server: Endless, error: Any, message: str) -> None:
    """Whether it is many bytes at once or one now and then; the connection is closed."""
    body = json.dumps({"messages": [], "max_tokens": 100}).encode()
    request = TransportRequest("POST", "http://a/v1/chat/completions", body=body, read_timeout=0.3)
    if error is ProviderError:
        request = replace(request, read_timeout=600.0)
    with pytest.raises(error, match=message):
        Transport(server).stream(request).read()
    assert server.released == [False]
    assert largest_reply(body) < 2**21 < largest_reply(b"no JSON")
