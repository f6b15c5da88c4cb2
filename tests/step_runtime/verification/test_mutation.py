"""Mutants that a task fails to kill are named with the change to the task that kills them."""

import pytest

from step_runtime import Verifier
from step_runtime.program.limits import Limits
from step_runtime.verification.held_out import HeldOutTask
from step_runtime.verification.mutation import MutationScore, Survivor, mutation_score
from tests.support.overfits import PLANTED


def scored(name: str) -> MutationScore:
    """The score of a planted task's right program."""
    task = PLANTED[name].task
    return mutation_score(PLANTED[name].right, Verifier(task), HeldOutTask(task, 0))


def test_other_sizes_kill_a_literal() -> None:
    """The mutant with the function that divides by 4 passes where M is 4; the sizes that kill it are named."""
    found = scored("literal")
    assert [each.change.partition(" with")[0] for each in found.survivors] == ["`sizes`"]
    assert "fn_wrong" in found.survivors[0].text and "differs" in found.survivors[0].reason
    assert found.killed > 50 and found.same > 10 and found.score == found.killed / (found.killed + 1)
    assert "killed by `sizes` with M=" in found.render()


def test_stress_kills_a_mutant_that_the_data_hide() -> None:
    """Without the relu, a mutant passes on data from 0 to 1; a relu more is the same function, and is not proved."""
    found = {each.change: each for each in scored("sign").survivors}
    assert set(found) == {"", "`stress: true`, or a `data_gen` with other magnitudes and signs"}
    assert found[""].text.count("fn_right") == 2 and found[""].reason.startswith("not proved: ")


def test_mutants_that_a_limit_ends_are_unknown() -> None:
    """They are neither killed nor survivors, and a program without mutants has a score of 1."""
    task = PLANTED["sign"].task
    limited = Limits(seconds=1e-9)
    held = HeldOutTask(task, 0, limits=limited)
    found = mutation_score(PLANTED["sign"].right, Verifier(task, limits=limited), held)
    assert found.unknown > 0 and not found.survivors
    assert MutationScore(0, 0, 0, 0, ()).score == 1.0
    assert mutation_score("return", Verifier(task), held) == MutationScore(0, 0, 0, 0, ())


@pytest.mark.parametrize(("change", "shown"), [("", "nothing that was tried kills them"), ("x", "killed by x")])
def test_the_text_groups_survivors_by_change(change: str, shown: str) -> None:
    """Three of each are shown, and the counts that are not zero."""
    score = MutationScore(9, 4, 0, 0, tuple(Survivor("k", f"return E{n}", change) for n in range(5)), 2)
    text = score.render()
    assert text.startswith("mutants: 4 of 9 mutants killed, 2 not judged\n  5 survive; " + shown)
    assert text.count("return E") == 3
