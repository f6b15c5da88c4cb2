"""Sub-tasks: what computes one value of a reference from others, as a task of its own.

A sub-task's inputs are inputs of the whole task, or outputs of other sub-tasks, by name; its reference is the part of
the whole's that leads from there to its output. It has the functions that may serve: those whose parameters that part
reads, and whose dims occur in it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Literal

from pipeline.splitting.cuts import ONE, Axes, Cut, ReferenceCuts, canonical_axes, permutation, statements_of
from pipeline.splitting.operators import Executed, implied, may_serve, suits
from pipeline.splitting.statements import Place, Slice, Statement, slice_to, written
from pipeline.synthesis.type_space import factors
from step_runtime.base.errors import TaskError
from step_runtime.base.shapes import Dim, format_dim
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import StreamType, components_of, layout, parse_dim, parse_dtype
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import FnSpec, OutputSpec, Task, TensorSpec, dump_task

Offered = Literal["suited", "likely", "all"]
"""Functions of operators that the reference executes on such rows; those of whose steps on any; and all."""

_SHOWN = 3
"""Statements of an unsolved value that are shown, the last ones."""


class SubtaskWriter:
    """Writes the sub-tasks of a task between its cuts; none of the task's code is run."""

    def __init__(self, task: Task, found: ReferenceCuts) -> None:
        self.task, self.found = task.without_impl(), found
        self._cuts = {cut.name: cut for cut in found.cuts}
        self.cuts = dict(self._cuts)
        self._statements = statements_of(self.task, expanded=found.expanded)
        self._owners = {place: cut.name for cut in found.cuts for place in cut.places}
        self._known: dict[tuple[int, tuple[int, ...]], Executed] = {}

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of the task's outputs."""
        return tuple(spec.name for spec in self.task.outputs)

    @property
    def goals(self) -> tuple[str, ...]:
        """The names of all that a sub-task may compute, in the order in which the reference does."""
        return (*self.cuts, *(name for name in self.outputs if name not in self.cuts))

    @cached_property
    def named(self) -> frozenset[str]:
        """The goals that are outputs, or that the reference or a function of PyTorch names."""
        cuts = self.found.cuts
        return frozenset(self.outputs) | {cut.name for cut in cuts if not cut.temporary or cut.output is not None}

    def given(self, goal: str, cuts: Collection[str]) -> tuple[str, ...]:
        """Which of the cuts, by name, the reference of a goal starts from."""
        return self._given(self._slices(goal, cuts))

    def is_between(self, goal: str, later: str, cuts: Collection[str]) -> bool:
        """Whether a goal is made on the way from cuts to a later one."""
        if goal == later or goal not in self.cuts:
            return goal == later
        number = self.cuts[goal].place[0]
        return any(number in part.statements for part in self._slices(later, cuts))

    def obstacle(self, made: Collection[str]) -> str:
        """The first value that is needed and not made, its code, and values on its way that are no cuts, and why."""
        open_ = (goal for goal in self.goals if goal in self.named and goal not in made and self.is_needed(goal, made))
        if (goal := next(open_, None)) is None:
            return ""
        slices = self._slices(goal, made)
        numbers = sorted({number for part in slices for number in part.statements})
        code = "; ".join(self._statements[number].code for number in numbers[-_SHOWN:])
        given = ", ".join(self._given(slices)) or "the inputs"
        refused = [
            f"{name} {why}"
            for (number, name), why in self.found.refused.items()
            if number in numbers and not self._statements[number].temporary
        ]
        no_cuts = f" (no cut: {'; '.join(refused)})" if refused else ""
        return f"`{goal}` of {given}: `{code}`{no_cuts}"

    def is_needed(self, goal: str, made: Collection[str]) -> bool:
        """Whether an output is made by way of a goal, from what is made already."""
        return any(self.is_between(goal, name, made) for name in self.outputs if name not in made)

    def subtask(
        self,
        goal: str,
        cuts: Collection[str],
        without: Collection[str] = (),
        offered: Offered = "all",
        order: StreamType | None = None,
    ) -> Task | None:
        """The task to compute a goal from those of the cuts that its reference comes to first, and from inputs.

        None if no function reads a parameter that the reference needs, or nothing is given but parameters. Functions
        named in `without` are left out, and those that are not `offered`. The goal has a type of its `orders`.
        """
        slices = self._slices(goal, cuts)
        given = self._given(slices)
        reads = self._reads(slices)
        specs = [spec for spec in self.task.inputs if spec.name in reads]
        specs += [_input(self.cuts[name]) for name in given]
        parameters = [spec for spec in self.task.parameters if spec.name in reads]
        fns = [fn for fn in self._functions(goal, given, slices, reads) if fn.func_name not in without]
        if offered != "all":
            fns = [fn for fn in fns if self._is_likely(fn.func_name, slices, offered)]
        read = [parameters_read(fn.apply) for fn in fns]
        unread = {spec.name for spec in parameters}.difference(*(names for names in read if names is not None))
        if not specs or (unread and None not in read):
            return None
        try:
            task = Task(
                global_=self.task.global_,
                inputs=specs,
                parameters=parameters,
                fns=fns,
                outputs=[self._output(goal, slices, order)],
                sizes=self.task.sizes,
                part_of=self.task.name,
            )
            return loads_task(dump_task(task), f"{self.task.name}.{goal}")
        except (TaskError, ValueError):
            return None

    def _places(self, goal: str) -> tuple[Place, ...]:
        return (self.cuts[goal].place,) if goal in self.cuts else self.found.outputs[self.outputs.index(goal)]

    def _slices(self, goal: str, cuts: Collection[str]) -> list[Slice]:
        stops = {place for name in cuts if name != goal and name in self.cuts for place in self.cuts[name].places}
        return [slice_to(self._statements, place, stops) for place in self._places(goal)]

    def _given(self, slices: Sequence[Slice]) -> tuple[str, ...]:
        names = {self._owners[place] for part in slices for place in part.cuts}
        return tuple(name for name in self.cuts if name in names)

    def _reads(self, slices: Sequence[Slice]) -> set[str]:
        """The inputs and parameters that slices read."""
        every = {spec.name for spec in (*self.task.inputs, *self.task.parameters)}
        statements = [self._statements[number] for part in slices for number in part.statements]
        return set().union(*(every if each.reads is None else each.reads for each in statements)) & every

    def orders(self, goal: str, cuts: Collection[str]) -> list[StreamType | None]:
        """The types of a goal, with its dims as streams that are given have them, then as the reference has them.

        A reference may permute dims for an operator's sake where a program need not.
        """
        cut = self._cuts.get(goal)
        if cut is None or cut.output is not None:
            return [None]
        slices = self._slices(goal, cuts)
        reads = self._reads(slices)
        types = [stream for _, spec, stream in self.task.tensors() if spec.name in reads]
        given = [canonical_axes(type_) for type_ in (*(self.cuts[name].type for name in self._given(slices)), *types)]
        places = [
            {dim: place for place, axis in reversed([*enumerate(axes)]) for dim in (axis, *factors(axis))}
            for axes in given[::-1]
        ]
        best = max(places, key=lambda known: sum(dim in known for dim in cut.type.shape), default={})
        found = [cut.type]
        if all(dim in best for dim in cut.type.shape) and len({*cut.type.shape}) == len(cut.type.shape):
            # Factors of one axis keep their order.
            shape = tuple(sorted(cut.type.shape, key=lambda dim: -best[dim]))
            found = [replace(cut.type, shape=shape), cut.type]
        return [*dict.fromkeys(found)]

    def settle(self, goal: str, type_: StreamType) -> None:
        """A goal is made as a stream of a type."""
        if goal in self.cuts:
            self.cuts[goal] = replace(self.cuts[goal], type=type_)

    def declared(self, goal: str, order: StreamType | None = None) -> OutputSpec:
        """A goal as an output; for a cut that is none, without code."""
        cut = self.cuts.get(goal)
        if cut is None or cut.output is not None:
            return self.task.outputs[self.outputs.index(goal)]
        return OutputSpec(name=goal, **_typed(order or cut.type), data_transform=[""])

    def _output(self, goal: str, slices: Sequence[Slice], order: StreamType | None) -> OutputSpec:
        spec = self.declared(goal, order)
        if goal not in self.cuts:
            results: list[ast.expr] = [ast.Name(place[1], ast.Load()) for place in self._places(goal)]
        else:
            cut = self.cuts[goal]
            value = ast.Name(cut.place[1], ast.Load())
            results = [_arranged(value, cut.axes[0], canonical_axes(order or cut.type))]
        loads = [{place: self._load(place) for place in part.cuts} for part in slices]
        code = [written(self._statements, *each) for each in zip(slices, loads, results, strict=True)]
        return spec.model_copy(update={"data_transform": code})

    def _load(self, place: Place) -> ast.expr:
        """The expression for what a name holds, of the sub-task's input."""
        cut = self.cuts[self._owners[place]]
        value = ast.Subscript(ast.Name("input_data", ast.Load()), ast.Constant(cut.name), ast.Load())
        return _arranged(value, canonical_axes(cut.type), cut.axes[cut.places.index(place)])

    def _functions(
        self, goal: str, given: Sequence[str], slices: Sequence[Slice], reads: Collection[str]
    ) -> list[FnSpec]:
        symbols = self.task.symbols().values()
        parameters = {spec.name for spec in self.task.parameters}
        types = [stream for _, spec, stream in self.task.tensors() if spec.name in reads]
        types += [self.cuts[name].type for name in (*given, goal) if name in self.cuts]
        types += [self.task.output_types[self.outputs.index(goal)]] if goal in self.outputs else []
        dims = {dim for type_ in types for dim in canonical_axes(type_)}
        dims |= {dim for place in self._made(slices) for dim in self.found.axes.get(place, ())}
        known = {symbol for dim in dims for symbol in dim.free_symbols}
        found = []
        for spec, dtypes in zip(self.task.fns, self.task.fn_types, strict=True):
            own = parameters_read(spec.apply)
            typed = {dim for dtype in dtypes for part in components_of(dtype) for dim in layout(part)}
            free = {symbol for dim in typed for symbol in dim.free_symbols}
            if (own is None or own & parameters <= set(reads)) and free & {*symbols} <= known:
                found.append(spec)
        return found

    def _is_likely(self, name: str, slices: Sequence[Slice], offered: Offered) -> bool:
        """Whether all that a function executes is executed in slices, too."""
        numbers = tuple(dict.fromkeys(number for part in slices for number in part.statements))
        for at, own in enumerate(self.found.functions):
            if name not in own:
                continue
            if offered == "likely" and not may_serve(own[name], self._implied(at, numbers)):
                return False
            if offered == "suited" and not suits(own[name], [self.found.executed[at][number] for number in numbers]):
                return False
        return True

    def _implied(self, at: int, numbers: tuple[int, ...]) -> Executed:
        key = at, numbers
        if key not in self._known:
            self._known[key] = implied(self.found.executed[at][number] for number in numbers)
        return self._known[key]

    def _made(self, slices: Sequence[Slice]) -> Iterator[Place]:
        for part in slices:
            for number in part.statements:
                yield from ((number, name) for name in self._statements[number].defines)


