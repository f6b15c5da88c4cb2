"""Runs folds from the tape of one step, `state, input -> state`.

If the tape shows that each component of the state follows from itself in a way that `recurrences` solves, all
steps run at once, component after component. Other folds run step by step, except for what depends only on the input,
which is computed for all steps first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor

from step_runtime.execution.number_formats import is_rounded
from step_runtime.execution.tracing.recurrences import ADD, MUL, SUB, Link, Scaled, Unstable, linear, solvable, solve
from step_runtime.execution.tracing.tape import Node, Replay, Tape, Var

_LINEAR_STEPS = 12
"""The number of steps from which solving a linear recurrence is faster than running its steps."""
_BLOCK = 1024
"""Steps that are unbound at a time."""


@dataclass(frozen=True)
class _Stage:
    """How one component of the state is folded once those in `depends` are.

    `links` lead from the old state to the new one, and `wanted`, computed from `known`, are those of their operands
    that are tensors; of products by a number to each step, both factors. If the new state does not depend on the
    old one, `links` is None and `wanted` is the new state.
    """

    component: int
    depends: frozenset[int]
    links: list[Link] | None
    known: list[Var]
    wanted: list[Var]
    replay: Replay


class _Loop(NamedTuple):
    """A step in two parts: `before` gives `shared` for all steps at once, `step` takes them and the state."""

    before: Replay
    shared: list[Var]
    step: Replay


class _Given(NamedTuple):
    """What a fold runs on; see `Fold.run`."""

    state: Sequence[Tensor]
    data: Sequence[Tensor]
    weights: Sequence[Tensor]


class Fold:
    """How to run the folds of a step from its tape over one batch dim, which begins with the state's inputs."""

    def __init__(self, tape: Tape, components: int) -> None:
        self._tape = tape
        self._states, self._inputs = tape.inputs[:components], tape.inputs[components:]
        self._sources = tape.sources[components:]
        self._reached = [tape.depending(state) for state in self._states]
        self._stages = self._planned() if tape.functional else None
        self._least = _LINEAR_STEPS if any(linear(stage.links or ()) for stage in self._stages or ()) else 1

    @cached_property
    def sums(self) -> bool:
        """Whether it only sums its input, which has one component."""
        if self._stages is None or len(self._stages) != 1 or len(self._inputs) != 1:
            return False
        (stage,) = self._stages
        return stage.wanted == self._inputs and [link.op for link in stage.links or ()] == [ADD]

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
        given = _Given(state, data, weights)
        if self._stages is not None and data[0].shape[1] >= self._least and not _rounds(state):
            try:
                return self._at_once(self._stages, given, scan)
            except Unstable:
                pass
        return self._step_by_step(given, scan, tick)

    def check(self, state: Sequence[Tensor], data: Sequence[Tensor], weights: Sequence[Tensor]) -> None:
        """Compares all steps at once with step by step, on data as for `run`; keeps the former only if they agree."""
        if self._stages is None or _rounds(state):
            return
        given = _Given(state, data, weights)
        expected = self._step_by_step(given, scan=True, tick=lambda: None)
        try:
            every = self._at_once(self._stages, given, scan=True)
            last = self._at_once(self._stages, given, scan=False)
        except Unstable:
            return
        expected += [part[:, -1] for part in expected]
        if not all(torch.allclose(*pair, equal_nan=True) for pair in zip([*every, *last], expected, strict=True)):
            self._stages = None

    # --- all steps at once --------------------------------------------------------------------------------------------

    def _planned(self) -> list[_Stage] | None:
        """The stages, each after those that it depends on; None if no such order exists."""
        waiting = {component: self._stage(component) for component in range(len(self._states))}
        ordered: list[_Stage] = []
        while waiting:
            ready = [stage for stage in waiting.values() if stage and waiting.keys().isdisjoint(stage.depends)]
            if not ready:
                return None
            ordered += ready
            for stage in ready:
                del waiting[stage.component]
        return ordered

    def _stage(self, component: int) -> _Stage | None:
        output = self._tape.outputs[component]
        depends = frozenset(i for i, reached in enumerate(self._reached) if i != component and output in reached)
        links: list[Link] | None = None
        wanted = [output]
        if output in self._reached[component]:
            links = self._links(component)
            if links is None or not solvable(links):
                return None
            wanted = list(dict.fromkeys(var for link in links for var in _vars(link.operand)))
        folded = [var for other in depends for var in (self._states[other], self._tape.outputs[other])]
        known = list(dict.fromkeys([*self._sources, *folded]))
        return _Stage(component, depends, links, known, wanted, self._tape.compiled(known, wanted))

    def _links(self, component: int) -> list[Link] | None:
        """The operators between a component's old state and its new one; None if they form no chain."""
        reached = self._reached[component]
        producer = {output: node for node in self._tape.nodes for output in node.outputs}
        links = []
        var = self._tape.outputs[component]
        while var != self._states[component]:
            node = producer[var]
            if len(node.args) != 2 or node.kwargs or var not in self._tape.layouts:
                return None
            left, right = node.args
            if (left in reached) == (right in reached):
                return None
            first = left in reached
            var, operand = (left, right) if first else (right, left)
            if node.op in (ADD, SUB) and operand in producer:
                operand = self._scaled(producer[operand]) or operand
            links.append(Link(node.op, operand, first))
        return links[::-1]

    def _scaled(self, node: Node) -> Scaled | None:
        """The factors of a product, one of which has one number to a step; None for anything else."""
        counts = [self._tape.layouts[arg].numel() for arg in node.args if arg in self._tape.layouts]
        if node.op is not MUL or len(counts) != 2 or min(counts) > 1 or max(counts) == 1:
            return None
        return Scaled(*(node.args if counts[0] == 1 else node.args[::-1]))

    def _at_once(self, stages: list[_Stage], given: _Given, scan: bool) -> list[Tensor]:
        state, data, weights = given
        folds, steps = data[0].shape[:2]
        values = dict(zip(self._sources, [*(part.flatten(0, 1) for part in data), *weights], strict=True))
        results = list(state)
        for stage in stages:
            initial = state[stage.component]
            found = stage.replay(folds * steps, *(values[var] for var in stage.known))
            operands = {
                var: value.reshape(folds, steps, *value.shape[1:]) if var in self._tape.layouts else value
                for var, value in zip(stage.wanted, found, strict=True)
            }
            every = scan or any(stage.component in other.depends for other in stages)
            if stage.links is None:
                result = operands[stage.wanted[0]]
            else:
                # An operand of another type is converted first, as in `state + operand`, since it may be combined with
                # another before it meets the state.
                wide = {var: value.to(initial.dtype) for var, value in operands.items()}
                links = [link._replace(operand=_filled(link.operand, wide)) for link in stage.links]
                result = solve(links, initial, steps, every=every)
            if every:
                values[self._tape.outputs[stage.component]] = result.flatten(0, 1)
                before = torch.cat([initial.unsqueeze(1), result[:, :-1]], 1)
                values[self._states[stage.component]] = before.flatten(0, 1)
            whole = every or stage.links is None
            results[stage.component] = result[:, -1] if whole and not scan else result
        return results

    # --- step by step -------------------------------------------------------------------------------------------------

    @cached_property
    def _loop(self) -> _Loop:
        """The step, split at the first use of the state."""
        tape = self._tape
        late = set[Var]().union(*self._reached)
        nodes = [node for node in tape.needed([], tape.outputs) if not late.isdisjoint(node.outputs)]
        taken = [var for node in nodes for var in node.inputs] + tape.outputs
        shared = [var for var in dict.fromkeys(taken) if var not in late and var not in tape.constants]
        varying = set[Var]().union(*map(tape.depending, self._inputs))
        splits = tape.functional and all(var in tape.layouts or var not in varying for var in shared)
        if not splits:
            shared = self._sources
        before = tape.compiled(self._sources, shared) if splits else _same
        return _Loop(before, shared, tape.compiled([*self._states, *shared], tape.outputs))

    def _step_by_step(self, given: _Given, scan: bool, tick: Callable[[], None]) -> list[Tensor]:
        state, data, weights = given
        folds, steps = data[0].shape[:2]
        before, shared, step = self._loop
        found = before(folds * steps, *(part.flatten(0, 1) for part in data), *weights)
        columns = [
            _rows(value.reshape(folds, steps, *value.shape[1:])) if var in self._tape.layouts else repeat(value)
            for var, value in zip(shared, found, strict=True)
        ]
        states = []
        now = tuple(state)
        for _ in range(steps):
            tick()
            now = step(folds, *now, *map(next, columns))
            if scan:
                states.append(now)
        if scan:
            return [torch.stack(column, 1) for column in zip(*states, strict=True)]
        return list(now)


def _rounds(state: Sequence[Tensor]) -> bool:
    """Whether a state is rounded after every step, so that the steps can't be computed at once."""
    return any(is_rounded(part.dtype) for part in state)


def _vars(operand: Any) -> list[Var]:
    parts = (operand.scale, operand.tensor) if isinstance(operand, Scaled) else (operand,)
    return [part for part in parts if isinstance(part, Var)]


def _filled(operand: Any, values: Mapping[Var, Tensor]) -> Any:
    """A link's operand with tensors in place of variables."""
    if isinstance(operand, Scaled):
        return Scaled(values[operand.scale], values[operand.tensor])
    return values[operand] if isinstance(operand, Var) else operand


def _rows(values: Tensor) -> Iterator[Tensor]:
    """The steps of `(folds, steps, ...)`, some at a time, as each becomes an object."""
    if values.shape[1] <= _BLOCK:
        yield from values.unbind(1)
        return
    for block in torch.split(values, _BLOCK, 1):
        yield from block.unbind(1)


def _same(batch: int, *values: Tensor) -> tuple[Tensor, ...]:
    return values
