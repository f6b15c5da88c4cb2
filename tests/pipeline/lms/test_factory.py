"""`make_lm` holds these:

- an LM that can't be used is one line that says why and what to do, before anything is sampled;
- a key that is missing is found without a request;
- what passes, such as too many requests at the moment, is no reason to refuse an LM.
"""

from collections.abc import Iterator

import dspy
import pytest

from pipeline.base.errors import Exit, LMUnavailable, UsageError
from pipeline.lms.factory import PROBE_TOKENS, make_lm
from tests.support.lm_server import Fault, Server, fault


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


def refusal(model: str, api_base: str | None = None, **settings: float) -> str:
    with pytest.raises(LMUnavailable) as caught:
        make_lm(model, api_base, **settings)  # type: ignore[arg-type]
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


def test_an_unknown_provider_is_reported() -> None:
    """With what was expected."""
    assert "expected PROVIDER/MODEL, such as openai/gpt-4o, or embedded" in refusal("nobody/knows")


@pytest.mark.parametrize(
    ("status", "message", "code", "reported"),
    [
        (401, "Incorrect API key provided", "invalid_api_key", "rejects the key: Incorrect API key provided"),
        (403, "This key may not use tiny", None, "rejects the key: This key may not use tiny"),
        (402, "No credit is left", None, "rejects requests: insufficient credit: No credit is left"),
        (404, "model 'tiny' not found", None, "has no such model: model 'tiny' not found"),
        (404, "The model `tiny` does not exist", "model_not_found", "has no such model: The model `tiny` does not"),
        (400, "temperature is not supported", None, "it can't be used: temperature is not supported"),
        (500, "on fire", None, "it can't be used: on fire"),
    ],
)
def test_a_refusal_is_reported_in_the_server_s_words(
    server: Server, monkeypatch: pytest.MonkeyPatch, status: int, message: str, code: str | None, reported: str
) -> None:
    """A refused key, an unknown model, a parameter that is not taken, a broken server."""
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    server.set(faults=[fault("status", status, message=message, code=code)])
    assert reported in refusal("openai/tiny", server.address)


def test_an_unreachable_server_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its address."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    assert "no answer from http://127.0.0.1:9/v1: " in refusal("openai/tiny", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize("path", ["", "/v2"])
def test_a_path_where_no_lm_is_is_reported(server: Server, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """With how such an address usually ends."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    reported = refusal("openai/tiny", server.origin + path)
    assert f"no OpenAI-compatible server at {server.origin}{path}; such an address usually ends in /v1" in reported


@pytest.mark.parametrize("kind", ["html", "truncated"])
def test_an_answer_that_is_not_a_completion_is_reported(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A web server says 200 to anything."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    server.set(faults=[fault(kind)])
    assert f"no OpenAI-compatible server at {server.address}" in refusal("openai/tiny", server.address)


@pytest.mark.parametrize("what", [fault("reset", at=[1]), fault("status", 503, at=[1], retry_after="3600")])
def test_a_hiccup_is_no_reason_to_refuse(server: Server, monkeypatch: pytest.MonkeyPatch, what: Fault) -> None:
    """Asked once more, after a second whatever the server wishes."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    server.set(faults=[what])
    make_lm("openai/tiny", server.address)
    assert len(server.requests()) == 2


def test_a_server_that_does_not_answer_is_reported(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the timeout, twice."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    server.set(latency=3.0)
    assert f"no answer from {server.address}: read timed out" in refusal("openai/tiny", server.address, timeout=0.2)


def test_a_usable_lm_is_asked_once_and_cheaply(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what samples are drawn with, a seed and a temperature, so that a server that takes none shows at once."""
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    lm = make_lm("openai/tiny", server.address, max_tokens=77)
    (request,) = [each["body"] for each in server.requests()]
    assert (request["model"], request["max_completion_tokens"], request["seed"]) == ("tiny", PROBE_TOKENS, 0)
    assert (lm.kwargs["max_tokens"], lm.cache) == (77, True)
    assert not lm.history


def test_an_lm_is_asked_at_every_temperature(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that it refuses is named at once, with those that it takes."""
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    lm = make_lm("openai/tiny", server.address, temperatures=(0.4, 1.0))
    assert [each["body"]["temperature"] for each in server.requests()] == [0.4, 1.0] and lm.probe_tokens.calls == 2
    server.set(faults=[fault("status", 400, at=[4], message="Unsupported value: 'temperature' does not support 0.7")])
    with pytest.raises(UsageError, match=r"--temperatures: openai/tiny refuses 0.7; try --temperatures 0.4: .*'temp"):
        make_lm("openai/tiny", server.address, temperatures=(0.4, 0.7))


def test_a_busy_server_is_usable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many requests now are not too many later."""
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    server.set(faults=[fault("status", 429, retry_after="3600")])
    assert make_lm("openai/tiny", server.address).model == "openai/tiny"


def test_a_model_that_reasons_is_probed_without_a_bound(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thoughts would fill one."""
    monkeypatch.setenv("OPENAI_API_KEY", "right")
    make_lm("openai/o3", server.address)
    (request,) = [each["body"] for each in server.requests()]
    assert not {"max_tokens", "max_completion_tokens"} & {name for name, value in request.items() if value is not None}


@pytest.mark.parametrize("model", ["embedded", "embedded/1", "embedded/50"])
def test_the_embedded_lm_needs_nothing(model: str) -> None:
    """No key, no network, no cache; its dial is in its name."""
    lm = make_lm(model)
    assert lm.model == ("embedded/8" if model == "embedded" else model)
    assert not lm.cache


@pytest.mark.parametrize("model", ["embedded/small", "embedded/", "embedded/0", "embedded/8/2", "embedded/1.5"])
def test_a_misspelt_embedded_lm_is_none(model: str) -> None:
    """Another one in its place would go unnoticed."""
    with pytest.raises(LMUnavailable, match="no such embedded LM; expected embedded, or embedded/N"):
        make_lm(model)


def test_the_embedded_lm_has_no_address() -> None:
    """The mistake is in the options: exit code 2."""
    with pytest.raises(UsageError, match="--api-base"):
        make_lm("embedded", "http://127.0.0.1:9/v1")


def test_few_answers_are_kept_in_memory(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a long run are on disk; a bound that the user has set stays."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    for before, after in ((1_000_000, 1000), (7, 7)):
        monkeypatch.setattr(dspy.cache, "memory_cache", type(dspy.cache.memory_cache)(maxsize=before))
        make_lm("openai/m", server.address, probed=False)
        assert dspy.cache.memory_cache.maxsize == after


def test_servers_of_ones_own_are_told_where_an_answer_ends() -> None:
    """Small models go on after it; providers that may refuse to be told are not."""
    own = make_lm("openai/m", "http://127.0.0.1:9/v1", probed=False)
    assert "[[ ## completed ## ]]" in own.kwargs["stop"]
    assert "stop" not in make_lm("openai/gpt-4o", probed=False).kwargs
