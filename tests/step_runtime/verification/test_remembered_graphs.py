"""What a verifier remembers of runs, and what it makes of memory that it is refused.

Invariants: a graph that ran is not run again, whatever the text; whatever could change a run's result counts;
places reported are those of the text at hand; memory that is refused is a verdict.
"""

import pytest

from step_runtime.base.errors import out_of_memory
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verdict, Verifier
from tests.support.scripted_answers import RIGHT, TASK, WRONG

REORDERED = "c = step.Copy().apply(E0)\na = step.Identity().apply(c[1])\nreturn step.Map(fn=fn_mul).apply((c[0], a))"


class Counting(Verifier):
    """Counts the graphs that it runs at the task's own sizes."""

    runs = 0

    def _run_all(self, places: object, *args: object) -> object:  # type: ignore[override]
        self.runs += places is self._instances
        return super()._run_all(places, *args)  # type: ignore[arg-type]


def with_function(apply: str) -> Task:
    task = loads_task(TASK, "square/0")
    return task.model_copy(update={"fns": [task.fns[0].model_copy(update={"apply": apply})]})


def test_a_graph_is_run_once() -> None:
    """Another text of it gets the same verdict at once."""
    verifier = Counting(loads_task(TASK, "square/0"))
    assert verifier.verify(RIGHT).passed
    assert verifier.verify(REORDERED).passed
    assert verifier.runs == 1


def test_a_wrong_graph_is_reported_at_the_text_s_own_place() -> None:
    """Its result stands on another line there."""
    verifier = Counting(loads_task(TASK, "square/0"))
    first, second = verifier.verify(WRONG), verifier.verify(f"# text\n{WRONG}")
    assert verifier.runs == 1
    spans = [verdict.diagnostics[0].span for verdict in (first, second)]
    assert spans[0] is not None
    assert spans[1] is not None
    assert spans[1].line == spans[0].line + 1
    assert first.diagnostics[0].message == second.diagnostics[0].message


def test_what_no_result_depends_on_counts_too() -> None:
    """It runs all the same, and may fail."""
    verifier = Counting(with_function("return [input[0].new_tensor(input[0].item() * 1.0) * input[1]]"))
    dead = "E1, E2 = step.Copy().apply(E0)\nreturn E1"
    running = "E3, E4 = step.Copy().apply(E2)\nx = step.Map(fn=fn_mul).apply((E3, E4))"
    failing = dead.replace("return", f"{running}\nreturn")
    assert verifier.verify(dead).stage == verifier.verify(failing).stage == "value"
    assert verifier.runs == 2


def test_a_failure_while_running_is_found_again() -> None:
    """As it tells a place in the text."""
    verifier = Counting(with_function("raise ValueError('on purpose')"))
    for text in (RIGHT, f"# text\n{RIGHT}"):
        verdict = verifier.verify(text)
        assert verdict.stage == "run"
        assert "^^^" in verdict.render(text)
        assert "fn_mul" in verdict.render(text)
    assert verifier.runs == 2


def test_a_verifier_that_forgets_runs_every_time() -> None:
    """For measurements."""
    verifier = Counting(loads_task(TASK, "square/0"), remember=False)
    assert [verifier.verify(RIGHT).passed for _ in range(2)] == [True, True]
    assert verifier.runs == 2


def test_scopes_are_those_that_global_leaves() -> None:
    """One a set of sizes, with what the task's code computed."""
    task = loads_task(f"global: |\n  E_value = 1 + M_value\nsizes: {{E: 2}}\n{TASK}", "square/0")
    sizes = [scope.sizes for scope in Verifier(task).scopes]
    assert [one["E"] for one in sizes] == [one["M"] + 1 for one in sizes]


@pytest.mark.parametrize("apply", ["return [torch.ones(2**58)]", "raise MemoryError"])
def test_memory_that_is_refused_is_a_verdict(apply: str) -> None:
    """With a code of its own, whoever refused it."""
    verdict = Verifier(with_function(apply)).verify(RIGHT)
    assert isinstance(verdict, Verdict)
    assert [diagnostic.code for diagnostic in verdict.diagnostics] == ["memory-limit"]


def test_memory_that_is_refused_is_known_by_its_error() -> None:
    """Other errors are others."""
    assert out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("shapes differ"))
    assert not out_of_memory(None)
