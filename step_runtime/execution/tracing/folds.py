"""Runs folds from the tape of one step, `state, input -> state`.

What depends only on the input is computed for all steps first. If each component of the state is then added to, or is
the maximum or minimum with, such a value, the values are reduced at once; otherwise the steps run one by one, as in
every scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import torch
from torch import Tensor
from torch._ops import OpOverload

from step_runtime.execution.number_formats import is_rounded
from step_runtime.execution.tracing.tape import Replay, Tape, Var

_ADD = torch.ops.aten.add.Tensor
_REDUCED: dict[OpOverload, Callable[[Tensor, int], Tensor]] = {
    _ADD: torch.sum,
    torch.ops.aten.maximum.default: torch.amax,
    torch.ops.aten.minimum.default: torch.amin,
}
_BLOCK = 1024
"""Steps that are unbound at a time."""


class Fold:
    """How to run the folds of a step from its tape over one batch dim, which begins with the state's inputs."""

    def __init__(self, tape: Tape, components: int) -> None:
        self._tape = tape
        self._states, self._inputs = tape.inputs[:components], tape.inputs[components:]
        self._before, self._shared, self._step = self._split()
        self._reductions = self._reduced()
        self.sums = self._reductions == [(_ADD, *self._inputs)]
        """Whether it only sums its input, which has one component."""

    def _split(self) -> tuple[Replay, list[Var], Replay]:
        """The step, split at the first use of the state: into what gives the second part's other arguments, and it."""
        tape, sources = self._tape, self._tape.sources[len(self._states) :]
        late = set[Var]().union(*map(tape.depending, self._states))
        nodes = [node for node in tape.needed([], tape.outputs) if not late.isdisjoint(node.outputs)]
        taken = [var for node in nodes for var in node.inputs] + tape.outputs
        shared = [var for var in dict.fromkeys(taken) if var not in late and var not in tape.constants]
        varying = set[Var]().union(*map(tape.depending, self._inputs))
        if tape.functional and all(var in tape.layouts or var not in varying for var in shared):
            return tape.compiled(sources, shared), shared, tape.compiled([*self._states, *shared], tape.outputs)
        return _same, sources, tape.compiled([*self._states, *sources], tape.outputs)

    def _reduced(self) -> list[tuple[OpOverload, Var]] | None:
        """For each component the operator, and what it takes beside the state; None if a component has no such form."""
        producers = {var: node for node in self._tape.nodes for var in node.outputs}
        layouts = self._tape.layouts
        found = []
        for state, output in zip(self._states, self._tape.outputs, strict=True):
            node = producers.get(output)
            if node is None or node.op not in _REDUCED or node.kwargs or state not in node.args:
                return None
            (operand,) = set(node.args) - {state} or {state}
            if operand not in self._shared or layouts.get(operand) != layouts.get(state):
                return None
            found.append((node.op, operand))
        return found

    def run(
        self,
        state: Sequence[Tensor],
        data: Sequence[Tensor],
        weights: Sequence[Tensor],
        *,
        scan: bool,
        tick: Callable[[], None],
    ) -> list[Tensor]:
        """The last state, `(folds, *layout)` per component; for a scan every state, `(folds, steps, *layout)`.

        `state` is the first one, `(folds, *layout)` per component; `data` is `(folds, steps, *layout)` per component,
        with at least one fold and one step. `tick` is called between steps.
        """
        folds, steps = data[0].shape[:2]
        found = self._before(folds * steps, *(part.flatten(0, 1) for part in data), *weights)
        shared = {
            var: value.reshape(folds, steps, *value.shape[1:]) if var in self._tape.layouts else value
            for var, value in zip(self._shared, found, strict=True)
        }
        if self._reductions is not None and not scan and not any(is_rounded(part.dtype) for part in state):
            return [
                op(_REDUCED[op](shared[var].to(part.dtype), 1), part)
                for part, (op, var) in zip(state, self._reductions, strict=True)
            ]
        columns = [_rows(value) if var in self._tape.layouts else repeat(value) for var, value in shared.items()]
        states = []
        now = tuple(state)
        for _ in range(steps):
            tick()
            now = self._step(folds, *now, *map(next, columns))
            if scan:
                states.append(now)
        if scan:
            return [torch.stack(column, 1) for column in zip(*states, strict=True)]
        return list(now)


def _rows(values: Tensor) -> Iterator[Tensor]:
    """The steps of `(folds, steps, ...)`, some at a time, as each becomes an object."""
    for block in torch.split(values, _BLOCK, 1):
        yield from block.unbind(1)


def _same(batch: int, *values: Tensor) -> tuple[Tensor, ...]:
    return values
