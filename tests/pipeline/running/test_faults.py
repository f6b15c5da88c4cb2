"""`pipeline.compile` against a server that fails holds these:

- what passes is asked for again, after the wait that the server names, and costs no sample;
- what does not pass is an attempt without a score, never a wrong answer, and the run continues up to a quarter of them;
- a key that is refused in mid-run ends it; resumed, it asks for nothing that was answered;
- an answer that is not a program is a wrong one of stage `parse`, its text kept, and one that was cut off is counted;
- tokens on record are those that the server counted.
"""

import json
from collections import Counter
from dataclasses import replace

import pytest

from tests.support.lm_server import fault
from tests.support.server_compile import SAMPLES, TASKS, Job, job, server, waits

__all__ = ["job", "server", "waits"]

pytestmark = pytest.mark.usefixtures("store_folder")


PASSING = [
    *(fault("status", status) for status in (429, 500, 502)),
    fault("status", 429, retry_after="0"),
    fault("reset"),
    fault("refuse"),
    fault("truncated"),
    fault("html"),
    fault("status", 429, retry_after="7"),
]


def test_what_passes_is_asked_for_again_and_costs_no_sample(job: Job, waits: list[float]) -> None:
    """Each fault at two requests, of which every other one fails; no answer was paid for twice.

    The server's own wait, in seconds, is kept, and up to one more, so that no two come back at once.
    """
    struck = [*range(2, 2 + 4 * len(PASSING), 2)]
    faults = [replace(each, start=0, at=struck[turn :: len(PASSING)]) for turn, each in enumerate(PASSING)]
    job.server.set(faults=faults)
    assert job.run("--threads", "1") == 0
    requests = job.server.requests()
    assert [request["number"] for request in requests if request["fault"]] == struck
    assert len(requests) == 1 + TASKS * SAMPLES + len(struck)  # the probe, the samples, the faults
    assert all(requests[number - 1]["body"] == requests[number]["body"] for number in struck)
    assert len(waits) == len(struck) == failed(job)
    assert len({wait for wait in waits if 7 <= wait <= 8}) == 2


def test_an_answer_that_does_not_come_in_time_is_asked_for_again(job: Job, waits: list[float]) -> None:
    """The client's patience ends, and the whole sample is there."""
    job.server.set(faults=[fault("slow", at=[3, 4, 5], seconds=600)])
    assert job.run("--timeout", "2") == 0
    assert sum(request["fault"] is not None for request in job.server.requests()) == len(waits) == failed(job) == 3


def failed(job: Job) -> int:
    """Requests that failed on the way to the whole sample."""
    assert [attempt.scored for attempt in job.attempts] == [True] * TASKS * SAMPLES
    return sum(count.failed for attempt in job.attempts for count in attempt.tokens.values())


def test_a_model_that_reasons_is_sampled_at_the_temperature_that_it_takes(job: Job) -> None:
    """Whatever the options say; the output and the record say so."""
    job.model = f"openai/gpt-5-{job.model[-8:]}"
    assert job.run("--temperatures", "0.4,0.7,1.0") == 0
    assert {request["body"]["temperature"] for request in job.server.requests()} == {1.0}
    assert len(job.server.requests()) == 1 + TASKS * SAMPLES
    assert f"{job.model} takes temperature 1 only, and is sampled at it" in job.messages
    assert {attempt.temperature for attempt in job.attempts} == {1.0}


def test_a_temperature_that_the_lm_refuses_is_named_before_anything_is_sampled(job: Job) -> None:
    """With the option that helps."""
    refusal = "Unsupported value: 'temperature' does not support 0.4 with this model"
    job.server.set(faults=[fault("status", 400, at=[1], message=refusal)])
    assert job.run("--temperatures", "0.4,1.0") == 2
    assert "refuses 0.4; try --temperatures 1.0" in job.messages
    assert len(job.server.requests()) == 1


def test_the_wait_grows_and_ends(job: Job, waits: list[float]) -> None:
    """A second, two, four, eight, sixteen, each by half less at most; then the sample is given up."""
    job.server.set(faults=[fault("status", 500, start=2)])
    assert job.run("--threads", "1", "--samples", "1") == 3
    assert [2.0**tried / 2 <= wait <= 2.0**tried for tried, wait in enumerate(waits[:5])] == [True] * 5
    assert len(waits) % 5 == 0


def test_a_wait_too_long_is_not_waited_for(job: Job, waits: list[float]) -> None:
    """A quota that is gone for the day: the run stops at once, as resumable as ever."""
    job.server.set(faults=[fault("status", 429, start=14, retry_after="3600", message="quota of the day")])
    assert job.run() == 3
    assert not waits
    assert "quota of the day" in job.messages and f"--resume {job.result['run_id'][:8]}" in job.messages


def test_what_does_not_pass_is_not_a_wrong_answer_and_the_run_continues(job: Job, waits: list[float]) -> None:
    """Three requests of 24 are refused for good: as many attempts without a score, and none else."""
    job.server.set(faults=[fault("status", 400, at=[5, 6, 7], message="a word that is not allowed")])
    assert job.run() == 0
    unscored = [attempt for attempt in job.attempts if not attempt.scored]
    assert len(unscored) == 3 and not waits
    assert all("a word that is not allowed" in str(attempt.error) for attempt in unscored)
    assert [attempt.score for attempt in unscored] == [None] * 3


