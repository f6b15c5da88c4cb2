"""Polynomials of a cost: those that follow from types, and those fitted through values."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import sympy

from step_runtime.cost.chip import Chip
from step_runtime.cost.formulas import fitted, type_formulas
from step_runtime.cost.model import estimate
from tests.support.oracles import names, oracle, task
from tests.support.priced import known_types

D, M, N = sympy.symbols("D M N")
BASE, CHECK = {"D": 16, "M": 5, "N": 7, "E": 3}, {"D": 8, "M": 6, "N": 4, "E": 3}


@pytest.mark.parametrize(
    "formula",
    [4 * D + 64, D * M * N + D + 5, M**2 * D / 8 + N, sympy.Integer(7), D**2 * M**2, 3 * D * M - N],
)
def test_a_polynomial_is_found_through_its_values(formula: sympy.Expr) -> None:
    def values(sizes: Mapping[str, int]) -> dict[str, float]:
        return {"time": float(formula.subs(sizes))}

    assert sympy.expand(fitted(values, BASE, ["D", "M", "N"], [CHECK])["time"] - formula) == 0


@pytest.mark.parametrize(
    "value",
    [
        lambda sizes: -(-sizes["D"] // 7),
        lambda sizes: max(sizes["D"], 3 * sizes["M"]),
        lambda sizes: sizes["D"] ** 3,
        lambda sizes: sizes["D"] if sizes["D"] % 16 == 0 else 0,
    ],
)
def test_what_is_not_a_polynomial_is_not_given_as_one(value: object) -> None:
    """Rounding, a maximum, a degree beyond 2, or values that hold at multiples of one size alone."""
    assert fitted(lambda sizes: {"time": value(sizes)}, BASE, ["D", "M"], [CHECK]) == {"time": None}  # type: ignore[operator]


def test_a_dim_that_cannot_be_varied_is_a_constant() -> None:
    """Such as the number of experts that a program is written for."""

    def values(sizes: Mapping[str, int]) -> dict[str, float] | None:
        return {"memory": sizes["E"] * sizes["D"]} if sizes["E"] == 3 else None

    assert fitted(values, BASE, ["D", "E"], [CHECK]) == {"memory": 3 * D}


def test_nothing_is_known_of_a_program_that_does_not_check() -> None:
    assert fitted(lambda sizes: None, BASE, ["D"], [CHECK]) == {}


@pytest.mark.parametrize("name", names())
def test_polynomials_of_the_benchmark_equal_the_numbers(name: str) -> None:
    """At both sets of sizes: traffic, and memory without queues."""
    for index in range(len(task(name).size_sets())):
        program, types, sizes = known_types(task(name), oracle(name), index)
        cost = estimate(program, types, sizes, lambda fn: 1, Chip())
        found = type_formulas(program, types, Chip())
        assert found.traffic.subs(sizes) == sympy.nsimplify(cost.traffic)
        held = [sympy.nsimplify(node.memory / 8) for node in cost.nodes]
        assert [formula.subs(sizes) for formula in found.memory] == held
