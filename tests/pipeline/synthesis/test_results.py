"""Outcomes of searches, for people and for machines."""

import json
from dataclasses import replace

import pytest

from pipeline.synthesis.results import as_json, headline, programs_of
from pipeline.synthesis.search_budget import FoundProgram, Reason, SearchOutcome
from tests.support.scripted_runs import tasks

FOUND = SearchOutcome("E1 = f\nreturn E1\n", None, 1.25, candidates=1234, length=1)


def test_the_object_lists_solved_unsolved_and_not_reached_tasks() -> None:
    """It is JSON as it stands; a task that was not reached is null."""
    outcomes = {"easy/0": FOUND, "hard/0": SearchOutcome(None, "time", 60.0)}
    reported = json.loads(json.dumps(as_json(tasks(), outcomes)))
    assert (reported["solved"], reported["unsolved"]) == (["easy/0"], ["hard/0", "no/0"])
    assert reported["tasks"]["easy/0"]["passed"]
    assert (reported["tasks"]["hard/0"]["reason"], reported["tasks"]["no/0"]) == ("time", None)


def test_what_a_search_found_is_offered_once() -> None:
    """The first program, then those of the front; with what it took to find it."""
    front = (FoundProgram("E2 = g\nreturn E2\n", {"memory": 1}), FoundProgram(str(FOUND.impl), {"memory": 2}))
    assert programs_of(replace(FOUND, front=front)) == [FOUND.impl, front[0].impl]
    assert programs_of(SearchOutcome(None, "time", 3.0)) == []
    assert headline("a", FOUND) == "a: verified, 1.2 s, 1,234 candidates"


@pytest.mark.parametrize(
    ("reason", "words"),
    [("time", "--max-minutes"), ("candidates", "--max-candidates"), ("exhausted", "everything within reach was tried"),
     ("memory", "memory"), ("crashed", "the process crashed"), ("killed", "something else killed")],
)  # fmt: skip
def test_a_search_without_a_result_says_why(reason: Reason, words: str) -> None:
    """And what would help, where something would."""
    text = headline("a", SearchOutcome(None, reason, 3.0, candidates=5, missed=("output S0, line 2: x", "line 3")))
    assert text.startswith("a: no program found in 3.0 s, 5 candidates: ") and words in text
    assert text.endswith("`output S0, line 2: x`")
