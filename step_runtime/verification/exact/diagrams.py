"""Functions of truth values that take few numbers, as decision diagrams (Bryant 1986; Bahar et al. 1993).

Each function has one node: a number, or an atom with the functions for 0 and 1. Equal functions have equal nodes,
whatever they were computed from, and an atom that two operands share is one. Newer atoms stand above older ones, so
that running sums share all but their last atom. Of a count of n atoms the nodes are some n^2 / 2.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, Literal

import torch
from torch import Tensor

from step_runtime.verification.exact.residues import WORLDS, Word, modulus_of_channels, primes

Number = int | Fraction
Operation = Literal["+", "*", "max", ">", "==", "floor", "ceil", "trunc", "round"]
"""Of two functions; what comes after `==` takes the first alone."""
_OPERATIONS: dict[Operation, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "*": operator.mul,
    "max": max,
    ">": lambda one, other: int(one > other),
    "==": lambda one, other: int(one == other),
    "floor": lambda one, _: math.floor(one),
    "ceil": lambda one, _: math.ceil(one),
    "trunc": lambda one, _: math.trunc(one),
    "round": lambda one, _: round(one),
}
_SYMMETRIC = ("+", "*", "max", "==")
_NUMBER: Final = -1
_ATOMS = 64
"""Atoms of a function, at most."""
_NODES = 20_000
"""Nodes of all functions, at most."""


class _TooLarge(Exception):
    """All functions together have too many nodes."""


class Diagrams:
    """The functions of one draw of worlds, and which numbers, by their fingerprints, are which."""

    def __init__(self) -> None:
        self._nodes: list[
            tuple[int, int, int]
        ] = []  # (atom, node for 0, node for 1), or (_NUMBER, numerator, denominator)
        self._supports: list[int] = []  # atoms, as bits
        self._ends: list[tuple[Number, Number]] = []
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._results: dict[tuple[Operation, int, int], int] = {}
        self._words: dict[Word, int] = {}
        self._atoms: list[tuple[Tensor, float]] = []
        self._residues: dict[int, Tensor] = {}

    def copy(self) -> Diagrams:
        """The same functions, to which others are added apart."""
        found = Diagrams()
        for name, kept in vars(self).items():
            setattr(found, name, kept.copy())
        return found

    def of(self, word: Word) -> int | None:
        """The function that a number is, if that is known."""
        return self._words.get(word)

    def keep(self, word: Word, node: int) -> None:
        """Keeps which function a number is."""
        self._words.setdefault(word, node)

    def number(self, value: Number) -> int:
        """The function that is a number."""
        return self._node(_NUMBER, value.numerator, value.denominator)

    def atom(self, residues: Tensor, degree: float) -> int | None:
        """The function that is a truth value, from its residues, `(CHANNELS,)`, and the degree of these."""
        self._atoms.append((residues, degree))
        zero, one = self.number(0), self.number(1)
        return self._node(len(self._atoms) - 1, zero, one) if len(self._nodes) < _NODES else None

    def ends(self, node: int) -> tuple[Number, Number]:
        """The least and the largest number of a function."""
        return self._ends[node]

    def shares(self, one: int, other: int) -> bool:
        """Whether two functions have an atom in common."""
        return bool(self._supports[one] & self._supports[other])

    def degree(self, node: int) -> float:
        """The degree of a function's residues."""
        support = self._supports[node]
        return sum(own for place, (_, own) in enumerate(self._atoms) if support >> place & 1)

    def apply(self, operation: Operation, one: int | None, other: int | None) -> int | None:
        """The function of two others; None if one is, it depends on too many atoms, or there are too many nodes."""
        if one is None or other is None or (self._supports[one] | self._supports[other]).bit_count() > _ATOMS:
            return None
        try:
            return self._applied(operation, one, other)
        except _TooLarge:
            return None

    def _applied(self, operation: Operation, one: int, other: int) -> int:
        if one > other and operation in _SYMMETRIC:
            one, other = other, one
        key = (operation, one, other)
        if (found := self._results.get(key)) is not None:
            return found
        (first, low, high), (second, below, above) = self._nodes[one], self._nodes[other]
        if first == second == _NUMBER:
            found = self.number(_OPERATIONS[operation](self._ends[one][0], self._ends[other][0]))
        else:
            top = max(first, second)
            low, high = (low, high) if first == top else (one, one)
            below, above = (below, above) if second == top else (other, other)
            found = self._node(top, self._applied(operation, low, below), self._applied(operation, high, above))
        self._results[key] = found
        return found

    def _node(self, atom: int, low: int, high: int) -> int:
        if atom != _NUMBER and low == high:
            return low
        key = (atom, low, high)
        if key not in self._numbers:
            if atom != _NUMBER and len(self._nodes) >= _NODES:
                raise _TooLarge
            self._numbers[key] = len(self._nodes)
            self._nodes.append(key)
            number = atom == _NUMBER
            self._supports.append(0 if number else self._supports[low] | self._supports[high] | 1 << atom)
            own = Fraction(low, high) if number and high > 1 else low
            ends = [(own, own)] if number else [self._ends[low], self._ends[high]]
            self._ends.append((min(least for least, _ in ends), max(most for _, most in ends)))
        return self._numbers[key]

    def residues(self, nodes: Sequence[int]) -> Tensor:
        """The residues of functions, `(CHANNELS, functions)`: their multilinear extensions at those of the atoms."""
        stages: dict[int, list[int]] = {}
        heights: dict[int, int] = {}
        for node in sorted(self._open(nodes)):  # the parts of a function are older than itself
            atom, low, high = self._nodes[node]
            if atom == _NUMBER:
                own = torch.tensor([low * pow(high, -1, prime) % prime for prime in primes()])
                self._residues[node] = own.repeat_interleave(WORLDS)
                continue
            height = heights[node] = 1 + max(heights.get(low, 0), heights.get(high, 0))
            stages.setdefault(height, []).append(node)
        modulus = modulus_of_channels().unsqueeze(1)
        for _, stage in sorted(stages.items()):
            parts = [self._nodes[node] for node in stage]
            atoms = torch.stack([self._atoms[atom][0] for atom, _, _ in parts], 1)
            lows, highs = (torch.stack([self._residues[part[side]] for part in parts], 1) for side in (1, 2))
            found = (lows + atoms * ((highs - lows) % modulus)) % modulus
            self._residues.update(zip(stage, found.unbind(1), strict=True))
        return torch.stack([self._residues[node] for node in nodes], 1)

    def _open(self, nodes: Sequence[int]) -> set[int]:
        """The functions whose residues are not known yet, with their parts."""
        found: set[int] = set()
        rest = [*nodes]
        while rest:
            node = rest.pop()
            if node not in found and node not in self._residues:
                found.add(node)
                rest += self._nodes[node][1:] if self._nodes[node][0] != _NUMBER else ()
        return found
