"""Splitting holds these: sub-tasks are solved one by one and composed, within a budget."""

from pipeline.splitting.split_search import SplitOutcome, split_all
from pipeline.synthesis.search_budget import SearchBudget
from pipeline.verification.pool import LocalWorkers
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verifier
from tests.pipeline.splitting.layers import TEXT, layer


def split(task: Task, candidates: int = 100_000) -> SplitOutcome:
    ((_, outcome),) = split_all([task], SearchBudget(600, candidates), LocalWorkers(1))
    return outcome


def test_a_task_is_solved_by_its_parts() -> None:
    task = layer()
    outcome = split(task)
    assert outcome.impl is not None and Verifier(task).verify(outcome.impl).passed
    assert [part.task.outputs[0].name for part in outcome.parts] == ["n", "gate", "y"]
    assert all(Verifier(part.task).verify(part.program).passed for part in outcome.parts)


def test_what_no_function_makes_stays_unsolved_and_the_outcome_says_so() -> None:
    """The parts that are solved are kept, and the sub-tasks share the budget of candidates."""
    start, end = TEXT.index("- name: Gate"), TEXT.index("- name: Product")
    outcome = split(loads_task(TEXT[:start] + TEXT[end:], "layer"), 3_000)
    assert outcome.impl is None and outcome.unsolved == ("y",)
    assert outcome.candidates <= 3_000
    assert "n" in [part.task.outputs[0].name for part in outcome.parts]
    assert outcome.reached is not None and outcome.reached[0] != "y" and "step.Map(fn=fn_scale)" in outcome.reached[1]
