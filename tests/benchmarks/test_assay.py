"""The assay's chances are those of drawing lines, and of what an LM's log-probabilities say."""

import json
from pathlib import Path

from pipeline.languages import registry
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verifier
from tests.support import forked
from tests.support.benchmark_tasks import task_named

STEP = registry.find(None)


def right(task: Task, repeats: int, text: str = "") -> float:
    """The chance that a program which begins so is right when lines are drawn at random: every program is verified."""
    try:
        lines = STEP.next_lines(task, text, repeats)
    except ValueError:
        return 0.0
    if not lines:
        return float(Verifier(task).verify(STEP.repaired(task, text) or text).passed)
    return sum(right(task, repeats, f"{text}{line}\n") for line in lines) / len(lines)


def run(*arguments: str) -> str:
    ran = forked.run("-m", "benchmarks.assay", *arguments)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_chances_are_those_of_all_programs_and_an_lm_that_knows_the_lines_is_always_right(tmp_path: Path) -> None:
    states, choices, scores = (tmp_path / f"{name}.jsonl" for name in ("states", "choices", "scores"))
    run("states", "bmm/0", "-o", str(states))
    task = task_named("bmm/0")
    none, one = (right(task, repeats) for repeats in (0, 1))
    assert 0 < one < none < 1
    without = chances(run("table", str(states), "--by-task"))
    assert without[:2] == [f"{(none + one) / 2:.3f}", f"{none:.3f}"]

    run("export", str(states), "-o", str(choices))
    asked = [json.loads(row) for row in choices.read_text().splitlines()]
    known = [state for row in map(json.loads, states.read_text().splitlines()) for state in row["states"]]
    leads = {
        (state["text"], line): to for state in known for line, to in zip(state["lines"], state["next"], strict=True)
    }
    with scores.open("w") as file:
        for row in asked:
            logprobs = [0.0 if leads[row["text"], line] != -1 else -1000.0 for line in row["lines"]]
            file.write(json.dumps({"id": row["id"], "logprobs": logprobs}) + "\n")
    scored = chances(run("table", str(states), "--scores", str(scores), "--choices", str(choices), "--by-task"))
    assert scored[: len(without)] == without and {*scored[len(without) :]} == {"1.000"}


def chances(table: str) -> list[str]:
    return next(row.split()[1:] for row in table.splitlines() if row.startswith("bmm/0"))
