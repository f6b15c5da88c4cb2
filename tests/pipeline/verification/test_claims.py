"""What a file calls right is believed once it is judged."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from pipeline.verification.claims import MOST_SHOWN, Claim, Refusal, message, refusals
from tests.support.scripted_answers import REUSING, RIGHT, WRONG, task


def test_programs_that_pass_are_believed_and_the_others_say_why() -> None:
    """In the order of the claims; equal programs of one task are judged once."""
    broken = task().model_copy(update={"global_": "raise ValueError('no')"})
    claims = [
        Claim("a", task(), RIGHT),
        Claim("b", task(), WRONG),
        Claim("c", task(), REUSING),
        Claim("d", task(), RIGHT),
    ]
    with ThreadPoolExecutor(1) as executor:
        found = refusals([*claims, Claim("e\x1b", broken, RIGHT)], executor)
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
