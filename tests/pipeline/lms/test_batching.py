"""`--batch-n N` holds these:

- samples of one task and temperature come from one request, whose prompt is paid and booked once;
- each sample is one completion of its own, the same one whatever the number of threads;
- requests that differ go alone, and so do those that the provider leaves out of a batch, or all if it takes no `n`;
- an interrupted run is resumed, and nothing that was answered is paid for again.
"""

from collections import Counter

import pytest

from pipeline import compile as command
from pipeline.base.errors import UsageError
from tests.support.lm_server import Server, fault
from tests.support.server_compile import SAMPLES, TASKS, Job, job, server, waits

__all__ = ["job", "server", "waits"]
pytestmark = [
    pytest.mark.usefixtures("store_folder"),
    # LiteLLM's clients leave connections open until they are collected.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]


def sizes(server: Server) -> Counter[int]:
    """How many completions were asked for, how often; the probe aside."""
    return Counter(request["body"].get("n") or 1 for request in server.requests()[1:])


def drawn(job: Job) -> list[tuple[str, int, str]]:
    return [(each.task_key, each.sample, str(each.outputs["impl"])) for each in job.attempts]


def test_a_prompt_is_paid_once_for_all_its_answers(job: Job) -> None:
    """Eight samples of a task in two requests; tokens on record are the server's."""
    assert job.run("--batch-n", "4") == 0, job.messages
    assert sizes(job.server) == {4: TASKS * SAMPLES // 4}
    probe, first = (request["body"]["messages"] for request in job.server.requests()[:2])
    counted, tokens = job.server.stats(), job.result["tokens"]
    assert tokens["prompt"] == counted["prompt_tokens"] - (len(probe[0]["content"]) + 3) // 4
    assert counted["answers"] == 1 + TASKS * SAMPLES == 1 + len(job.attempts)
    assert len(first) == 2 and all(attempt.scored for attempt in job.attempts)


def test_each_sample_takes_the_completion_of_its_place_whatever_the_threads_do(job: Job) -> None:
    """The server's answers differ by place; two runs with other numbers of threads sample the same."""
    job.run("--batch-n", "8", "--threads", "1")
    one = drawn(job)
    job.run("--batch-n", "8", "--threads", "5")
    assert drawn(job) == one
    assert len({impl for _, _, impl in one}) == 2


def test_requests_that_differ_go_alone(job: Job) -> None:
    """The guardian's, after proposals that differ; a smaller batch is left over: eight are three, three, two."""
    job.run("--batch-n", "3", "--guardian", "paper")
    assert sizes(job.server) == {3: 2 * TASKS, 2: TASKS, 1: TASKS * SAMPLES}


def test_answers_that_are_left_out_are_asked_for_alone(job: Job) -> None:
    """A server that knows no `n` answers once."""
    job.server.set(n="ignored")
    assert job.run("--batch-n", "4") == 0
    assert sizes(job.server) == {4: TASKS * 2, 1: TASKS * 2 * 3}
    assert all(attempt.scored for attempt in job.attempts)


def test_a_refusal_ends_batching_with_one_line(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    """No sample is lost, and later ones don't try."""
    job.server.set(n="refused")
    assert job.run("--batch-n", "2", "--threads", "1") == 0
    reported = [record.getMessage() for record in caplog.records if "does not accept n=2" in record.getMessage()]
    assert len(reported) == 1 and "only 1 is allowed" in reported[0]
    assert sizes(job.server) == {2: 1, 1: TASKS * SAMPLES}
    assert all(attempt.scored for attempt in job.attempts)


def test_what_passes_is_asked_for_again_as_a_batch(job: Job, waits: list[float]) -> None:
    """A fault costs no sample of it."""
    job.server.set(faults=[fault("status", 429, at=[2, 3]), fault("truncated", at=[5])])
    assert job.run("--batch-n", "4") == 0
    assert sizes(job.server) == {4: TASKS * 2 + 3}
    assert len(waits) == 3 and all(attempt.scored for attempt in job.attempts)


def test_a_batch_that_fails_for_good_leaves_its_samples_without_a_score(job: Job) -> None:
    """One of six, so that the run continues."""
    job.server.set(faults=[fault("status", 400, code="context_length_exceeded", at=[4])])
    assert job.run("--batch-n", "4", "--threads", "1") == 0
    assert sizes(job.server) == {4: TASKS * 2}
    unscored = Counter((attempt.task_key, attempt.sample // 4) for attempt in job.attempts if not attempt.scored)
    assert list(unscored.values()) == [4] and len(job.attempts) == TASKS * SAMPLES


def test_resumed_with_nothing_answered_it_is_paid_again(job: Job) -> None:
    """The key is refused after three of six batches; some of their answers had not been taken in."""
    job.server.set(faults=[fault("status", 401, start=5)])
    assert job.run("--batch-n", "4", "--threads", "2") == 3
    job.server.set(faults=[])
    assert job.resume() == 0
    assert all(attempt.scored for attempt in job.attempts) and len(job.attempts) == TASKS * SAMPLES
    answered = [request["body"].get("n") for request in job.server.requests() if request["status"] == 200]
    assert Counter(answered) == {4: TASKS * 2, None: 2}


def test_the_embedded_lm_is_not_batched() -> None:
    """It computes every answer anyway."""
    with pytest.raises(UsageError, match="--batch-n"):
        command.main(["--optimizer", "none", "--batch-n", "2"])
