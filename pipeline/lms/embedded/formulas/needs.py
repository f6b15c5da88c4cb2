"""Which values of the reference a program still needs, given those that it has."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.operations import GIVEN
from pipeline.lms.embedded.formulas.residues import Residues
from pipeline.lms.embedded.formulas.tape import Nodes, Tape

Mask = NDArray[np.bool_]


def found_in(residues: Residues, own: Residues) -> Nodes:
    """Which of some residues, which are in order, others are; those that are not are left out."""
    found = np.minimum(residues.searchsorted(own), len(residues) - 1)
    known: Nodes = found[residues[found] == own]
    return known


class Needs:
    """The values of a reference, each of which is made of others; those with the same formula are one.

    Attributes:
        residues: The first residue of each value, in order.
        given: The values that need not be computed: inputs, weights and constants.
    """

    def __init__(self, tape: Tape, residues: Residues, outputs: Iterable[Nodes], inputs: Iterable[Residues]) -> None:
        self.residues, places = np.unique(residues, return_inverse=True)
        self._outputs = np.unique(np.concatenate([places[nodes.reshape(-1)] for nodes in outputs]))
        self._made: list[tuple[Nodes, list[Nodes]]] = []
        self.given = np.zeros(len(self.residues), bool)
        for op, operands, start, size in tape.blocks:
            own = places[start : start + size]
            if op in GIVEN:
                self.given[own] = True
            else:
                self._made.append((own, [places[one] for one in operands]))
        for one in inputs:
            self.given[self.places(one)] = True
        self._made.reverse()
        self.work = len(self._made)
        """The number of operations that are followed."""
        self.total = int(self.needed(self.given).sum())

    def places(self, residues: Residues) -> Nodes:
        """The numbers of the values that have some first residues; others are left out."""
        return found_in(self.residues, residues)

    def needed(self, had: Mask) -> Mask:
        """The values that the outputs still need, where a program has some."""
        needed = np.zeros(len(self.residues), bool)
        needed[self._outputs] = True
        for own, operands in self._made:
            open_ = needed[own] & ~had[own]
            if open_.any():
                for one in operands:
                    needed[one[open_]] = True
        return needed & ~had
