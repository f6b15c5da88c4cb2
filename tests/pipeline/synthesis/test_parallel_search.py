"""Searches run in processes of their own, so that a function that hangs or crashes costs its task alone."""

import re

import pytest

from pipeline.synthesis import SearchBudget, parallel_search
from pipeline.verification.pool import LocalWorkers
from step_runtime.tasks.task import dump_task
from tests.support import fragile
from tests.support.processes import LIMIT
from tests.support.small_tasks import of_scalars


def test_a_function_that_hangs_costs_its_task_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker is killed when the time is up, and the next task is solved."""
    monkeypatch.setattr(parallel_search, "_GRACE", 2.0 * LIMIT - SearchBudget(600).clock)  # twice is left
    loop = "[input[0] for _ in iter(int, 1)]"
    hanging = of_scalars({"hang": (loop, 1)}, "input_data['E0'] * 2").named("hanging")
    easy = of_scalars({"double": ("2 * input[0]", 1)}, "input_data['E0'] * 2").named("easy")
    found = [
        outcome
        for _, outcome in parallel_search.search_all([hanging, easy], SearchBudget(seconds=600), LocalWorkers(1))
    ]
    assert (found[0].impl, found[0].reason) == (None, "clock")
    assert found[1].impl is not None


def test_an_error_of_a_search_is_in_its_outcome(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And in the log: not as if nothing had been found, nor as the end of the other tasks' searches."""
    easy = of_scalars({"double": ("2 * input[0]", 1)}, "input_data['E0'] * 2")
    tasks = [easy.named("broken"), easy.named("easy")]
    monkeypatch.setattr(parallel_search, "_search", fragile.search)
    solving = parallel_search.search_all(tasks, SearchBudget(seconds=600), LocalWorkers(1))
    outcomes = {task.name: outcome for task, outcome in solving}
    broken, found = outcomes["broken"], outcomes["easy"]
    assert (broken.impl, broken.reason) == (None, "internal")
    assert broken.error is not None
    assert re.fullmatch(r"ZeroDivisionError: .* \(fragile\.py:\d+\)", broken.error)
    assert f"broken: the search failed: {broken.error}" in caplog.text
    assert broken.error in broken.headline
    assert found.error is None
    assert found.impl is not None


def test_a_search_that_crashed_reports_how_long_it_took() -> None:
    """Not the limit that it never came to."""
    crashing = of_scalars({"leave": ('__import__("os")._exit(7)', 1)}, "input_data['E0'] * 2").named("crashing")
    ((_, outcome),) = parallel_search.search_all([crashing], SearchBudget(seconds=600), LocalWorkers(1))
    assert outcome.reason == "crashed"
    assert 0 < outcome.seconds < 600


def test_the_task_s_own_program_is_not_seen() -> None:
    """An `impl` that is there does not reach the worker: a wrong one is not given back, and a right one not needed."""
    given = of_scalars({"double": ("2 * input[0]", 1)}, "input_data['E0'] * 2").model_copy(update={"impl": "return E0"})
    assert "impl" in dump_task(given)
    ((_, outcome),) = parallel_search.search_all([given], SearchBudget(seconds=300), LocalWorkers(1))
    assert outcome.impl == "E1 = step.Map(fn=fn_double).apply(E0)\nreturn E1\n"
