"""Calls and tokens on record hold these, against a server that counts for itself:

- per module, they are those of the requests that came in: failed parses, retries and faults included;
- answers that came out of the cache stand in a column of their own, with what they had cost.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from optimizers import Attempt, TokenCount
from pipeline import compile as command
from pipeline.base.errors import run_command
from pipeline.record import store
from pipeline.record.attempts import read_attempts
from tests.support.answering_lm import shared_tasks
from tests.support.counted_answers import asks_guardian
from tests.support.lm_server import Server, fault, text_of, tokens

pytestmark = pytest.mark.usefixtures("unrendered")

FAULTS = [
    fault("status", 429, every=7, retry_after="0", most=1),
    fault("status", 503, every=11, most=1),
    fault("refuse", every=13, most=1),
]
"""Each strikes a request once at most, so that none is given up after its five retries."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setattr("optimizers.requests._wait", lambda error, attempt: 0.0)
    with Server(answers="tests.support.counted_answers:answer") as server:
        yield server


def compiled(capsys: pytest.CaptureFixture[str], server: Server, model: str, tasks: str, *more: str) -> dict[str, Any]:
    argv = ["--optimizer", "adaptive", "--samples", "6", "--temperatures", "0.4,1.0", "--threads", "4", *more]
    argv += ["--lm", model, "--api-base", server.address, "--tasks", tasks, "--json"]
    run_command(command.NAME, command.main, argv)
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def seen(server: Server) -> dict[str, Counter[str]]:
    """Calls and tokens by module, as the server has them; the request by which the LM is found usable left out."""
    counts = {"proposer.predict": Counter[str](), "guardian.predict": Counter[str]()}
    for request in server.requests():
        body = request["body"]
        if "Reply with the word" in text_of(body):
            continue
        count = counts["guardian.predict" if asks_guardian(body) else "proposer.predict"]
        count["calls"] += 1
        failed = request["status"] != 200 or request["fault"] == "refuse"
        count["failed"] += failed
        count["prompt"] += 0 if failed else tokens(text_of(body))
    return counts


def on_record(run_id: str) -> tuple[list[Attempt], dict[str, TokenCount]]:
    attempts = read_attempts(store.open_store()[0], run_id)
    names = {name for attempt in attempts for name in attempt.tokens}
    empty = TokenCount()
    return list(attempts), {name: TokenCount.sum(a.tokens.get(name, empty) for a in attempts) for name in names}


@pytest.mark.parametrize("guardian", ["gated", pytest.param("paper", marks=pytest.mark.slow)])
def test_counts_of_each_module_are_the_server_s_and_the_cache_has_its_own(
    guardian: str, server: Server, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the attempts, the command's own figures and MLflow's metrics; then the same again without one request."""
    model, folder = f"openai/{uuid.uuid4().hex}", str(shared_tasks())
    server.set(faults=FAULTS)
    result = compiled(capsys, server, model, folder, "--guardian", guardian)
    attempts, counts = on_record(result["run_id"])
    expected = seen(server)
    no_program = [attempt for attempt in attempts if attempt.feedback.get("stage") == "parse"]
    assert no_program or guardian == "paper", "there the guardian answers for what the proposer did not"
    assert expected["guardian.predict"]["calls"] > 5
    assert expected["proposer.predict"]["failed"] > 5
    for name, count in expected.items():
        assert {"calls": counts[name].calls, "failed": counts[name].failed, "prompt": counts[name].prompt} == count
        assert (counts[name].cached, counts[name].cache_hits) == (0, 0)
    # The probe asks for one word, which the server answers like anything else.
    probes = [request["body"] for request in server.requests() if "Reply with the word" in text_of(request["body"])]
    total, stats = TokenCount.sum(counts.values()), server.stats()
    assert stats["prompt_tokens"] == total.prompt + sum(tokens(text_of(body)) for body in probes)
    assert result["tokens"] == {"prompt": total.prompt, "completion": total.completion, "cached": 0}
    metrics = MlflowClient(tracking_uri=store.store_uri()).get_run(result["run_id"]).data.metrics
    assert (metrics["total_calls"], metrics["total_tokens_prompt"]) == (total.calls, total.prompt)
    if guardian == "paper":
        return
    server.set(faults=[])
    server.clear()
    again = compiled(capsys, server, model, folder, "--guardian", guardian)
    calls = sum(count["calls"] for count in seen(server).values())
    cached = TokenCount.sum(on_record(again["run_id"])[1].values())
    assert calls == 0, "what was answered once is in the cache, retries that got through included"
    assert (cached.prompt, cached.completion, cached.cached_prompt) == (0, 0, total.prompt)
    assert cached.cached_completion == total.completion
    assert (again["solved"], again["pass_at_1"]) == (result["solved"], result["pass_at_1"])
