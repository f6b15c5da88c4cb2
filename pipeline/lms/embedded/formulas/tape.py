"""Tapes: the formulas of a piece of code in the order in which they are made."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.formats import Formats, conversion
from pipeline.lms.embedded.formulas.operations import GIVEN, GUARDED, POWERS, computed
from pipeline.lms.embedded.formulas.residues import LOG, Kind, Residues, encoded, first, second, symbols

Nodes: TypeAlias = NDArray[np.int64]
"""Numbers of formulas on a tape."""

_INCREASING = frozenset(("sqrt", "exp", "log"))
_LONG = 4
NO_TRACE = 5e-8
"""Guards below this never leave a trace."""
_MOST_NODES = 40_000
_NO_OPERANDS = np.zeros((0, 1), np.uint64)


class Block(NamedTuple):
    """Formulas that one operation makes of others.

    Attributes:
        op: The operation.
        operands: The numbers of its operands, each of shape (formulas,), or (formulas, terms) for one along a dim; of
            a constant or of symbols, their residues in the first world as words, of shape (1, formulas).
        start: The number of the first formula.
        size: The number of formulas.
    """

    op: str
    operands: tuple[NDArray[Any], ...]
    start: int
    size: int


class Tape:
    """Formulas, of which the first ones are operands whose residues are given later.

    `rounds` is as in `Formats`.

    Attributes:
        count: The number of formulas.
        blocks: How they are made, in order.
        formats: What is known of their numbers.
        logs: Whether there are logarithms.
        work: How long it takes to compute them, in operations as short as sums.
    """

    def __init__(self, operands: int, *, rounds: bool = False) -> None:
        self._operands = self.count = operands
        self.blocks: list[Block] = []
        self.formats = Formats(self.blocks, rounds=rounds)
        self._constants: dict[float, int] = {}
        self._known: dict[tuple[Any, ...], Nodes] = {}
        self._symbols: dict[int, tuple[str, tuple[int, ...], Kind]] = {}
        """The symbols that blocks are."""
        self.logs = False
        self.work = 0
        self._increasing: dict[int, tuple[str, int]] = {}
        """Of what each increasing function is taken, by which operation."""
        self._roots: dict[int, int] = {}
        """Of what each root is taken."""

    def constants(self, values: Any) -> Nodes:
        """The numbers of constants."""
        found, places = np.unique(np.asarray(values, np.float64), return_inverse=True)
        numbers = [self._constant(float(one)) for one in found]
        return np.array(numbers, np.int64)[places].reshape(np.shape(values))

    def _constant(self, value: float) -> int:
        if value not in self._constants:
            self._constants[value] = self.count
            word = encoded(value)
            self._append("constant", (np.full((1, 1), word, np.uint64),), 1)
            self.logs = self.logs or bool(word & int(LOG))
        return self._constants[value]

    def guards(self, values: Any) -> Nodes:
        """The numbers of constants that only guard a division or a logarithm: nothing, unless guards leave a trace."""
        own = self.constants(np.where(np.abs(values) < NO_TRACE, 0.0, values))
        found = self.apply(GUARDED, self.constants(np.zeros(np.shape(values))), own)
        return own if found is None else found

    def symbols(self, name: str, shape: tuple[int, ...], kind: Kind) -> Nodes:
        """The numbers of the elements of an input or a weight."""
        key = ("symbols", name, shape)
        known = self._known.get(key)
        if known is None:
            given = symbols(name, shape, kind, 0).reshape(1, -1)
            known = self._known[key] = self._append("symbol", (given,), given.shape[1]).reshape(shape)
            self._symbols[len(self.blocks) - 1] = name, shape, kind
        return known

    def apply(self, op: str, *operands: Nodes) -> Nodes | None:
        """What an operation gives, element by element; None if there are too many formulas."""
        shape = np.broadcast_shapes(*(one.shape for one in operands))
        flat = tuple(np.array(np.broadcast_to(one, shape), order="C").reshape(-1) for one in operands)
        return self._made(op, flat, shape)

    def along(self, op: str, *operands: Nodes) -> Nodes | None:
        """What an operation gives along the last dim; None if there are too many formulas."""
        flat = tuple(np.array(one, order="C").reshape(-1, one.shape[-1]) for one in operands)
        return self._made(op, flat, operands[0].shape[:-1])

    def ranked(self, op: str, nodes: Nodes) -> Nodes | None:
        """As `along`, for an operation that compares elements: by what they are increasing functions of, all alike."""
        known, keys = self._increasing, nodes.reshape(-1).tolist()
        while len(kinds := {known[key][0] if key in known else "" for key in keys}) == 1 and "" not in kinds:
            keys = [known[key][1] for key in keys]
        return self.along(op, nodes, np.array(keys, np.int64).reshape(nodes.shape))

    def converted(self, kind: str, nodes: Nodes) -> Nodes | None:
        """Formulas in a format, by a name of it in torch; None if there are too many."""
        held = self.formats.held(kind, nodes)
        if held.all():
            return nodes
        found = self.apply(conversion(kind), nodes)
        if found is None:
            return None
        self.formats.convert(kind, found)
        return np.where(held, nodes, found)

    def _made(self, op: str, operands: tuple[Nodes, ...], shape: tuple[int, ...]) -> Nodes | None:
        if op == "multiply" and self._roots and np.array_equal(operands[0], operands[1]):
            squares = [self._roots.get(node, -1) for node in operands[0].tolist()]
            if -1 not in squares:
                return np.array(squares, np.int64).reshape(shape)
        key = (op, shape, *(one.tobytes() for one in operands))
        known = self._known.get(key)
        if known is None:
            count = len(operands[0])
            if self.count + count > _MOST_NODES:
                return None
            known = self._known[key] = self._append(op, operands, count).reshape(shape)
            self.logs = self.logs or op == "log"
            if op in _INCREASING:
                pairs = zip(known.reshape(-1).tolist(), operands[0].tolist(), strict=True)
                self._increasing.update((own, (op, node)) for own, node in pairs)
            if op == "sqrt":
                self._roots.update(zip(known.reshape(-1).tolist(), operands[0].tolist(), strict=True))
        return known

    def _append(self, op: str, operands: tuple[NDArray[Any], ...], count: int) -> Nodes:
        self.blocks.append(Block(op, operands, self.count, count))
        self.work += _LONG if op in POWERS else 1
        self.count += count
        return np.arange(self.count - count, self.count)

    def evaluated(
        self, given: Residues = _NO_OPERANDS, skipped: frozenset[int] = frozenset(), world: int = 0
    ) -> tuple[Residues, Residues]:
        """The residues of all formulas for several sets of operands: first and second ones, of shape (formulas, sets).

        `given` are words, of shape (operands, sets). The inverses that blocks of the `skipped` numbers compute are
        taken to be one. Guards against overflow leave a trace in all worlds but the first one.
        """
        found = np.empty((self.count, 2, given.shape[1]), np.uint64)
        found[: self._operands] = _unpacked(given)
        logs = self.logs or bool((given & LOG).any())
        for number, (op, operands, start, size) in enumerate(self.blocks):
            if op in GIVEN:
                words = (
                    symbols(*self._symbols[number], world).reshape(1, -1) if world and op == "symbol" else operands[0]
                )
                found[start : start + size] = _unpacked(words.T)
            elif number in skipped:
                found[start : start + size] = 1
            else:
                found[start : start + size] = computed(op, [found[one] for one in operands], world, logs=logs)
        return found[:, 0], found[:, 1]


def _unpacked(words: Residues) -> Residues:
    return np.stack((first(words), second(words)), 1)


class Formulas(NamedTuple):
    """The formulas of an array's elements.

    Attributes:
        tape: The tape that they are on; None for those of a stream.
        nodes: Their numbers on it; those of a stream are residues, as words.
    """

    tape: Tape | None
    nodes: NDArray[Any]
