"""The formulas of one reference, and how those of streams compare with them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.needs import Needs, found_in
from pipeline.lms.embedded.formulas.operations import COMPARED, PLACE, VALUE
from pipeline.lms.embedded.formulas.residues import DRAWN, ORDERED, Kind, Residues, constants, first, symbols
from pipeline.lms.embedded.formulas.tape import Formulas, Tape
from pipeline.lms.embedded.influence.arrays import Array, nodes_of
from pipeline.lms.embedded.influence.streams import Stream
from step_runtime.base.types import StreamType, components_of
from step_runtime.tasks.task import TensorSpec

_FEW = 1 << 10
"""Residues above this are no numbers that comparisons give."""
_MOST_SKIPPED = 8
"""The number of divisions that are each taken to be made later."""


class ReferenceFormulas:
    """The formulas of what one reference computes, of which the outputs are given; None where one could not be read.

    Attributes:
        needs: The values on its way, if the formulas of all outputs are known and some is not an input.
    """

    def __init__(self, tape: Tape, outputs: Sequence[Sequence[Array | None]], inputs: Sequence[Stream]) -> None:
        nodes = [[None if array is None else nodes_of(array, tape) for array in arrays] for arrays in outputs]
        self._tape, self._nodes = tape, nodes
        self._wanted: dict[int, list[list[Residues | None]]] = {}
        residues = tape.evaluated()[0]
        self._known = _all_of(tape, residues)
        self.needs: Needs | None = None
        known = [own for arrays in nodes for own in arrays if own is not None]
        if known and len(known) == sum(map(len, nodes)):
            given = [first(part.formulas.nodes) for stream in inputs for part in stream.parts if part.formulas]
            needs = Needs(tape, residues[:, 0], known, given)
            self.needs = needs if needs.total else None

    def share(self, stream: Stream | None, values: Residues) -> float | None:
        """The share of a stream's values that the reference computes; None if some formulas are not known."""
        if stream is None or not _is_read(stream) or not len(self._known):
            return None
        return len(found_in(self._known, values)) / len(values) if len(values) else 1.0

    @cached_property
    def compares(self) -> bool:
        """Whether elements are compared."""
        return any(block.op in COMPARED or block.op.startswith((VALUE, PLACE)) for block in self._tape.blocks)

    @cached_property
    def ordered(self) -> bool:
        """Whether outputs tell in most ordered worlds more than what comparisons decide."""
        return self.compares and sum(map(self._tells, ORDERED)) > len(ORDERED) // 2

    def _tells(self, world: int) -> bool:
        """Whether the outputs are other numbers than comparisons give, such as truth values, counts and places."""
        known = [own for own in chain(*self._outputs(world)) if own is not None]
        return any((own > _FEW).any() for own in known)

    def _outputs(self, world: int) -> list[list[Residues | None]]:
        """The first residues of the outputs in one of the worlds."""
        if world not in self._wanted:
            residues = self._tape.evaluated(world=world)[0]
            self._wanted[world] = [
                [None if own is None else residues[own, 0] for own in arrays] for arrays in self._nodes
            ]
        return self._wanted[world]

    def equal(self, stream: Stream | None, output: int, world: int) -> bool:
        """Whether the elements of a stream have the formulas of an output's, in one of the worlds."""
        if stream is None:
            return False
        pairs = zip(stream.parts, self._outputs(world)[output], strict=True)
        return all(
            part.formulas is not None and wanted is not None and bool((first(part.formulas.nodes) == wanted).all())
            for part, wanted in pairs
        )


def _is_read(stream: Stream) -> bool:
    return all(part.formulas is not None for part in stream.parts)


def _all_of(tape: Tape, residues: Residues) -> Residues:
    """The first residues of all formulas of a tape, in order, also of what is divided later."""
    inverses = [place for place, block in enumerate(tape.blocks) if block.op == "inverse"]
    later = [{place} for place in inverses[:_MOST_SKIPPED]] + [set(inverses)] * bool(inverses)
    every = [residues, *(tape.evaluated(skipped=frozenset(skipped))[0] for skipped in later)]
    return np.unique(np.concatenate(every)[:, 0])


def values_of(stream: Stream | None) -> Residues:
    """The first residues of a stream's elements, other than constants, in order and each once; none if it is unread."""
    if stream is None or not _is_read(stream):
        return np.zeros(0, np.uint64)
    parts = [first(part.formulas.nodes[np.isnan(part.values)]) for part in stream.parts if part.formulas]
    return _each_once(np.concatenate(parts))


def _each_once(residues: Residues) -> Residues:
    residues.sort()
    fresh: NDArray[np.bool_] = np.ones(len(residues), bool)
    np.not_equal(residues[1:], residues[:-1], out=fresh[1:])
    return residues[fresh]


def kind_of(spec: TensorSpec, type_: StreamType) -> Kind:
    """What is known of an input's elements by their type and by how they are drawn."""
    (part,) = components_of(type_.dtype)
    ones = DRAWN if spec.data_gen == "binary" else None
    if spec.data_gen is None:
        ones = spec.min or 0, -1 if spec.max is None else spec.max
    return Kind(spec.data_gen == "torch.rand", ones, part.format.torch)


def with_residues(name: str, array: Array, kind: Kind, world: int) -> Array:
    """An input as it is in a stream, with the residues of its elements."""
    drawn = np.isnan(array.values).all()
    residues = symbols(name, array.shape, kind, world) if drawn else constants(array.values)
    return Array(array.sources, array.values, formulas=Formulas(None, residues))
