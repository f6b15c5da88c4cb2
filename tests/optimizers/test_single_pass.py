"""The baseline samples every task once and shows nothing."""

from __future__ import annotations

from optimizers import SinglePass
from tests.support.scripted_program import learn, story

UNAIDED = {"a": 1, "b": 2, "c": 3}


def unaided(task: str, demos: tuple[str, ...], visit: int) -> int:
    return UNAIDED.get(task, 0)


def test_none_samples_once_without_demonstrations_and_learns_nothing():
    compiled = learn("abcx", unaided, optimizer=SinglePass)
    assert story(compiled) == ["None: - -> abc"]
    assert (compiled.solve.demos, compiled.experience.stopped) == ([], "exhausted")
    assert len(compiled.experience.entries) == 3
