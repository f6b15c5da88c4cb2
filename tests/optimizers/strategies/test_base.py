"""A strategy of one's own is all that a new selection takes: the run records its labels and shows what it chooses.

Invariants held here: labels, levels and cycles in the record are those of the strategy, whatever they are; a strategy
may choose demonstrations per task, within the tokens of a prompt; the run asks it for nothing once all is solved.
"""

from collections.abc import Iterator, Sequence

from optimizers import Budget, DemoSet, Selection
from optimizers.attempt import TaskExample
from optimizers.state import State
from optimizers.strategies.base import Pick
from tests.support.scripted_program import Heard, ScriptedEngine, learn, story


def solve_abc(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 1, "b": 2, "c": 3}.get(task, 0)


class Newest:
    """Shows the entry that was earned last, then nothing more."""

    name = "newest"

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        yield DemoSet("first pass")
        yield DemoSet("newest_7", list(progress.entries.values())[-1:], level=4, cycle=7)

    def candidates(self, progress: State) -> Sequence[DemoSet]:
        return [DemoSet("newest", list(progress.entries.values())[-1:])]


def test_the_record_has_the_labels_levels_and_cycles_of_the_strategy() -> None:
    heard = Heard()
    compiled = learn("abcx", solve_abc, selection=Newest(), observers=[heard])
    assert isinstance(Newest(), Selection)
    assert story(compiled) == ["first pass: - -> abc", "newest_7: c -> -"]
    assert [(it.level, it.cycle) for it in compiled.experience.iterations] == [(-1, 0), (4, 7)]
    assert [(event.label, event.cycle) for event in heard.started] == [("first pass", 0), ("newest_7", 7)]
    assert [demo.task for demo in compiled.solve.demos] == ["c"]
    assert compiled.experience.settings["selection"] == "newest"


def test_nothing_is_asked_of_a_strategy_once_every_task_is_solved() -> None:
    class Once(Newest):
        def demo_sets(self, progress: State) -> Iterator[DemoSet]:
            yield DemoSet("only")
            raise AssertionError("asked again")

    assert learn("abc", solve_abc, selection=Once()).experience.stopped == "solved"


class PerTask(Newest):
    """Shows every task the entries whose names its own name has, hardest first."""

    budgets: list[int | None]

    def __init__(self) -> None:
        self.budgets = []

    def demo_sets(self, progress: State) -> Iterator[DemoSet]:
        def select(task: TaskExample, token_budget: int | None) -> Sequence[Pick]:
            self.budgets.append(token_budget)
            return [Pick(entry) for entry in progress.entries.values() if entry.task_key[0] in task.key]

        yield DemoSet("None")
        yield DemoSet("own_1", select=select, level=0, cycle=1)


def test_a_strategy_may_show_every_task_demonstrations_of_its_own() -> None:
    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        return 4 if demos else solve_abc(task, demos, visit)

    heard, engine, names = Heard(), ScriptedEngine(script, 4), ["a", "b", "c", "xab", "xc", "x"]
    compiled = learn(names, script, engine=engine, selection=PerTask(), observers=[heard])
    shown = {task: demos for task, demos, _ in engine.drawn if task.startswith("x") and demos}
    assert shown == {"xab": ("a", "b"), "xc": ("c",)}
    assert compiled.experience.iterations[1].solved == ("xab", "xc")
    assert heard.started[1].demos == ("a", "b", "c"), "the union, hardest first"
    assert compiled.experience.unsolved == ("x",)


def test_a_strategy_per_task_gets_the_tokens_of_a_prompt_and_what_exceeds_them_is_left_out() -> None:
    selection = PerTask()
    names = [name * 600 for name in "abc"] + ["x" + "a" * 1200 + "b", "xc"]
    rates = {"a": 1, "b": 2, "c": 3}
    compiled = learn(
        names, lambda task, demos, visit: rates.get(task[0], 0), selection=selection, budget=Budget(context=1200)
    )
    assert selection.budgets == [1200, 1200]
    _, result = compiled.experience.iterations
    assert [key[0] for key in result.demos] == ["a", "c"] and [key[0] for key in result.left_out] == ["b"]
