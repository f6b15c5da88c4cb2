"""Answers judged once more in workers: planted overfits fall, right programs pass, and lost workers say nothing."""

from concurrent.futures import Executor, Future
from typing import Any

import dspy
import pytest

from optimizers.domain import HoldOut
from pipeline.record.mlflow_metrics import is_proved
from pipeline.verification import held_out
from pipeline.verification.held_out import holding_out
from pipeline.verification.pool import LocalWorkers, WorkerLost
from step_runtime.tasks.reader import loads_task
from tests.support.overfits import PLANTED
from tests.support.scripted_runs import RIGHT, TASK


def judge(seed: int = 0, told: list[str] | None = None, executor: Executor | None = None) -> HoldOut:
    """Judges in one process."""
    found = holding_out(LocalWorkers(1), seed, None, [].append if told is None else told.append, executor)
    assert found is not None
    return found


def claim(task: Any, text: str) -> tuple[dspy.Example, dict[str, str]]:
    return dspy.Example(task=task), {"impl": text}


def test_planted_overfits_fall_and_right_programs_pass() -> None:
    """Several, in one call; the right ones are proved, and the reasons are lines for people."""
    told: list[str] = []
    planted = [*PLANTED.values()][:4]
    solutions = [claim(each.task, text) for each in planted for text in (each.right, each.wrong)]
    found = judge(3, told)(solutions, [])
    assert [each and each.answer for each in found] == ["passed", "failed"] * len(planted)
    assert [is_proved(each) for each in found] == [True, False] * len(planted)
    assert all(each is not None and each.reason and "\n" not in each.reason for each in found[1::2])
    assert told == ["8 solutions judged once more, at sizes and inputs that were never used"]


def test_refused_answers_are_judged_too() -> None:
    """Their verdicts follow those of the solutions."""
    task = loads_task(TASK, "double")
    right = claim(task, RIGHT)
    found = judge()([right], [right, claim(task, "return E0")])
    assert [each and each.answer for each in found] == ["passed", "passed", "failed"]
    assert judge()([], []) == []


def test_a_worker_that_is_lost_makes_it_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """As does a task whose code fails; each names the reason, and the others are judged."""
    monkeypatch.setattr(held_out, "_SECONDS", 2)
    hanging = TASK.replace("return [input[0] * 2]", "while True: pass")
    failing = TASK.replace("input_data['E0'] * 2", "input_data['E0'] / missing")
    texts = [TASK, hanging, failing]
    found = judge()([claim(loads_task(text, f"t/{number}"), RIGHT) for number, text in enumerate(texts)], [])
    assert [each and each.answer for each in found] == ["passed", "unknown", "unknown"]
    assert found[1] is not None and "took longer" in found[1].reason
    assert found[2] is not None and "missing" in found[2].reason


class Hurried(Executor):
    """Its workers have no time."""

    def submit(self, *_: Any) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        future.set_exception(WorkerLost("time-limit", "took longer than 0 s"))
        return future


def test_who_takes_longer_than_a_run_allows_is_judged_with_more_time() -> None:
    """A run's own workers are asked first, with a verdict's time."""
    (found,) = judge(executor=Hurried())([claim(loads_task(TASK, "double"), RIGHT)], [])
    assert found is not None and found.answer == "passed"


def test_a_language_that_does_not_offer_it_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a run's domain has nothing that judges once more."""
    monkeypatch.setattr(held_out.registry.find("step"), "holds_out", False)
    assert holding_out(LocalWorkers(1), 0, "step") is None
