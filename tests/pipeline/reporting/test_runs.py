"""A recorded run is read back with the optimizer's own figures, and found by its id or name."""

from pathlib import Path

import dspy
import pytest

from optimizers import AdaptiveFewShot, BaseObserver, Domain, IterationStarted, TaskCount, TokenCount
from pipeline.record.recorder import recorded
from pipeline.reporting.runs import RecordedRun, read_runs, replay
from tests.pipeline.conftest import Recorded
from tests.support.scripted_runs import RIGHT, Engine, Solver, is_right, learn, tasks

pytestmark = pytest.mark.usefixtures("unrendered")

NAMES = ("easy/0", "hard/0", "no/0")


def test_every_figure_equals_what_the_optimizer_said(run_read: RecordedRun, recorded_run: Recorded) -> None:
    """Labels with cycles, newly solved tasks, pass@k, prompt tokens per task and tokens, iteration by iteration."""
    said = recorded_run.experience
    assert len(said.iterations) == len(run_read.iterations) == 4
    for own, theirs in zip(run_read.iterations, said.iterations, strict=True):
        assert (own.index, own.label, own.solved) == (theirs.index, theirs.label, theirs.solved)
        assert (own.score.pass_at_1, own.score.pass_at_8) == (theirs.pass_at_1, theirs.pass_at_8)
        assert (own.score.pass_at_n, own.score.solved) == (theirs.pass_at_n, theirs.solved_total)
        assert own.prompt_per_task == theirs.tokens_prompt_per_task
        assert own.tokens == TokenCount.sum(theirs.tokens.values())
        at_k = run_read.pass_at_k(own)
        assert (at_k[0], at_k[-1]) == (theirs.pass_at_1_pooled, theirs.pass_at_n)
    assert run_read.programs == {entry.task_key: entry.outputs["impl"] for entry in said.entries}
    best = {e.task_key: (e.temperature, e.successes, e.samples) for e in said.entries}
    assert {name: (c.temperature, c.successes, c.samples) for name, c in run_read.counts.items()} == best
    assert run_read.samples == 2


def test_a_run_that_died_is_reported_by_what_it_had_recorded(store_folder: Path, recorded_run: Recorded) -> None:
    """Without experience and solutions: the figures of its iterations, and the right answers' programs."""

    class Dies(BaseObserver):
        def iteration_started(self, event: IterationStarted) -> None:
            if event.index == 2:
                raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError), recorded("died", {"granularity": 3}, tasks()) as recorder:
        learn([recorder, Dies()])
    (run,) = read_runs(["died"])
    assert run.status == "FAILED"
    said = recorded_run.experience.iterations[:2]
    assert [it.score.pass_at_1 for it in run.iterations] == [it.pass_at_1 for it in said]
    assert run.programs == {"easy/0": RIGHT, "hard/0": RIGHT}


def test_tasks_solved_by_an_earlier_run_keep_its_figures(store_folder: Path) -> None:
    """A run that starts from another's experience does not sample them again."""
    earlier = learn([])
    examples = [dspy.Example(name=task.name, task=task).with_inputs("name", "task") for task in tasks()]
    with recorded("continues", {}, tasks()) as recorder, dspy.context(lm=dspy.LM("s", engine=Engine(), cache=False)):
        domain = Domain(task_key=lambda example: str(example.name))
        optimizer = AdaptiveFewShot(is_right, 2, temperatures=(0.4,), threads=1, domain=domain, observers=[recorder])
        said = optimizer.compile(Solver(), trainset=examples, experience=earlier).experience
    (run,) = read_runs(["continues"])
    assert run.score.pass_at_1 == said.iterations[-1].pass_at_1 == pytest.approx(2 / 3)
    assert set(run.counts) == {"easy/0", "hard/0"}
    assert run.solved_in == {}
    assert [it.label for it in run.iterations] == [it.label for it in said.iterations]


def test_a_task_without_attempts_is_unsolved(run_read: RecordedRun) -> None:
    """And what was solved before the run counts from its first iteration on."""
    attempts = {it.index: it.attempts for it in run_read.iterations}
    labels = {it.index: it.label for it in run_read.iterations}
    names = [*NAMES, "never/0", "before/0"]
    iterations, counts = replay(attempts, labels, names, {"before/0": TaskCount("before/0", 0.4, 1, 2)})
    assert [it.score.solved for it in iterations] == [2, 3, 3, 3]
    assert iterations[0].score.pass_at_1 == pytest.approx((1 + 1 / 2) / 5)
    assert "never/0" not in counts
