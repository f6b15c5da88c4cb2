"""What a file calls right is believed once it is judged."""

from __future__ import annotations

import pytest

from pipeline.verification import claims
from pipeline.verification.claims import MOST_SHOWN, UNJUDGED, Claim, Refusal, message, refusals
from pipeline.verification.workers import LocalWorkers
from tests.support.scripted_answers import REUSING, RIGHT, WRONG, task


def test_programs_that_pass_are_believed_and_the_others_say_why() -> None:
    """In the order of the claims; equal programs of one task are judged once."""
    broken = task().model_copy(update={"global_": "raise ValueError('no')"})
    said = [
        Claim("a", task(), RIGHT),
        Claim("b", task(), WRONG),
        Claim("c", task(), REUSING),
        Claim("d", task(), RIGHT),
    ]
    found = refusals([*said, Claim("e\x1b", broken, RIGHT)], LocalWorkers(1))
    assert [refusal is None for refusal in found] == [True, False, False, True, False]
    reasons = [str(refusal) for refusal in found if refusal is not None]
    assert reasons[0].startswith("b: its program fails at stage value: value: output S0")
    assert reasons[1].startswith("c: its program fails at stage affine: affine: stream E0 is consumed 2 times")
    assert reasons[2].startswith("e\\x1b: its task can't be used: ") and "\n" not in reasons[2]


def test_a_message_names_the_first_refusals_and_counts_the_others() -> None:
    """Nothing is said where nothing is refused."""
    refused = [Refusal(f"entries.{number}", "no") for number in range(MOST_SHOWN + 2)]
    lines = message(refused, 1000, "e.json").split("\n")
    assert lines[0] == f"{len(refused)} of 1,000 programs of e.json refused, as verification denies them:"
    assert lines[1:] == [*(f"  {each}" for each in refused[:MOST_SHOWN]), "  … and 2 more"]
    assert message([], 3, "e.json") == ""


def test_programs_that_hang_cost_a_load_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,000 tasks whose code hangs a few are tried, each limit after the other; the others are counted."""
    monkeypatch.setattr(claims, "LIMITS", ((1.0, 1), (0.3, 2)))
    hanging = [
        Claim(str(number), task().model_copy(update={"global_": f"while {number + 1}: pass"}), RIGHT)
        for number in range(1000)
    ]
    refused = [refusal for refusal in refusals(hanging, LocalWorkers(1)) if refusal is not None]
    tried = [refusal.reason for refusal in refused if refusal.reason != UNJUDGED]
    assert len(refused) == 1000 and len(tried) == 3 and all("time-limit" in reason for reason in tried)
    *_, last = message(refused, 1000, "e.json").split("\n")
    assert last == "  997 not judged, as too many programs before them were lost at a limit"
