"""The assay's chances are those of drawing lines, and of what an LM's log-probabilities say."""

import math
from pathlib import Path

import pytest

from benchmarks.assay import logprobs
from pipeline.languages import registry
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verifier
from tests.pipeline.lms.test_choosing import Json, Recorded
from tests.support import forked
from tests.support.benchmark_tasks import task_named

STEP = registry.find(None)
PROGRAM = """\
E2 = step.Bufferize(a=1).apply(E0)
E3 = step.Bufferize(a=1).apply(E1)
E4 = step.Map(fn=fn_outer).apply((E2, E3))
E5 = step.Accum(fn=fn_sum, b=1).apply(E4)
E6 = step.Streamify().apply(E5)
return E6
"""


def right(task: Task, verifier: Verifier, repeats: int, text: str = "") -> float:
    """The chance that a program which begins so is right when lines are drawn at random: every program is verified."""
    try:
        lines = STEP.next_lines(task, text, repeats)
    except ValueError:
        return 0.0
    if not lines:
        return float(verifier.verify(STEP.repaired(task, text) or text).passed)
    return sum(right(task, verifier, repeats, f"{text}{line}\n") for line in lines) / len(lines)


def knowing(body: Json) -> Json:
    """What an LM answers that goes on, letter by letter, with a program of `bmm/0`."""
    known, begun = f"[[ ## impl ## ]]\n{PROGRAM}", body["messages"][-1]["content"]
    next_ = known[len(begun)] if known.startswith(begun) else "?"
    top = [{"token": next_, "logprob": -0.01}, {"token": "~", "logprob": -50.0}]
    return {"choices": [{"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]}


def run(*arguments: str) -> str:
    ran = forked.run("-m", "benchmarks.assay", *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_chances_are_those_of_all_programs_and_an_lm_that_knows_one_is_always_right(tmp_path: Path) -> None:
    states, scores = (str(tmp_path / f"{name}.jsonl") for name in ("states", "scores"))
    run("states", "bmm/0", "-o", states)
    task = task_named("bmm/0")
    none, one = (right(task, Verifier(task), repeats) for repeats in (0, 1))
    assert 0 < one < none < 1
    without = chances(run("table", states, "--by-task"))
    assert without[:2] == [f"{(none + one) / 2:.3f}", f"{none:.3f}"]

    server, asked = Recorded(knowing), list[int]()
    for _ in range(2):
        run("ask", states, "--api-base", server.address, "-o", scores)
        asked.append(len(server.requests))
    server.close()
    assert asked[0] == asked[1] > 0
    scored = chances(run("table", states, "--scores", scores, "--by-task"))
    assert scored[: len(without) + 1] == [*without, "1.000"]


def chances(table: str) -> list[str]:
    return next(row.split()[1:] for row in table.splitlines() if row.startswith("bmm/0"))


def test_log_probabilities_of_choices_are_those_of_all_ways_to_write_them() -> None:
    """Tokens overlap, one choice begins another, and one is in no list."""
    tokens = {"a": 0.3, "b": 0.2, "ab": 0.4, "1": 0.1}

    def after(text: str) -> dict[str, float]:
        return {token: math.log(chance) for token, chance in tokens.items()}

    found = [math.exp(each) for each in logprobs(after, "so far: ", ["aba", "abb", "ab1"])]
    assert found == pytest.approx([each / 0.6 for each in (0.3, 0.2, 0.1)])
    begun = [math.exp(each) for each in logprobs(after, "", ["a", "a1", "x"])]
    assert begun == pytest.approx([0.3 / 0.4 * 0.9, 0.3 / 0.4 * 0.1, 0.1 / 0.4])
