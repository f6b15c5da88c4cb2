"""Mutants: the verifier accepts the right ones alone.

Which are right is found without the parser and the simulator (`tests.support.truth`).
"""

from collections import Counter

import pytest

from step_runtime.language.parser import parse
from step_runtime.verification.check import check_affine
from step_runtime.verification.instance import instances
from tests.support import oracles
from tests.support.aliases import aliased
from tests.support.edits import mutants
from tests.support.mutants import Judged, changed, judged
from tests.support.truth import run_text

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
