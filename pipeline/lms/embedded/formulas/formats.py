"""Conversions between number formats, which leave a trace where they may change a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.operations import ABOVE, GIVEN, GUARDED, PLACE, SAME, WHERE
from pipeline.lms.embedded.formulas.residues import PRIME, first

Nodes = NDArray[np.int64]
Blocks = Sequence[tuple[str, tuple[NDArray[Any], ...], int, int]]

TO = "to "
"""How the names of conversions begin; the name of a format follows."""
_WHOLE = "whole"
_ALIASES = {
    "char": "int8", "byte": "uint8", "short": "int16", "half": "float16",
    # Numbers are taken not to be so large that these wrap around.
    **dict.fromkeys(("int", "long", "int32", "int64", "uint32", "uint64"), _WHOLE),
}  # fmt: skip
_RANGES: Mapping[str, tuple[float, float]] = {
    "bool": (0, 1), "int8": (-(1 << 7), (1 << 7) - 1), "uint8": (0, (1 << 8) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1), "uint16": (0, (1 << 16) - 1), _WHOLE: (-inf, inf),
}  # fmt: skip
"""The ranges of whole numbers that formats hold."""
INTEGERS = frozenset(("int8", "uint8", "int16", "uint16", *(name for name, own in _ALIASES.items() if own in _RANGES)))
"""The names of integer formats."""
_NARROW = frozenset(("float16", "bfloat16"))
"""Formats that round only in a task that names some."""
_NARROWEST = frozenset(("float8_e4m3fn", "float8_e5m2"))
_WIDE = frozenset(("float", "double", "float32", "float64"))
"""Formats that are not rounded to."""
_ANYTHING = (inf, -inf)
"""The range of a number that every format is taken to hold."""
_SUMS = frozenset(("add", "subtract", "sum", "largest", "smallest", GUARDED, SAME, WHERE))
_PRODUCTS = frozenset(("multiply", "prod"))
"""What is whole if all operands are."""
_ALWAYS = frozenset(("eq", ABOVE, "sign", "floor", "ceil", "round", "trunc"))
"""What is always whole."""
EXACT = frozenset(("same", "negative", "absolute", "maximum", "minimum", "relu", "largest", "smallest"))
"""What gives numbers of the format of its operands."""
TESTS = frozenset(("any", "gt", "lt", "ge", "le", "eq", "ne", "is true", "is zero", "not", "and", "or"))
"""What gives truth values."""
_LARGEST = 1 << 20
_OTHER, _TAKEN, _SURE = range(3)
"""Whether formulas are whole numbers: not known to be, taken to be, or known to be."""


class Formats:
    """What is known of the numbers on a tape, which grows by blocks.

    `rounds` says whether narrow formats of floating-point numbers round, as in a task that names formats.
    """

    def __init__(self, blocks: Blocks, *, rounds: bool) -> None:
        self._made = blocks
        self._rounds = rounds
        self._ranges: dict[int, tuple[float, float]] = {}
        """The ranges of formulas that are whole numbers,"""
        self._formats: dict[int, str] = {}
        """and the formats of those that were converted."""
        self._whole: NDArray[np.int8] = np.zeros(0, np.int8)
        self._blocks = 0

    def given(self, nodes: Nodes, kind: str) -> None:
        """Formulas that a stream or a weight holds in a format, by its name in torch.

        Where the task names no formats, they are taken to be what the code converts them to.
        """
        if not self._rounds:
            self.within(nodes, *_ANYTHING)
        else:
            self.convert(kind, nodes)

    def within(self, nodes: Nodes, least: float, most: float) -> None:
        """Formulas that are whole numbers within a range."""
        self._ranges.update(dict.fromkeys(nodes.reshape(-1).tolist(), (least, most)))

    def limited(self, nodes: Nodes, of: Nodes, limits: NDArray[np.float64], *, above: bool) -> None:
        """Formulas that are others within limits: the least ones if they are `above` these."""
        of, limits = np.broadcast_to(of, nodes.shape), np.broadcast_to(limits, nodes.shape)
        sure = (self._are_whole(of) == _SURE) & (limits == np.floor(limits))
        for own, node, limit in zip(nodes[sure].tolist(), of[sure].tolist(), limits[sure].tolist(), strict=True):
            least, most = self._ranges.get(node, (-inf, inf))
            self._ranges[own] = (max(least, limit), most) if above else (least, min(most, limit))

    def held(self, kind: str, nodes: Nodes) -> NDArray[np.bool_]:
        """Which formulas a conversion leaves as they are, to a format by a name of it in torch."""
        name = _name(kind)
        every = nodes.reshape(-1).tolist()
        if name in _RANGES:
            least, most = _RANGES[name]
            ranges = [self._ranges.get(node, (-inf, inf)) for node in every]
            within = np.array([one >= least and other <= most for one, other in ranges], bool)
            held: NDArray[np.bool_] = (self._are_whole(nodes.reshape(-1)) > _OTHER) & within
        elif name in _NARROWEST or (name in _NARROW and self._rounds):
            held = np.array([self._formats.get(node) == name for node in every], bool)
        else:
            held = np.array([node not in self._formats for node in every], bool)
        return held.reshape(nodes.shape)

    def common(self, nodes: Sequence[Nodes], values: Sequence[NDArray[np.float64]]) -> str | None:
        """The narrow format that all operands are in, constants aside, so that what is computed of them is rounded."""
        if not self._rounds:
            return None
        unknown = (own[np.isnan(known)] for own, known in zip(nodes, values, strict=True))
        found = {self._formats.get(node) for own in unknown for node in own.tolist()}
        return found.pop() if len(found) == 1 else None

    def convert(self, kind: str, nodes: Nodes) -> None:
        """Formulas that a conversion gives."""
        name = _name(kind)
        if name in _RANGES:
            self.within(nodes, *_RANGES[name])
        elif name not in _WIDE:
            self._formats.update(dict.fromkeys(nodes.reshape(-1).tolist(), name))

    def _are_whole(self, nodes: Nodes) -> NDArray[np.int8]:
        """Whether formulas are whole numbers."""
        count = max(int(nodes.max(initial=0)) + 1, sum(self._made[-1][2:]) if self._made else 0)
        self._whole = np.concatenate((self._whole, np.zeros(max(0, count - len(self._whole)), np.int8)))
        known = list(self._ranges)
        self._whole[known] = [_TAKEN if own == _ANYTHING else _SURE for own in self._ranges.values()]
        for op, operands, start, size in self._made[self._blocks :]:
            own = self._whole[start : start + size]
            np.maximum(own, self._made_whole(op, operands), out=own)
        self._blocks = len(self._made)
        found: NDArray[np.int8] = self._whole[nodes]
        return found

    def _made_whole(self, op: str, operands: Sequence[NDArray[Any]]) -> Any:
        """Whether an operation gives whole numbers."""
        if op in GIVEN:
            numbers = first(operands[0][0])
            return np.where(np.minimum(numbers, np.uint64(PRIME) - numbers) < _LARGEST, _SURE, _OTHER)
        if op in _SUMS or op in _PRODUCTS:
            parts = (self._whole[one] for one in operands)
            least = reduce(np.minimum, (part.min(-1) if part.ndim > 1 else part for part in parts))
            return least if op in _SUMS else least // _SURE * _SURE
        return _SURE if op in _ALWAYS or op.startswith(PLACE) or op.removeprefix(TO) in _RANGES else _OTHER


def conversion(kind: str) -> str:
    """The name of the operation that converts to a format, by a name of it in torch; a wide one changes no number."""
    return SAME if kind in _WIDE else TO + _name(kind)


def _name(kind: str) -> str:
    return _ALIASES.get(kind, kind)
