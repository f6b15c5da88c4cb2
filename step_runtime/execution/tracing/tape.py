"""Tapes: a function's work on a batch of elements, as a list of torch operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch._ops import OpOverload

from step_runtime.execution.tracing.captures import Place

_MUL = torch.ops.aten.mul.Tensor

Replay: TypeAlias = Callable[..., tuple[Tensor, ...]]


class Var(NamedTuple):
    """A tensor of a tape, by its number."""

    number: int

    def __str__(self) -> str:
        return f"v{self.number}"


class Extent(NamedTuple):
    """An int that is `factor` times the sizes of some batch dims."""

    factor: int
    dims: tuple[int, ...]

    def __str__(self) -> str:
        return "*".join([str(self.factor), *(f"b{dim}" for dim in self.dims)])


@dataclass(frozen=True)
class Node:
    """One call of a torch operator; `args` and `kwargs` hold a `Var` for every tensor."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Var, ...]

    @cached_property
    def inputs(self) -> frozenset[Var]:
        """Its tensor arguments."""
        return frozenset(leaf for leaf in self._leaves if isinstance(leaf, Var))

    @cached_property
    def sized(self) -> bool:
        """Whether the batch size is among its arguments."""
        return any(isinstance(leaf, Extent) for leaf in self._leaves)

    @cached_property
    def _leaves(self) -> list[Any]:
        return list(_leaves([*self.args, *self.kwargs.values()]))

    def source(self, names: dict[str, Any]) -> str:
        """The call as a line of Python; values without a literal are bound in `names`."""
        args = [_text(arg, names) for arg in self.args]
        args += [f"{key}={_text(value, names)}" for key, value in self.kwargs.items()]
        targets = "".join(f"{output}, " for output in self.outputs) if len(self.outputs) > 1 else str(self.outputs[0])
        # The operator's `__call__` only calls `_op`; calling it directly saves a microsecond.
        return f"{targets} = {_name(self.op._op, names)}({', '.join(args)})"


@dataclass
class Tape:
    """A function's work on a batch with `dims` leading batch dims.

    Attributes:
        inputs: One batch each.
        captured: Tensors from outside, with their place and the tensor found there.
        constants: Tensors that are the same in every replay.
        layouts: The shape of one element of each tensor whose leading dims are the batch dims.
        functional: Whether no node writes into a tensor.
    """

    dims: int
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Var] = field(default_factory=list)
    captured: list[tuple[Var, Place, Tensor]] = field(default_factory=list)
    constants: dict[Var, Tensor] = field(default_factory=dict)
    outputs: list[Var] = field(default_factory=list)
    layouts: dict[Var, torch.Size] = field(default_factory=dict)
    functional: bool = True

    @cached_property
    def sources(self) -> list[Var]:
        """The variables that a replay is given: inputs, then captured tensors."""
        return [*self.inputs, *(var for var, _, _ in self.captured)]

    @cached_property
    def replay(self) -> Replay:
        """`replay(*batch sizes, *inputs, *weights)`: the outputs."""
        return self.compiled(self.sources, self.outputs)

    @cached_property
    def pointwise(self) -> bool:
        """Whether each number that it computes depends on one number of every tensor it is computed from."""
        return all(torch.Tag.pointwise in node.op.tags or node.op.is_view for node in self.nodes)

    @cached_property
    def elementwise(self) -> bool:
        """Whether it may be replayed on a batch of any number of dims: it only broadcasts from the right.

        Elements of several ranks are excluded: `vmap` aligns them by views, which depend on the number of batch dims.
        """
        if not self.nodes:
            return set(self.outputs) <= set(self.inputs)
        ends = [*self.inputs, *self.outputs]
        if not self.functional or not all(var in self.layouts for var in ends):
            return False
        rank = len(self.layouts[ends[0]])
        shared = [*(tensor for _, _, tensor in self.captured), *self.constants.values()]
        return (
            all(len(self.layouts[var]) == rank for var in ends)
            and all(tensor.dim() <= rank for tensor in shared)
            and all(torch.Tag.pointwise in n.op.tags and not n.op.is_view and not n.sized for n in self.nodes)
        )

    @cached_property
    def factors(self) -> Replay | None:
        """As `replay`, but gives two factors that broadcast to the only output; None if it has no such form."""
        node = self.nodes[-1] if self.nodes else None
        if node is None or node.op is not _MUL or node.outputs != tuple(self.outputs) or not self.functional:
            return None
        whole = self.layouts[self.outputs[0]].numel()
        for factor in node.args:
            # Over one batch dim only the function itself repeats anything.
            if factor not in self.layouts or (self.dims == 1 and 2 * self.layouts[factor].numel() > whole):
                return None
        return self.compiled(self.sources, node.args)

    def weights(self) -> list[Tensor] | None:
        """The captured tensors as they are now; None if the form of one has changed since the tape was made."""
        found = []
        for _, place, before in self.captured:
            now = place.look()
            if now is not before and not (isinstance(now, Tensor) and _form(now) == _form(before)):
                return None
            found.append(now)
        return found

    def depending(self, var: Var) -> set[Var]:
        """Everything computed from `var`, itself included."""
        found = {var}
        for node in self.nodes:
            if not found.isdisjoint(node.inputs):
                found.update(node.outputs)
        return found

    def needed(self, known: Sequence[Var], wanted: Sequence[Var]) -> list[Node]:
        """The nodes that lead from `known` to `wanted`, in order."""
        if not self.functional:
            return self.nodes
        start = {*known, *self.constants}
        missing = set(wanted) - start
        nodes = []
        for node in reversed(self.nodes):
            if not missing.isdisjoint(node.outputs):
                nodes.append(node)
                missing |= node.inputs - start
        return nodes[::-1]

    def compiled(self, known: Sequence[Var], wanted: Sequence[Var]) -> Replay:
        """A Python function `(*batch sizes, *known)` that gives `wanted`, and computes only what that requires."""
        nodes = self.needed(known, wanted)
        last = {var: index for index, node in enumerate(nodes) for var in (*node.inputs, *node.outputs)}
        kept = {*wanted, *known, *self.constants}
        names: dict[str, Any] = {str(var): tensor for var, tensor in self.constants.items()}
        lines = [f"def replay({', '.join([*(f'b{dim}' for dim in range(self.dims)), *map(str, known)])}):"]
        for index, node in enumerate(nodes):
            lines.append(f"    {node.source(names)}")
            # Dropped at once, so that the memory is reused while it is in the cache.
            done = {var for var in (*node.inputs, *node.outputs) if last[var] == index} - kept
            lines += [f"    del {var}" for var in done]
        lines.append(f"    return ({''.join(f'{var}, ' for var in wanted)})")
        # The text is made of operators and numbers; it contains no text of a program or a task.
        exec("\n".join(lines), names)
        replay: Replay = names["replay"]
        return replay


def _form(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.dtype


def _leaves(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple) and not isinstance(value, Var | Extent):
            yield from _leaves(value)
        else:
            yield value


def _text(value: Any, names: dict[str, Any]) -> str:
    if isinstance(value, Var | Extent):
        return str(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_text(item, names) for item in value)}]"
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)):
        return repr(value)
    return _name(value, names)


def _name(value: Any, names: dict[str, Any]) -> str:
    name = f"c{len(names)}"
    names[name] = value
    return name
