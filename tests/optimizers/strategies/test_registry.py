"""Strategies by name: each learns with the optimizer, repeats with its seed, and is named in the record."""

from typing import Any

import pytest

from optimizers import OptimizerError, Selection, UnknownSelectionError
from optimizers.strategies.adaptive import Adaptive
from optimizers.strategies.registry import SELECTIONS, make_selection
from tests.support.scripted_program import learn, story

RATES = {"a": 1, "b": 2, "c": 3, "d": 4}


def unaided(task: str, demos: tuple[str, ...], visit: int) -> int:
    return RATES.get(task, 0)


STORIES = {
    "adaptive": ["H_1: ab -> -", "HM_1: abc -> -", "HME_1: abcd -> -"],
    "everything": ["all_1: abcd -> -"],
    "hard-first": ["hardest_1: ab -> -"],
    "easy-first": ["easy-1_1: d -> -", "easy-2_1: dc -> -", "easy-3_1: dcab -> -"],
    "none": [],
}


@pytest.mark.parametrize("name", STORIES)
def test_each_strategy_shows_what_its_name_says_until_a_cycle_solves_nothing(name: str) -> None:
    compiled = learn("abcdx", unaided, selection=name)
    assert story(compiled) == ["None: - -> abcd", *STORIES[name]]
    record = compiled.experience
    assert (record.stopped, record.settings["selection"]) == ("exhausted", name)
    assert [result.cycle for result in record.iterations] == [0] + [1] * len(STORIES[name])
    shown = STORIES[name][0].split()[1] if STORIES[name] else ""
    assert "".join(record.demos) == shown, "the first set of the next cycle"


@pytest.mark.parametrize("name", [name for name in SELECTIONS if name != "resample"])
def test_every_strategy_starts_over_once_something_is_solved(name: str) -> None:
    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        return {"x": 1, "y": 0}[task] if task in "xy" and demos else RATES.get(task, 0)

    first, *later = learn("abcdxy", script, selection=name).experience.iterations
    assert first.solved == tuple("abcd")
    assert [(it.cycle, it.level, it.solved) for it in later[:2]] == [(1, 0, ("x",)), (2, 0, ())] * (name != "none")


def test_a_strategy_goes_by_its_name_in_the_registry() -> None:
    for name in SELECTIONS:
        selection = make_selection(name)
        assert isinstance(selection, Selection) and selection.name == name
    assert make_selection(own := Adaptive(5)) is own


@pytest.mark.parametrize(
    ("selection", "kind", "message"),
    [
        ("best", UnknownSelectionError, r"unknown strategy 'best'; expected one of adaptive, everything, hard-first"),
        (3, TypeError, r"selection: expected a name or an optimizers\.Selection, found int"),
    ],
)
def test_an_unknown_strategy_is_refused_with_the_names_there_are(selection: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        learn("a", unaided, selection=selection)
    assert isinstance(caught.value, OptimizerError | TypeError)
