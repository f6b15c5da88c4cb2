"""What came of searches, for people."""

from dataclasses import replace

import pytest

from pipeline.synthesis.results import programs_of, why
from pipeline.synthesis.search_budget import FoundProgram, Reason, SearchOutcome

FOUND = SearchOutcome("E1 = f\nreturn E1\n", None, 1.25, candidates=1234, length=1)


def test_what_a_search_found_is_offered_once() -> None:
    """The first program, then those of the front."""
    front = (FoundProgram("E2 = g\nreturn E2\n", {"memory": 1}), FoundProgram(str(FOUND.impl), {"memory": 2}))
    assert programs_of(replace(FOUND, front=front)) == [FOUND.impl, front[0].impl]
    assert programs_of(SearchOutcome(None, "time", 3.0)) == []


@pytest.mark.parametrize(
    ("reason", "words"),
    [("time", "--max-minutes"), ("candidates", "--max-candidates"), ("exhausted", "everything within reach was tried"),
     ("memory", "memory"), ("crashed", "the process crashed"), ("killed", "something else killed")],
)  # fmt: skip
def test_a_search_without_a_result_says_why(reason: Reason, words: str) -> None:
    """And what would help, where something would."""
    assert words in why(SearchOutcome(None, reason, 3.0, error="E7"))
    assert why(SearchOutcome(None, reason, 3.0, error="E7")).endswith(": E7")
