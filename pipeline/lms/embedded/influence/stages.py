"""The values on the way to the outputs: of expressions, and of what calls of PyTorch do in several steps."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from pipeline.lms.embedded.influence import layer_calls, loss_calls
from pipeline.lms.embedded.influence.arrays import Array, as_array
from pipeline.lms.embedded.influence.reductions import axes_of, reduced

_MOST_MET = 2000
"""The number of values that are kept."""


class Met:
    """The arrays that each expression gave, and those that its call computes on its way: one for each round."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[ast.expr, int], list[Array]] = {}
        self._held: set[int] = set()

    def add(self, node: ast.expr, arrays: Sequence[Array]) -> None:
        """Adds the arrays of one round."""
        for place, array in enumerate(arrays):
            if id(array) not in self._held and len(self._held) < _MOST_MET:
                self._held.add(id(array))
                self._arrays.setdefault((node, place), []).append(array)

    def rounds(self) -> Collection[Sequence[Array]]:
        """The arrays of all rounds, for each expression and each step of its call."""
        return self._arrays.values()

    def clear(self) -> None:
        """Forgets all arrays."""
        self._arrays.clear()
        self._held.clear()


def _reduced(data: Any, dim: Any = None, *_: Any, axis: Any = None, **__: Any) -> Iterator[Array]:
    """A reduction along several dims: along the inner ones or the outer ones alone."""
    array = as_array(data)
    axes = axes_of(dim if axis is None else axis, array.ndim)
    for place in range(1, len(axes)):
        yield reduced(array, axes[place:])
        yield reduced(array, axes[:place])


def _normed(data: Any, p: Any = None, dim: Any = None, *_: Any, **named: Any) -> Iterator[Array]:
    """As `_reduced`, for calls that take the order of a norm first."""
    del p
    return _reduced(data, dim, axis=named.get("axis"))


def _extreme(data: Any, other: Any = None, *_: Any, **named: Any) -> Iterator[Array]:
    """As `_reduced`, for calls that may compare two tensors."""
    return iter(()) if isinstance(other, Array) else _reduced(data, other, **named)


def _unreduced(name: str) -> Callable[..., Iterator[Array]]:
    """A loss of each element, row or batch, before these are reduced."""

    def stages(*args: Any, reduction: Any = "mean", **named: Any) -> Iterator[Array]:
        if reduction != "none":
            loss = loss_calls.CALLS[name](*args, reduction="none", **named)
            yield loss
            yield from _reduced(loss)

    return stages


def _classified(data: Array, target: Array, *args: Any, **named: Any) -> Iterator[Array]:
    """A cross entropy: the scores of the right classes, and its own stages."""
    if target.ndim < data.ndim:
        yield loss_calls.nll_loss(data, target, reduction="none")
    yield from _unreduced("cross_entropy")(data, target, *args, **named)


_REDUCTIONS = "sum nansum mean nanmean prod any all amax amin logsumexp var std var_mean std_mean".split()  # noqa: SIM905
STAGES: dict[str, Callable[..., Iterable[Array]]] = {
    **layer_calls.WITHIN,
    **dict.fromkeys(_REDUCTIONS, _reduced), **dict.fromkeys(("norm", "vector_norm"), _normed),
    **dict.fromkeys(("max", "min"), _extreme),
    **{name: _unreduced(name) for name in loss_calls.CALLS}, "cross_entropy": _classified,
}  # fmt: skip
"""What calls compute on their way, by their names."""
