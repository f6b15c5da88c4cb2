"""The connection to a server holds these:

- a redirect of status 307 or 308 is followed, and the key goes to no other host;
- a paid answer is not discarded, whatever is wrong with the token counts beside it.
"""

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from optimizers.ledger import Ledger
from optimizers.requests import sampled
from pipeline.lms.factory import make_lm
from pipeline.lms.served import MOST_REDIRECTS, ServedLM, repaired
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
    lm.count_tokens = None
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