@lru_cache(maxsize=1024)
def parameters_read(code: str) -> frozenset[str] | None:
    """The inputs and parameters that a function's code reads by name; None if it may read any."""
    found: set[str] = set()
    for tree in parse_python("def apply(state, input):\n" + _indented(code)).body:
        reads = Statement(tree).reads
        if reads is None:
            return None
        found |= reads
    return frozenset(found)


def _indented(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.splitlines()) or "    pass\n"


def typed(spec: TensorSpec | OutputSpec, whole: Task) -> StreamType:
    """The type of a sub-task's stream in the dims of the whole."""
    symbols = whole.symbols()
    return StreamType(parse_dtype(spec.dtype, symbols), tuple(parse_dim(dim, symbols) for dim in spec.dims))


def _typed(type_: StreamType) -> dict[str, object]:
    """A type as task files write it."""
    return {"dtype": str(type_.dtype), "dims": [_dim(dim) for dim in type_.shape]}


def _dim(dim: Dim) -> str | int:
    return int(dim) if dim.is_Integer else format_dim(dim)


def _input(cut: Cut) -> TensorSpec:
    ones = {} if cut.ones is None else {"min": cut.ones[0], "max": cut.ones[1]}
    return TensorSpec.model_validate({"name": cut.name, **_typed(cut.type), "data_gen": cut.data, **ones})


def _arranged(value: ast.expr, source: Axes, target: Axes) -> ast.expr:
    """An expression for a tensor with its axes in another order, and with axes of 1 as the target has them."""
    if source == target:
        return value
    order = permutation(source, target)
    if order is None:
        raise ValueError(f"{source} is not {target} in another order")
    moved = order != tuple(range(len(order)))
    if moved and ONE in source:
        value = _called(value, "reshape", [_size(dim) for dim in source if dim != ONE])
    if moved:
        value = _called(value, "permute", [ast.Constant(place) for place in order])
    if ONE in target or (ONE in source and not moved):
        value = _called(value, "reshape", [_size(dim) for dim in target])
    return value


def _called(value: ast.expr, method: str, arguments: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Attribute(value, method, ast.Load()), arguments, [])


def _size(dim: Dim) -> ast.expr:
    """A dim's size as code, such as `2*K_value`."""
    tree = ast.parse(format_dim(dim), mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            node.id = f"{node.id}_value"
    return tree
