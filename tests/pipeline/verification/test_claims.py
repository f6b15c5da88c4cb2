"""What a file calls right is believed once it is judged."""

import pytest

from pipeline.verification import claims
from pipeline.verification.claims import MOST_SHOWN, Claim, Round, judged, message
from pipeline.verification.pool import LocalWorkers
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
    found = judged([*said, Claim("e\x1b", broken, RIGHT)], LocalWorkers(1))
    assert [not claim.reason for claim in found] == [True, False, False, True, False]
    reasons = [str(claim) for claim in found if claim.reason]
    assert reasons[0].startswith("b: its program fails at stage value: value: output S0")
    assert reasons[1].startswith("c: its program fails at stage affine: affine: stream E0 is consumed 2 times")
    assert reasons[2].startswith("e\\x1b: its task can't be used: ") and "\n" not in reasons[2]


def test_a_message_names_the_first_refusals_and_counts_the_others() -> None:
    """Nothing is said where nothing is refused."""
    refused = [Claim(f"entries.{number}", None, "", "no") for number in range(MOST_SHOWN + 2)]
    lines = message(refused, 1000, "e.json").split("\n")
    assert lines[0] == f"{len(refused)} of 1,000 programs of e.json refused, as verification denies them:"
    assert lines[1:] == [*(f"  {each}" for each in refused[:MOST_SHOWN]), "  … and 2 more"]
    assert message([], 3, "e.json") == ""


def test_what_hangs_keeps_no_quick_program_from_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow one has more time, as long as few others are refused at that; the others are counted by their limit."""
    monkeypatch.setattr(claims, "ROUNDS", (Round(0.5, 100), Round(1.5, 100, 1, 1000)))
    codes = ["while __import__('time').process_time() < 0.7: pass", ""]
    codes[1:1] = [f"while int({number + 1}): pass" for number in range(2)]
    said = [Claim(code, task().model_copy(update={"global_": code}), RIGHT) for code in codes]
    found = judged(said, LocalWorkers(1))
    assert [not claim.reason for claim in found] == [True, False, False, True]
    refused = [claim for claim in found if claim.reason]
    assert message(refused, 4, "e.json").split("\n")[1:] == [
        "  1 not judged within 1.5 s of processor time and 150 s by the clock",
        "  1 not judged within 0.5 s of processor time and 50 s by the clock",
    ]


def test_many_more_may_be_refused_at_a_greater_limit_where_many_wait() -> None:
    """And all at the first one."""
    first, *others = claims.ROUNDS
    assert first.most(1000) == 1000
    assert all(each.most(1) < each.most(1000) < 50 for each in others)
