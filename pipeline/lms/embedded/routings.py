"""Which routings a task's functions allow, by their types."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.types.type_table import TypeTable
from step_runtime.base.functions import Fn
from step_runtime.base.types import DType, Multihot, components_of
from step_runtime.tasks.scope import Scope

_MOST = 20
"""The number of choices of branches for one index and one merging function."""
_MOST_SELECTED = 4
"""The number of streams among which an index chooses, at most."""


def find_routings(scope: Scope, table: TypeTable) -> list[Routing]:
    """Functions of one signature, as many as an index has bits, with a stateful function that folds their results.

    Of more such functions all choices are considered; fewer suffice if an element may pass a bit unchanged.
    """
    found = []
    fns = tuple(scope.fns.values())
    dtypes = (*(stream.dtype for stream in scope.inputs.values()), *(fn.output for fn in fns))
    for index, merge in itertools.product(dict.fromkeys(_indices(dtypes)), (fn for fn in fns if fn.stateful)):
        bits = table.bits(index)
        groups: dict[tuple[DType, DType], list[Fn]] = {}
        for fn in fns:
            if not fn.stateful and fn.output == merge.input:
                groups.setdefault((fn.input, fn.output), []).append(fn)
        for (source, result), branches in groups.items():
            if not bits or (len(branches) < bits and not (source == result and len(branches) == bits - 1)):
                continue
            choices = itertools.islice(itertools.combinations(branches, min(bits, len(branches))), _MOST)
            found += [Routing(choice, merge, index, bits) for choice in choices]
    return found


def find_selections(scope: Scope, table: TypeTable, routings: Sequence[Routing]) -> list[Routing]:
    """Selections: an index has a stream for each bit, and a stateful function folds what they hold.

    Branches of any kind are applied before, as what an element does not take of them changes nothing: chains of
    functions, folds, functions of different signatures, and other routings. Only what no function takes as an index
    selects, and where no routing takes all functions of a signature.
    """
    fns = tuple(scope.fns.values())
    taken = {part for fn in fns for part in components_of(fn.input)}
    dtypes = (*(stream.dtype for stream in scope.inputs.values()), *(fn.output for fn in fns))
    found = []
    for index, merge in itertools.product(dict.fromkeys(_indices(dtypes)), (fn for fn in fns if fn.stateful)):
        bits = table.bits(index) or 0
        like = (each for each in routings if each.index == index and each.merge is merge)
        whole = 1 in Counter(each.branches[0].input for each in like).values()
        if 1 < bits <= _MOST_SELECTED and merge.input == merge.output and index not in taken and not whole:
            found.append(Routing((), merge, index, bits))
    return found


def index_makers(fns: Iterable[Fn]) -> frozenset[Fn]:
    """The functions that give an index."""
    return frozenset(fn for fn in fns if any(True for _ in _indices((fn.output,))))


def _indices(dtypes: Iterable[DType]) -> Iterable[Multihot]:
    """The index types among the elements of some types."""
    elements = (getattr(part, "elem", part) for dtype in dtypes for part in components_of(dtype))
    return (element for element in elements if isinstance(element, Multihot))
