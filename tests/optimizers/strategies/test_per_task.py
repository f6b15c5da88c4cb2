"""Strategies that choose per task learn with the optimizer like any other.

Invariants held here: a task is never shown itself; what is shown fits the tokens of demonstrations; the record says
what each task was shown and why; the compiled program carries what suits all; a resumed run is the same run.
"""

from typing import Any

import pytest

from optimizers import Budget, Domain, Experience
from optimizers.strategies.per_task import PerTask
from optimizers.strategies.registry import SELECTIONS, make_selection
from tests.support.scripted_program import Heard, ScriptedEngine, by_task, learn, tasks

NAMES = [name for name in SELECTIONS if isinstance(make_selection(name), PerTask)]
SOLVED = {"red cat": 1, "red dog": 2, "blue dog": 3, "green emu": 4}
HARD = {"a red cow": "red", "a blue cow": "blue", "an emu": "emu"}


def script(task: str, demos: tuple[str, ...], visit: int) -> int:
    """A hard task is solved once something with its word is shown; the emu, by nothing."""
    return SOLVED.get(task, 2 * any(HARD.get(task, "") in demo and task != "an emu" for demo in demos))


def run(name: str, **options: Any) -> tuple[Experience, Heard, ScriptedEngine, Any]:
    heard, engine = Heard(), ScriptedEngine(script, 4)
    compiled = learn([*SOLVED, *HARD], script, engine=engine, selection=name, observers=[heard], **options)
    return compiled.experience, heard, engine, compiled


@pytest.mark.parametrize("name", NAMES)
def test_tasks_are_shown_what_is_like_them(name: str) -> None:
    """The record and the listeners have the demonstrations of each, in the prompt's order, with reasons."""
    record, heard, engine, compiled = run(name)
    assert record.unsolved == ("an emu",)
    second = record.iterations[1]
    assert set(second.reasons) == set(HARD) and heard.started[1].reasons == second.reasons
    for task, reasons in second.reasons.items():
        assert all(reasons.values())
        assert {demos for each, demos, _ in engine.drawn if each == task and demos} >= {tuple(reasons)}
    assert "red cat" in second.reasons["a red cow"]
    assert ("green emu" in second.reasons["an emu"]) == (name != "hybrid"), "the easiest, not among the hardest level"
    assert second.demos == tuple(key for key in SOLVED if any(key in each for each in second.reasons.values()))
    assert [demo.task for demo in compiled.solve.demos] == list(record.demos) != []
    assert Experience.from_dict(record.to_dict()).iterations == record.iterations


@pytest.mark.parametrize("name", [*NAMES, "everything"])
def test_demonstrations_fit_their_tokens(name: str) -> None:
    """None where none fits, all of them where there is room."""
    sizes = {}
    for limit in (1, 45, 10_000):
        _, _, engine, compiled = run(name, budget=Budget(demo_tokens=limit))
        sizes[limit] = max(len(demos) for _, demos, _ in engine.drawn), len(compiled.solve.demos)
    assert sizes[1] == (0, 0)
    assert all(0 < few < len(SOLVED) for few in sizes[45]) and max(sizes[10_000]) >= len(SOLVED)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_is_the_same_run(name: str) -> None:
    whole, *_ = run(name)
    kept = [attempt for attempt in whole.attempts if attempt.iteration < 2]
    again, *_ = run(name, compiling={"resume": kept})
    assert [(it.solved, it.reasons) for it in again.iterations] == [(it.solved, it.reasons) for it in whole.iterations]
    assert again.demos == whole.demos


def test_validation_measures_what_the_compiled_program_shows() -> None:
    """One set for every task, not the sets that are chosen per task."""
    engine, valset = ScriptedEngine(script, 4), tasks(["a blue cow", "an emu"])
    compiled = learn(
        [*SOLVED, *HARD], script, engine=engine, selection="hybrid", compiling={"valset": valset},
    )  # fmt: skip
    record = compiled.experience
    shown = {level.demos for level in record.validation}
    assert len(record.validation) > 1 and tuple(demo.task for demo in compiled.solve.demos) in shown
    validated = [attempt for attempt in record.attempts if attempt.iteration < 0]
    assert {attempt.task_key for attempt in validated} == {"a blue cow", "an emu"}
    for demos in shown:
        assert {task for task, each, _ in engine.drawn if each == demos} >= {"a blue cow", "an emu"}


def test_the_structures_are_the_domain_s() -> None:
    """Here of the last letter alone, of a task and of its nearest miss."""
    seen: list[Any] = []

    def last_letter(inputs: Any, outputs: Any) -> frozenset[str]:
        seen.append((inputs["task"], outputs and outputs["answer"]))
        return frozenset(inputs["task"][-1])

    domain = Domain(task_key=by_task, structures=last_letter)
    record = run("similar", domain=domain)[0]
    assert next(iter(record.iterations[1].reasons["an emu"])) == "red cat" and ("an emu", "wrong") in seen
