"""The small proposer's statistical model: which action follows which, counted in the programs of the examples.

Every stream of a program has a history: what produced it, and what produced the operands of that. Counts give the
action that follows a history, at each of its operands, backed off from longer histories to shorter ones and finally to
a uniform prior over primitives. Actions are distinguished by kind (`kinds`), which ignores names.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.kinds import PASSED, ROUTE, Context, Kind, map_kind, structure_kind
from step_runtime.base.types import StreamType
from step_runtime.primitives import Accum, Copy, Map, Merge, Partition, Scan, Zip
from step_runtime.program.graph import Node, Program, StreamId

_PRIMITIVES = 12.0
# The number of counted actions that weigh as much as …
_UNIFORM = 6.0
"""… the uniform prior,"""
_SHORTER = 3.0
"""… and a shorter history against a longer one."""


class History(NamedTuple):
    """The origin of a stream: the kinds of the last two actions."""

    last: Kind
    before: Kind


INPUT = History(("input",), ())


class CountedAction(NamedTuple):
    """An action in the statistics: its kind, and the histories of its operands."""

    kind: Kind
    sources: tuple[History, ...]

    @property
    def result(self) -> History:
        """The history of its result."""
        return History(self.kind, self.sources[0].last)


class ActionModel:
    """Counts, and the probabilities that follow. Threads may share it once it is complete."""

    def __init__(self) -> None:
        self._kinds: defaultdict[object, float] = defaultdict(float)
        self._after: defaultdict[object, float] = defaultdict(float)
        self._seen: defaultdict[object, float] = defaultdict(float)
        self._total = 0.0
        self._shares = {"applied": (0.5, 5.0), "used": (0.5, 5.0), "older": (1.0, 5.0), "listed": (0.5, 1.5)}
        self._cache: dict[CountedAction, float] = {}

    def learn(self, program: Program, types: Sequence[StreamType], context: Context, weight: float) -> None:
        """Counts a program's actions, each `weight` times."""
        for taken in actions_of(program, types, context):
            self._total += weight
            for place, source in enumerate(taken.sources):
                self._kinds[taken.kind, place] += weight
                for history, action in _grams(taken, place, source):
                    self._seen[history] += weight
                    self._after[history, action] += weight
        applied = Counter(
            fn.label for node in program.nodes if not isinstance(node.op, Merge) for fn in node.op.functions()
        )
        copies = sum(isinstance(node.op, Copy) for node in program.nodes)
        uses = sum(len(node.inputs) for node in program.nodes if not isinstance(node.op, Copy))
        self._note("applied", weight * (applied.total() - len(applied)), weight * applied.total())
        self._note("used", weight * copies, weight * uses)
        actions = [node for node in program.nodes if not isinstance(node.op, Copy | Zip)]
        older = sum(not _follow(*pair, program) for pair in itertools.pairwise(actions))
        self._note("older", weight * older, weight * len(actions))

    def note_order(self, listed: bool, weight: float) -> None:
        """Counts whether a routing's branches are in the order in which the functions are listed."""
        self._note("listed", weight * listed, weight)

    def _note(self, name: str, part: float, whole: float) -> None:
        known = self._shares[name]
        self._shares[name] = (known[0] + part, known[1] + whole)

    def share(self, name: str) -> float:
        """The frequency of a property.

        `applied`: a function is applied again; `used`: a stream is used again; `older`: an action does not take a
        result of the previous one; `listed`: branches are in the listed order.
        """
        part, whole = self._shares[name]
        return part / whole

    def weight(self, taken: CountedAction) -> float:
        """The probability of an action after its first operand, times the lift from each other operand."""
        known = self._cache.get(taken)
        if known is None:
            known = 1.0
            for place, source in enumerate(taken.sources):
                alone = (self._kinds.get((taken.kind, place), 0.0) + _UNIFORM / _PRIMITIVES) / (self._total + _UNIFORM)
                known *= self._follows(taken, place, source, alone) / (alone if place else 1.0)
            self._cache[taken] = known
        return known

    def _follows(self, taken: CountedAction, place: int, source: History, chance: float) -> float:
        for history, action in _grams(taken, place, source):
            chance = (self._after.get((history, action), 0.0) + _SHORTER * chance) / (
                self._seen.get(history, 0.0) + _SHORTER
            )
        return chance


def _follow(one: Node, other: Node, program: Program) -> bool:
    """Whether a node takes a result of the previous one."""
    made = set(one.outputs)
    for node in program.nodes:
        if isinstance(node.op, Copy | Zip) and made & set(node.inputs):
            made |= set(node.outputs)
    return bool(made & set(other.inputs))


def _grams(taken: CountedAction, place: int, source: History) -> tuple[tuple[object, object], ...]:
    """The history of an operand with the action, the shorter history first."""
    action = (taken.kind, place)
    return ((source.last, action), ((source.last, source.before), action))


def actions_of(program: Program, types: Sequence[StreamType], context: Context) -> Iterator[CountedAction]:
    """A program's actions in order; Zip and Copy do not count, and a routing from Partition to Merge is one."""
    parts: dict[StreamId, tuple[History, ...]] = dict.fromkeys(range(len(program.inputs)), (INPUT,))
    routed: dict[StreamId, tuple[History, ...]] = {}
    for node in program.nodes:
        origin = next((routed[stream] for stream in node.inputs if stream in routed), None)
        if isinstance(node.op, Partition):
            data, index = (parts[stream] for stream in node.inputs)
            routed |= dict.fromkeys(node.outputs, (*data, *index))
        elif origin is not None and not isinstance(node.op, Merge):
            routed |= dict.fromkeys(node.outputs, origin)
        elif node.op.name in PASSED:
            together = tuple(history for stream in node.inputs for history in parts[stream])
            parts |= dict.fromkeys(node.outputs, together)
        else:
            sources = origin or tuple(history for stream in node.inputs for history in parts[stream])
            taken = CountedAction(_kind(node, types, context), sources)
            yield taken
            parts |= dict.fromkeys(node.outputs, (taken.result,))


def _kind(node: Node, types: Sequence[StreamType], context: Context) -> Kind:
    match node.op:
        case Map(fn=fn):
            return map_kind(fn)
        case Accum(fn=fn, b=b) | Scan(fn=fn, b=b):
            return context.fold_kind(isinstance(node.op, Scan), fn, types[node.inputs[0]].shape[:b])
        case Merge():
            return ROUTE
    return structure_kind(node.op, types[node.inputs[0]], context, types[node.outputs[0]])
