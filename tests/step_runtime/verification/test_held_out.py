"""Programs that fit what they were tried on fall where they are judged on what they were not; right ones do not."""

import pytest

from step_runtime import Verifier
from step_runtime.program.limits import Limits
from step_runtime.verification.held_out import HeldOutTask
from tests.support import oracles
from tests.support.overfits import PLANTED


@pytest.mark.parametrize("name", ["gemm/0", "norm/0", "index/0"])
def test_right_programs_pass_and_are_proved(name: str) -> None:
    """An oracle passes at primes, equal and free dims, on stress inputs, and in exact arithmetic."""
    found = HeldOutTask(oracles.task(name), seed=3).judge(oracles.oracle(name))
    assert found.passed and not found.diagnostics
    assert found.exact is not None and found.exact.answer == "proved"
    assert [place.partition(":")[0] for place in found.held_out] == ["primes", "equal", "free"]


@pytest.mark.parametrize("name", PLANTED)
def test_planted_overfits_fall(name: str) -> None:
    """Each passes where its task tries it; the right program beside it is proved."""
    planted = PLANTED[name]
    assert Verifier(planted.task).verify(planted.wrong).passed
    held = HeldOutTask(planted.task, seed=3)
    right, wrong = held.judge(planted.right), held.judge(planted.wrong)
    assert right.passed and right.exact is not None and right.exact.answer == "proved"
    assert wrong.failed and wrong.reason


def test_an_answer_that_fails_at_once_is_run_at_no_held_out_sizes() -> None:
    """They are drawn for programs that pass on another input."""
    found = HeldOutTask(PLANTED["sign"].task, seed=0).judge("return X")
    assert found.failed and not found.held_out


def test_a_limit_of_time_makes_it_unknown() -> None:
    """A program that a limit ended is neither passed nor failed, and the reason says which."""
    planted = PLANTED["sign"]
    found = HeldOutTask(planted.task, seed=0, limits=Limits(seconds=1e-9)).judge(planted.right)
    assert found.unknown and found.diagnostics[0].code == "time-limit"
