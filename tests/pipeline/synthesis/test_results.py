"""Outcomes of searches, for people and for machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.synthesis.results import as_json, as_text
from pipeline.synthesis.search_budget import Reason, SearchOutcome
from tests.support.scripted_runs import tasks

FOUND = SearchOutcome("E1 = f\nreturn E1\n", None, 1.25, candidates=1234, length=1)


def test_the_object_tells_solved_unsolved_and_not_reached_tasks() -> None:
    """It is JSON as it stands; a task that was not reached is null."""
    outcomes = {"easy/0": FOUND, "hard/0": SearchOutcome(None, "time", 60.0)}
    told = json.loads(json.dumps(as_json(tasks(), outcomes, {"easy/0": [Path("a.step")]})))
    assert (told["solved"], told["unsolved"]) == (["easy/0"], ["hard/0", "no/0"])
    assert (told["tasks"]["easy/0"]["passed"], told["tasks"]["easy/0"]["files"]) == (True, ["a.step"])
    assert (told["tasks"]["hard/0"]["reason"], told["tasks"]["no/0"]) == ("time", None)


def test_a_program_is_shown_unless_it_was_written_to_files() -> None:
    """With what it took to find it."""
    assert as_text("a", FOUND, []) == "a: verified, 1.2 s, 1,234 candidates\n  E1 = f\n  return E1"
    assert as_text("a", FOUND, [Path("a.step")]).splitlines()[1:] == ["  a.step"]


@pytest.mark.parametrize(
    ("reason", "words"),
    [("time", "--max-minutes"), ("candidates", "--max-candidates"), ("exhausted", "everything within reach was tried"),
     ("memory", "memory"), ("crashed", "the process crashed")],
)  # fmt: skip
def test_a_search_without_a_result_says_why(reason: Reason, words: str) -> None:
    """And what would help, where something would."""
    text = as_text("a", SearchOutcome(None, reason, 3.0, candidates=5), [])
    assert text.startswith("a: no program found in 3.0 s, 5 candidates: ") and words in text
