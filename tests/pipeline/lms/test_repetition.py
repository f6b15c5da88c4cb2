"""Answers that repeat themselves: what counts as that, what is read of them, and what a server is then told."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from dspy._vendor.lm15.transports._types import TransportRequest, TransportResponse

from pipeline.lms.repetition import runs_away, streamed
from pipeline.lms.served import Transport
from tests.support.oracles import oracle

LONG = "".join(f"E{n + 1} = step.Map(fn=fn_mul).apply((E{n}, E{n}))\n" for n in range(20))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"E2 = step.Promote(b=1).apply(E1)\n{LONG}", True),
        ("return " + ", ".join(f"E{n}" for n in range(90)), True),
        ("\n" * 300, True),
        (f"{LONG}return E20", False),
        (oracle("norm/1"), False),
        ("    " * 20, False),
        ("", False),
    ],
)
def test_a_text_runs_away_that_ends_in_the_same_again_and_again(text: str, expected: bool) -> None:
    """Whatever the numbers in it; a program with a few equal lines does not."""
    assert runs_away(text) == expected


def test_short_answers_and_other_requests_are_not_streamed() -> None:
    """Nor a request that is a stream already, has several answers, or offers tools."""
    asked: dict[str, Any] = {"messages": [], "max_tokens": 4096}
    assert json.loads(streamed(json.dumps(asked).encode()) or b"")["stream"] is True
    for other in ({"max_tokens": 8}, {"n": 4}, {"tools": []}, {"stream": False}):
        assert streamed(json.dumps(asked | other).encode()) is None
    assert streamed(b"no JSON") is None


class Inner:
    """A server behind a connection, whose parts are counted as they are read."""

    def __init__(self, words: list[str], *, refusal: str = "") -> None:
        self.words, self.refusal = words, refusal
        self.read, self.consumed, self.bodies = 0, list[bool](), list[dict[str, Any]]()

    def stream(self, request: TransportRequest) -> TransportResponse:
        body = json.loads(request.body)
        self.bodies.append(body)
        streams = bool(body.get("stream"))
        return TransportResponse(
            status=400 if streams and self.refusal else 200, reason="", http_version="1.1",
            headers=[("content-type", "text/event-stream" if streams and not self.refusal else "application/json")],
            chunks=self._events(streams),
            release=self.consumed.append,
        )  # fmt: skip

    def _events(self, streams: bool) -> Iterator[bytes]:
        if self.refusal or not streams:
            yield json.dumps({"error": self.refusal} if streams else {"choices": [], "usage": None}).encode()
            return
        for number, word in enumerate(self.words, start=1):
            self.read = number
            timings = {"cache_n": 30, "prompt_n": 10, "predicted_n": number}
            event = {"id": "a", "choices": [{"index": 0, "delta": {"content": word}}], "timings": timings}
            data = f"data: {json.dumps(event)}\n\n".encode()
            yield from (data[:7], data[7:])
        yield b'data: {"choices": [{"delta": {}, "finish_reason": "length"}]}\n\ndata: [DONE]\n\n'


def asked(inner: Inner) -> dict[str, Any]:
    """What a client reads of a long answer."""
    body = json.dumps({"messages": [], "max_tokens": 4096}).encode()
    response = Transport(inner, ending=True).stream(TransportRequest("POST", "http://a/v1/chat/completions", body=body))
    answer: dict[str, Any] = json.loads(response.read())
    return answer


def test_an_answer_that_repeats_itself_is_ended_and_counted() -> None:
    """The connection is not used again, so that the server stops; the tokens are those that it has counted so far."""
    inner = Inner(["E2 = a\n", *["E3 = b, of some length\n"] * 1000])
    answer = asked(inner)
    assert inner.read < 50 and inner.consumed == [False]
    assert answer["choices"][0]["finish_reason"] == "stop"
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (40, inner.read)
    assert usage["prompt_tokens_details"] == {"cached_tokens": 30}


def test_another_answer_is_put_together_as_it_is() -> None:
    """With its own reason to end."""
    inner = Inner([f"word{'x' * n} " for n in range(40)])
    answer = asked(inner)
    message = answer["choices"][0]
    assert message["message"]["content"] == "".join(inner.words) and message["finish_reason"] == "length"
    assert inner.consumed == [True]


def test_a_server_that_refuses_a_stream_is_asked_without() -> None:
    """Once and for all; what it refuses for another reason is not asked again."""
    inner = Inner(["a"], refusal="Unrecognized argument: stream_options")
    assert asked(inner) == {"choices": [], "usage": None}
    assert [bool(body.get("stream")) for body in inner.bodies] == [True, False]
    inner = Inner(["a"], refusal="a word that is not allowed")
    assert asked(inner) == {"error": "a word that is not allowed"}
    assert len(inner.bodies) == 1
