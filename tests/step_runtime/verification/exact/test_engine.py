"""A second engine, python-flint, computes normal forms again: residues of core operators, and fractions."""

import math
import random
from typing import Any

import flint
import pytest
import torch

from step_runtime import Verifier
from step_runtime.language.parser import read
from step_runtime.verification.exact import proof
from step_runtime.verification.exact.decisions import Decisions, deciding
from step_runtime.verification.exact.facts import Known, keeping
from step_runtime.verification.exact.operators import Operators
from step_runtime.verification.exact.proof import Prover
from step_runtime.verification.exact.residues import WORLDS, Draw, draw, drawing, level
from step_runtime.verification.exact.table import TABLE
from step_runtime.verification.exact.trace import trace
from step_runtime.verification.exact.value import Value, free
from tests.support.oracles import SETS, programs

_MOST = 3000
PAIRS = 300


def numbers(value: Value, shape: torch.Size, world: int) -> list[Any]:
    """The residues of a world as flint's numbers, in the order of a shape."""
    missing = len(shape) - value.data[world].dim()
    own = value.data[world].reshape(value.batch, *(1,) * missing, *value.shape).expand(shape)
    prime = draw().primes[0][world]
    return [flint.nmod(one, prime) for one in own.flatten().tolist()]


class Checked(Operators):
    """Computes sums, differences, products, quotients and products of matrices a second time."""

    compared = 0

    def found(self, name, target, args, kwargs, result):  # type: ignore[no-untyped-def]
        found = super().found(name, target, args, kwargs, result)
        two = len(args) == 2 and all(isinstance(one, Value) for one in args) and not kwargs
        if not two or not isinstance(found, Value) or found.data[0].numel() > _MOST:
            return found
        # The residues of these are those of other numbers: logarithms and roots are gathered.
        special = any(each.logs is not None or each.roots is not None or each.bits for each in (*args, found))
        endless = any(bool(each.infinite.any() | each.partial) for each in (*args, found))
        if special or endless or name not in ("add", "sub", "mul", "div", "mm"):
            return found
        for world in range(WORLDS):
            if name == "mm":
                self._product(*args, found, world)
                continue
            one, other = (numbers(each, found.data[world].shape, world) for each in args)
            own = numbers(found, found.data[world].shape, world)
            for a, b, c in zip(one, other, own, strict=True):
                assert {"add": c == a + b, "sub": c == a - b, "mul": c == a * b, "div": c * b == a}[name]
                Checked.compared += 1
        return found

    def _product(self, one: Value, other: Value, found: Value, world: int) -> None:
        prime = draw().primes[0][world]
        for row in range(found.batch):
            sides = [each.data[world, row if each.batch > 1 else 0] for each in (one, other, found)]
            a, b, c = (flint.nmod_mat(*each.shape, each.flatten().tolist(), prime) for each in sides)
            assert a * b == c
            Checked.compared += math.prod(found.shape)


ORACLES = [
    pytest.param(name, task, text, marks=() if place % 12 == 0 else pytest.mark.slow, id=f"{folder}/{name}")
    for folder in SETS
    for place, (name, task, text) in enumerate(programs(folder, "oracles"))
]


@pytest.mark.parametrize(("name", "task", "text"), ORACLES)
def test_core_operators_of_proofs_are_what_flint_says(
    name: str, task: Any, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proof, "Operators", Checked)
    verifier = Verifier(task)
    checked = verifier._check(read(text, verifier.limits), verifier._instances[0])
    assert not isinstance(checked, list)
    Prover(verifier._instances[0], verifier.limits).prove(checked.program, checked.types)


def expression(rng: random.Random, depth: int) -> str:
    if not depth or rng.random() < 0.15:
        return rng.choice(["x", "y", "z", "x", "y", str(rng.randint(1, 5))])
    one, other = (expression(rng, depth - 1) for _ in range(2))
    return f"({one} {rng.choice('+-*+*/')} {other})"


def changed(rng: random.Random, text: str) -> str:
    """The same fraction in another form, or one that differs by a sign, an operator or a number."""
    if rng.random() < 0.5:
        return rng.choice(["({0} * 3 - 2 * {0})", "(-(0 - {0}))", "({0} + x * y - y * x)", "(1 + {0} - 1)"]).format(
            text
        )
    places = [place for place, letter in enumerate(text) if letter in "+-*xyz12345"]
    place = rng.choice(places)
    other = rng.choice("+-*" if text[place] in "+-*" else "xyz123")
    return text[:place] + other + text[place + 1 :]


class Fraction:
    """A quotient of flint's polynomials."""

    def __init__(self, top: Any, below: Any) -> None:
        self.top, self.below = top, below

    def __add__(self, other: "Fraction") -> "Fraction":
        return Fraction(self.top * other.below + other.top * self.below, self.below * other.below)

    def __sub__(self, other: "Fraction") -> "Fraction":
        return self + Fraction(-other.top, other.below)

    def __mul__(self, other: "Fraction") -> "Fraction":
        return Fraction(self.top * other.top, self.below * other.below)

    def __truediv__(self, other: "Fraction") -> "Fraction":
        if other.top == 0:
            raise ZeroDivisionError
        return Fraction(self.top * other.below, self.below * other.top)

    def __neg__(self) -> "Fraction":
        return Fraction(-self.top, self.below)


def fraction(text: str) -> Fraction:
    context = flint.fmpz_mpoly_ctx.get(["x", "y", "z"], flint.Ordering.lex)
    one = context.constant(1)
    names = {str(gen): Fraction(gen, one) for gen in context.gens()}
    names |= {f"n{number}": Fraction(context.constant(number), one) for number in range(10)}
    return eval("".join(f"n{c}" if c.isdigit() else c for c in text), {**names})  # type: ignore[no-any-return]


def test_random_fractions_are_equal_where_flint_says_so() -> None:
    rng, agreed, pairs = random.Random(7), {True: 0, False: 0}, 0
    while pairs < PAIRS:
        one = expression(rng, 4)
        other = changed(rng, one)
        try:
            first, second = fraction(one), fraction(other)
        except ZeroDivisionError:
            continue
        equal = first.top * second.below == second.top * first.below

        def run(x: Any, y: Any, z: Any, one: str = one, other: str = other) -> list[Any]:
            return [eval(each, {"x": x, "y": y, "z": z}) * torch.ones(()).double() for each in (one, other)]

        with drawing(Draw(b"pairs")), keeping(Known()), deciding(Decisions(ranks=False)):
            inputs = [free(name, (), torch.float64) for name in "xyz"]
            a, b = trace(run, [torch.zeros(()).double()] * 3).run(Operators(TABLE), inputs)
            assert bool((level(a.data) == level(b.data)).all()) == equal, (one, other)
        agreed[equal] += 1
        pairs += 1
    assert min(agreed.values()) > PAIRS / 5