def test_more_than_a_quarter_of_them_end_the_run_and_say_why(job: Job, waits: list[float]) -> None:
    """What was answered until then is kept."""
    job.server.set(faults=[fault("status", 400, start=16, message="a word that is not allowed")])
    assert job.run("--threads", "1") == 3
    assert "samples got no answer, the last: LMInvalidRequestError" in job.messages
    assert "a word that is not allowed" in job.messages
    assert sum(attempt.scored for attempt in job.attempts) == 14


def test_a_key_refused_in_mid_run_ends_it_and_resumed_nothing_is_asked_twice(job: Job) -> None:
    """After the probe and twelve answers; with a good key the other half is asked for, and no more."""
    job.server.set(faults=[fault("status", 403, start=14, message="the key was revoked")])
    assert job.run("--threads", "2") == 3
    last = job.messages.splitlines()[-1]
    assert "the LM cannot be used: LMAuthError:" in last and "the key was revoked; the results so far are kept" in last
    assert f"--resume {job.result['run_id'][:8]}" in job.messages
    job.server.set(faults=[])
    assert job.resume() == 0
    assert all(attempt.scored for attempt in job.attempts)
    answered = [json.dumps(each["body"]) for each in job.server.requests() if each["status"] == 200]
    probes = 2
    assert Counter(Counter(answered).values()) == {1: TASKS * SAMPLES, probes: 1}


def test_an_answer_that_is_no_program_is_a_wrong_one_and_a_reply_without_an_answer_none(job: Job) -> None:
    """Empty ones and cut-off ones are of stage `parse`, their text kept; replies without one failed, with the reason.

    All are paid for. The command says that answers were cut off, and what to do. A wrong content type is no fault.
    """
    kinds = ["empty", "null", "length", "length", "no_choices", "filtered"]
    job.server.set(faults=[*(fault(kind, at=[at]) for at, kind in enumerate(kinds, 2)), fault("plain")])
    assert job.run() == 0
    assert len(job.server.requests()) == 1 + TASKS * SAMPLES
    attempts = job.attempts
    empty = [each for each in attempts if each.outputs.get("impl") == "" and each.scored]
    cut = [each for each in attempts if any(count.truncated for count in each.tokens.values())]
    assert [(each.score, each.feedback["stage"]) for each in [*empty, *cut]] == [(0.0, "parse")] * 4
    assert all(str(attempt.outputs["impl"]) for attempt in cut)
    assert f"2 of {TASKS * SAMPLES} answers were truncated" in job.messages and "--max-tokens" in job.messages
    reasons = sorted(str(attempt.error) for attempt in attempts if not attempt.scored)
    assert len(reasons) == 2 and all(any(why in each for each in reasons) for why in ("no choices", "content_filter"))
    counted, probe = job.server.stats(), job.result["probe"]
    assert job.result["tokens"]["prompt"] + probe["prompt"] == counted["prompt_tokens"]
    assert job.result["tokens"]["completion"] + probe["completion"] == counted["completion_tokens"]


def test_without_usage_tokens_are_estimated_and_labelled_and_their_budget_holds(job: Job) -> None:
    """Some servers report none; three characters a token are near, and the run ends by it."""
    job.server.set(faults=[fault("no_usage")])
    assert job.run("--max-tokens-total", "40000", "--threads", "1") == 0
    counted, tokens = job.server.stats(), job.result["tokens"]
    assert job.result["tokens_estimated"] == tokens["prompt"] + tokens["completion"]
    assert 0.7 < tokens["prompt"] / counted["prompt_tokens"] < 1.4
    assert job.result["stopped"] == "budget" and len(job.attempts) < TASKS * SAMPLES


def test_a_budget_of_minutes_holds_within_a_request(job: Job) -> None:
    """A server that sends a byte now and then, to every sample; resumed without it, nothing is missing."""
    job.server.set(faults=[fault("drip", start=4)])
    job.run("--max-minutes", "0.02", "--timeout", "300")
    assert job.result["stopped"] == "budget" and "minutes of 0.02" in job.result["message"]
    job.server.set(faults=[])
    assert job.resume("--max-minutes", "60") == 0
    assert [attempt.scored for attempt in job.attempts] == [True] * TASKS * SAMPLES


def test_dollars_are_limited_only_where_they_are_known(job: Job) -> None:
    """Nothing is asked of a model without a price; with one it counts, and the run ends by it."""
    assert job.run("--max-usd", "5") == 2
    assert "the price of openai/" in job.messages and "--price IN,OUT" in job.messages
    assert not job.server.requests()
    job.run("--max-usd", "0.5", "--price", "10,100", "--threads", "1")
    tokens = job.result["tokens"]
    assert job.result["cost_usd"] == pytest.approx((tokens["prompt"] * 10 + tokens["completion"] * 100) / 1e6)
    assert job.result["stopped"] == "budget" and job.result["cost_usd"] >= 0.5


def test_requests_are_under_way_up_to_threads_and_none_waits_for_a_straggler(job: Job) -> None:
    """Of all tasks at once: the first is answered after all others, and these not before six are under way."""
    straggler = fault("slow", at=[2], seconds=300, after=TASKS * SAMPLES)  # the probe is one of these
    job.server.set(faults=[straggler, fault("slow", at=[3, 4, 5, 6, 7], seconds=300, crowd=6)])
    assert job.run("--threads", "6") == 0
    _, slow, *others = job.server.requests()
    assert job.server.stats()["most_at_once"] == 6
    assert len(others) == TASKS * SAMPLES - 1 and max(other["left"] for other in others) < slow["left"]
    assert slow["left"] < slow["came"] + 300
    tasks = [other["body"]["messages"][-1]["content"] for other in others[:5]]
    assert len({json.dumps(task) for task in tasks}) > 1
