"""The sizes at which a program changes: its graph gets another shape there, or its types break a rule.

What a program computes from sizes are forms by `+`, `-`, `*`, `//` and comparisons, and its graph follows from the
values of some. Each counts as negative, 0, 1, 2 or more, and so do the quotients and comparisons within it. For each
such kind that a form takes, there is a smallest set of sizes, and the program is tried there. A form that may take
another kind where it is not looked at (`trends`) leaves the verdict unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from math import lcm, prod
from operator import floordiv, sub
from typing import TypeAlias

import numpy as np

from step_runtime.base.shapes import Sizes, exact_value, format_sizes
from step_runtime.base.sized import Condition, Form, Number, is_followed, is_size, names_in, value_of
from step_runtime.tasks.sizes import SizeSet, completed, step, varying
from step_runtime.tasks.task import Task, declared_shapes
from step_runtime.verification.trends import DENSE, is_settled, is_tangled, values_of

_FURTHEST = 2**40
"""The largest size that is looked at."""
_BASES = 4
"""Sets of sizes from which a form is looked at in each direction."""
_FEW = 512
"""Sizes of a dim of types that are looked at one by one; of ints that a program computes, `DENSE` at once."""
_KINDS = range(-1, 4)
LARGEST = 2**24
"""Numbers of a task's tensors up to which it is run at sizes at which a program changes."""

Rule: TypeAlias = Callable[[Number], object]
"""The kind of a form's value."""
_Atom: TypeAlias = tuple[Form, Rule]


class Changes:
    """The changes of one program, as far as its graphs at the sizes tried show them.

    Args:
        sizes: Of dims that the task's `global` sets.
    """

    def __init__(self, task: Task, sizes: Sizes) -> None:
        self._task, self._fixed = task, sizes
        self._found: dict[_Atom, list[Sizes]] = {}
        self._left: set[tuple[_Atom, object]] = set()
        self._seen: dict[tuple[_Atom, tuple[int, ...]], list[tuple[object, SizeSet]]] = {}
        self._doubt, self.untried = "", ""

    @cached_property
    def _varying(self) -> frozenset[str]:
        return frozenset(varying(self._task))

    def concern(self, conditions: Sequence[Condition]) -> bool:
        """Whether a graph depends on sizes that vary."""
        return any(names_in(each.form) & self._varying for each in conditions)

    def tried(self, sizes: Sizes, conditions: Sequence[Condition]) -> None:
        """Notes a set of sizes at which the program is run, and the conditions of its graph there."""
        for condition in conditions:
            if not names_in(condition.form) & self._varying:
                continue
            if not is_followed(condition.form):
                self.untried = "what a loop hands on decides on the program's graph, and its turns follow from sizes"
            elif condition.test is is_size:
                self._found.setdefault((condition.form, is_size), []).append(sizes)
            else:
                for form in _parts(condition.form):
                    self._found.setdefault((form, _kind), []).append(sizes)

    def next(self) -> SizeSet | None:
        """The smallest set of sizes at which a form is of a kind that it had nowhere before; None if there is none.

        None too, and `untried` says why, where the program cannot be followed or the sizes are too large.
        """
        if self.untried:
            return None
        best: tuple[int, SizeSet, tuple[_Atom, object]] | None = None
        for atom, bases in self._found.items():
            seen = {_kind_at(atom, sizes) for sizes in bases}
            for kind, sizes in chain(*(self._reached(atom, base) for base in bases[:_BASES])):
                numbers = self.numbers(sizes)
                if kind not in seen and (atom, kind) not in self._left and (best is None or numbers < best[0]):
                    best = numbers, sizes, (atom, kind)
        if best is None:
            self.untried = self._doubt
            return None
        self._left.add(best[2])
        if best[0] > LARGEST:
            self.untried = f"the program changes at {format_sizes(best[1])}, where it is too large to run"
            return None
        return best[1]

    def numbers(self, sizes: Sizes) -> int:
        """The numbers in all tensors that the task declares."""
        known = {**self._fixed, **sizes}
        return sum(int(prod(exact_value(dim.value, known) for dim in dims)) for dims in declared_shapes(self._task))

    def _reached(self, atom: _Atom, base: Sizes) -> list[tuple[object, SizeSet]]:
        """Sets of sizes with the kind that a form has there: one dim of it changed in a set, or all of them alike."""
        near = {name: base[name] for name in sorted(self._varying)}
        key = atom, tuple(near.values())
        if key not in self._seen:
            self._seen[key] = list(self._around(atom, base, near))
        return self._seen[key]

    def _around(self, atom: _Atom, base: Sizes, near: Sizes) -> Iterator[tuple[object, SizeSet]]:
        names, computed = sorted(names_in(atom[0]) & self._varying), atom[1] is _kind
        if computed and is_tangled(atom[0]):
            self._doubt = "a product of several sizes that grows and falls decides on the program's graph"
        for changed in [[name] for name in names] + ([names] if len(names) > 1 else []):
            if computed and not is_settled(atom[0], base, changed, _KINDS):
                dims = " and ".join(changed)
                self._doubt = f"the program's graph depends on {dims} in a way that is followed up to {DENSE} only"
            for kind, size in _scanned(atom, base, changed, lcm(*(step(self._task, name) for name in changed))):
                new = dict.fromkeys(changed, size)
                for given in ({**near, **new}, {name: base[name] for name in names} | new, new):
                    full = completed(self._task, given)
                    if full is not None and _kind_at(atom, {**self._fixed, **full}) == kind:
                        yield kind, full
                        break


def _parts(form: Form) -> Iterator[Form]:
    """A form, the quotients in it, and the differences of what it compares."""
    yield form
    if isinstance(form, tuple):
        operation, left, right = form
        for part in (left, right):
            yield from (each for each in _parts(part) if each is not part or _divides(part))
        if operation in (min, max):
            yield (sub, left, right)


def _divides(form: Form) -> bool:
    return isinstance(form, tuple) and form[0] is floordiv


def _kind(value: Number) -> object:
    """Negative, 0, 1, 2 or more."""
    return max(_KINDS[0], min(_KINDS[-1], value.__floor__()))


def _kind_at(atom: _Atom, sizes: Sizes) -> object:
    form, rule = atom
    try:
        return rule(value_of(form, sizes))
    except ZeroDivisionError:
        return "divides by 0"


def _scanned(atom: _Atom, base: Sizes, names: Sequence[str], step: int) -> Iterable[tuple[object, int]]:
    """The smallest multiple of a step for each kind of a form, as the size of some dims, the others as in a set."""

    def kind(size: int) -> object:
        return _kind_at(atom, {**base, **dict.fromkeys(names, step * size)})

    form, rule = atom
    every = step * np.arange(1, DENSE + 1)
    values = values_of(form, {**base, **dict.fromkeys(names, every)}) if rule is _kind else None
    found: dict[object, int] = {}
    if values is None:
        for size in range(1, _FEW + 1):
            found.setdefault(kind(size), step * size)
    else:
        kinds = np.clip(np.floor(values), _KINDS[0], _KINDS[-1])
        found = {
            "divides by 0" if np.isnan(each) else int(each): int(every[first])
            for each, first in zip(*np.unique(kinds, return_index=True), strict=True)
        }
    least = _FEW if values is None else DENSE
    while least < _FURTHEST:
        most = 2 * least
        for _ in range(len(_KINDS)):
            if kind(least) == kind(most):
                break
            low, high = least, most  # the first size between them of another kind than the least
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if kind(middle) == kind(least) else (low, middle)
            found.setdefault(kind(high), step * high)
            least = high
        least = most
    return found.items()
