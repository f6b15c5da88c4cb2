"""One sample and its outcome: scored or not, and the same after a trip through JSON."""

import json
from dataclasses import replace

from optimizers import Attempt, TokenCount

RIGHT = Attempt(
    iteration=1,
    task=2,
    task_key="c",
    temperature=0.7,
    sample=3,
    seed=4,
    outputs={"answer": "right"},
    score=1.0,
    passed=True,
    tokens={"solve": TokenCount(calls=1, prompt=5)},
    calls={"check": ({"draft": "x"},), "hop": ({"at": 1}, {"at": 2}), "unused": ()},
)


def test_only_an_attempt_with_a_score_is_scored() -> None:
    """A score of nothing is one; an attempt without an answer has none."""
    assert RIGHT.scored and replace(RIGHT, score=0.0, passed=False).scored
    assert not replace(RIGHT, score=None, passed=False, error="LMServerError: down").scored


def test_an_attempt_survives_json() -> None:
    """Counts of tokens come back as counts, and calls as calls, of which one is written without a list."""
    assert RIGHT.to_dict()["calls"] == {"check": {"draft": "x"}, "hop": [{"at": 1}, {"at": 2}], "unused": {}}
    again = Attempt.from_dict(json.loads(json.dumps(RIGHT.to_dict())))
    assert again == RIGHT and isinstance(again.tokens["solve"], TokenCount)


def test_an_attempt_without_calls_is_recorded_without_the_key() -> None:
    """Records of programs whose own fields say all stay short, and read back."""
    bare = replace(RIGHT, calls={})
    assert "calls" not in bare.to_dict() and "calls" in RIGHT.to_dict()
    assert Attempt.from_dict(bare.to_dict()) == bare


def test_an_unscored_verdict_is_neither_a_failure_nor_a_score() -> None:
    """The metric answered, so that the sample stands; the control got no answer."""
    unknown = Attempt(0, 0, "t", 0.4, 0, 0, outputs={"impl": "x"}, feedback={"unscored": True, "stage": "run"})
    assert unknown.unknown and not unknown.failed and not unknown.scored
    lost = Attempt(0, 0, "t", 0.4, 0, 0, error="LMError: no")
    assert lost.failed and not lost.unknown
