"""Mutants: the verifier accepts the right ones alone, and a score names the change to a task that kills the others.

Which are right is found without the parser and the simulator (`tests.support.truth`).
"""

from collections import Counter

import pytest

from step_runtime import Verifier
from step_runtime.language.parser import parse
from step_runtime.program.limits import Limits
from step_runtime.verification.check import check_affine
from step_runtime.verification.edits import mutants
from step_runtime.verification.held_out import HeldOutTask
from step_runtime.verification.instance import instances
from step_runtime.verification.mutation import MutationScore, Survivor, mutation_score
from tests.support import oracles
from tests.support.aliases import aliased
from tests.support.mutants import Judged, changed, judged
from tests.support.overfits import PLANTED
from tests.support.truth import Truth, run_text

NAMES = oracles.names()


@pytest.fixture(scope="module")
def sample() -> list[Judged]:
    """One mutant in forty of every oracle, the same ones every time."""
    return [row for task, text in oracles.solved() for row in judged(task, changed(task, text, 1 / 40), seeds=(11,))]


def test_verifier_takes_the_right_mutants_and_refuses_the_wrong(sample: list[Judged]) -> None:
    assert [row for row in sample if not row.agrees] == []


def test_sample_holds_right_and_wrong_programs_of_every_kind(sample: list[Judged]) -> None:
    """So that the figure above says something: faults of every kind, and enough that are right."""
    faults = Counter(row.fault for row in sample)
    assert faults.keys() >= {None, "affine", "type", "value"}
    assert faults[None] > 50
    assert len({row.mutant.kind for row in sample}) > 30


@pytest.mark.parametrize("name", NAMES)
def test_affine_rule_is_decided_on_the_graph(name: str) -> None:
    """Aliases, rebinding, comprehensions, zip, subscripts and unpacking mean what they mean in Python.

    Each text is right but for the affine rule, or right; the parser's graph is the one that running it gives.
    """
    task, text = oracles.task(name), oracles.oracle(name)
    scope = instances(task)[0].scope
    for mutant, allowed in aliased(run_text(text, scope)[0]):
        noted, uses = run_text(mutant.text, scope)
        program, found = parse(mutant.text, scope)
        assert (max(uses.values()) == 1) == allowed, mutant
        assert not found, mutant
        assert program == noted, mutant
        assert (not check_affine(program)) == allowed, mutant


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("E2 = step.Accum(fn=fn_add, b=1).apply(E0)\nreturn E2", "value"),
        ("return E1", "type"),
        (
            "A, B = step.Copy().apply(E1)\nE2 = step.Zip().apply((A, A))\nreturn step.Accum(fn=fn_add, b=1).apply(E0)",
            "affine",
        ),
        ("return E7", "text"),
        (oracles.oracle("gemm/0"), None),
    ],
)
def test_truth_names_the_fault(text: str, fault: str | None) -> None:
    """What the mutants are held to tells each kind of wrong program, and a right one."""
    assert Truth(oracles.task("gemm/0")).fault(text) == fault


def test_mutants_are_many_and_of_every_kind() -> None:
    """Every edit that the graph of an oracle offers occurs, no text twice."""
    task, text = oracles.task("etoe/2"), oracles.oracle("etoe/2")
    scope = instances(task)[0].scope
    made = mutants(run_text(text, scope)[0], scope)
    assert len({mutant.text for mutant in made}) == len(made) > 1000
    assert Counter(mutant.kind for mutant in made).keys() >= {
        "drop a primitive", "swap operands", "another operand", "another a, b, n, L, N", "another function",
        "another primitive", "insert a primitive", "insert an undone pair", "another result",
    }  # fmt: skip


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
    """Without the relu, a mutant passes on data from 0 to 1; a relu more is proved to be the same function."""
    found = scored("sign")
    assert {each.change for each in found.survivors} == {
        "`stress: true`, or a `data_gen` with other magnitudes and signs"
    }
    assert found.same > 0 and not any("not proved" in each.reason for each in found.survivors)


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
