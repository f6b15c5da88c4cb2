"""Sub-tasks: what computes one value of a reference from others, as a task of its own.

A sub-task's inputs are inputs of the whole task, or outputs of other sub-tasks, by name; its reference is the part of
the whole's that leads from there to its output. It has the functions that may serve: those whose parameters that part
reads, and whose dims occur in it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TypeVar

from pipeline.splitting.cuts import ONE, Axes, Cut, ReferenceCuts, canonical_axes, permutation, statements_of
from pipeline.splitting.operators import Executed, implied, may_serve
from pipeline.splitting.statements import Place, Slice, Statement, slice_to, written
from pipeline.synthesis.coercions import factors
from step_runtime.base.errors import TaskError
from step_runtime.base.shapes import Dim, format_dim, try_evaluate
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import StreamType, components_of, layout, parse_dim, parse_dtype
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import FnSpec, OutputSpec, Task, TensorSpec, dump_task

_SHOWN = 3
"""Statements of an unsolved value that are shown, the last ones."""


class SubtaskWriter:
    """Writes the sub-tasks of a task between its cuts; none of the task's code is run."""

    def __init__(self, task: Task, found: ReferenceCuts) -> None:
        self.task, self.found = task.without_impl(), found
        self.cuts = {cut.name: cut for cut in found.cuts}
        self._statements = statements_of(self.task, expanded=found.expanded)
        self._owners = {place: cut for cut in found.cuts for place in cut.places}
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
        self, goal: str, cuts: Collection[str], without: Collection[str] = (), *, likely: bool = False
    ) -> Task | None:
        """The task to compute a goal from those of the cuts that its reference comes to first, and from inputs.

        None if no function reads a parameter that the reference needs, or nothing is given but parameters. Functions
        named in `without` are left out; if only `likely` ones count, those that execute what the reference does not.
        """
        slices = self._slices(goal, cuts)
        given = self._given(slices)
        reads = self._reads(slices)
        specs = [spec for spec in self.task.inputs if spec.name in reads]
        specs += [_input(self.cuts[name]) for name in given]
        parameters = [spec for spec in self.task.parameters if spec.name in reads]
        fns = [fn for fn in self._functions(goal, given, slices, reads) if fn.func_name not in without]
        if likely:
            fns = [fn for fn in fns if self._is_likely(fn.func_name, slices)]
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
                outputs=[self._output(goal, slices)],
                sizes=self.task.sizes,
                part_of=self.task.name,
            )
            return loads_task(dump_task(_with_whole_dims(task, self.task)), f"{self.task.name}.{goal}")
        except (TaskError, ValueError):
            return None

    def _places(self, goal: str) -> tuple[Place, ...]:
        return (self.cuts[goal].place,) if goal in self.cuts else self.found.outputs[self.outputs.index(goal)]

    def _slices(self, goal: str, cuts: Collection[str]) -> list[Slice]:
        stops = {place for name in cuts if name != goal and name in self.cuts for place in self.cuts[name].places}
        return [slice_to(self._statements, place, stops) for place in self._places(goal)]

    def _given(self, slices: Sequence[Slice]) -> tuple[str, ...]:
        names = {self._owners[place].name for part in slices for place in part.cuts}
        return tuple(name for name in self.cuts if name in names)

    def _reads(self, slices: Sequence[Slice]) -> set[str]:
        """The inputs and parameters that slices read."""
        every = {spec.name for spec in (*self.task.inputs, *self.task.parameters)}
        statements = [self._statements[number] for part in slices for number in part.statements]
        return set().union(*(every if each.reads is None else each.reads for each in statements)) & every

    def _output(self, goal: str, slices: Sequence[Slice]) -> OutputSpec:
        if goal not in self.cuts:
            spec = self.task.outputs[self.outputs.index(goal)]
            results: list[ast.expr] = [ast.Name(place[1], ast.Load()) for place in self._places(goal)]
        else:
            cut = self.cuts[goal]
            spec = OutputSpec(name=goal, **_typed(cut.type), data_transform=[""])
            if cut.output is not None:
                spec = self.task.outputs[cut.output]
            value = ast.Name(cut.place[1], ast.Load())
            results = [_arranged(value, cut.axes[0], canonical_axes(cut.type))]
        loads = [{place: self._load(place) for place in part.cuts} for part in slices]
        code = [written(self._statements, *each) for each in zip(slices, loads, results, strict=True)]
        return spec.model_copy(update={"data_transform": code})

    def _load(self, place: Place) -> ast.expr:
        """The expression for what a name holds, of the sub-task's input."""
        cut = self._owners[place]
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

    def _is_likely(self, name: str, slices: Sequence[Slice]) -> bool:
        """Whether all that a function executes is executed in slices, too."""
        numbers = tuple(dict.fromkeys(number for part in slices for number in part.statements))
        every = enumerate(self.found.functions)
        return all(name not in own or may_serve(own[name], self._implied(at, numbers)) for at, own in every)

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


def whole_dims(task: Task) -> dict[str, Dim]:
    """Names for the products among the dims of a task's streams, which sub-tasks may have as dims of their own."""
    taken, found = {*task.symbols()}, dict[str, Dim]()
    for type_ in (*task.input_types, *task.output_types):
        for dim in type_.shape:
            name = "".join(sorted(symbol.name for symbol in dim.free_symbols))
            if (
                factors(dim)
                and not dim.is_Symbol
                and all(part.is_Symbol for part in factors(dim))
                and name not in taken
            ):
                found.setdefault(name, dim)
    return found


def _with_whole_dims(task: Task, whole: Task) -> Task:
    """The sub-task with products of dims as dims, where their factors occur in no other type."""
    symbols = whole.symbols()
    for name, dim in whole_dims(whole).items():
        sizes = [try_evaluate(dim, each) for each in whole.size_sets()]
        streams = (*task.input_types, *task.parameter_types, *task.output_types)
        every = [each for type_ in streams for each in type_.shape]
        elements = [*(type_.dtype for type_ in streams), *(dtype for pair in task.fn_types for dtype in pair)]
        within = [each for dtype in elements for part in components_of(dtype) for each in layout(part)]
        shared = [each for each in (*every, *within) if each.free_symbols & dim.free_symbols]
        apart = all(each == dim for each in shared) and dim not in within
        if dim not in every or not apart or None in sizes:
            continue
        renamed = {
            "inputs": [_renamed(spec, dim, name, symbols) for spec in task.inputs],
            "outputs": [_renamed(spec, dim, name, symbols) for spec in task.outputs],
            "sizes": {**task.sizes, name: sizes if len(sizes) > 1 else sizes[0]},
        }
        task = task.model_copy(update=renamed)
    return task


_Spec = TypeVar("_Spec", TensorSpec, OutputSpec)


def _renamed(spec: _Spec, dim: Dim, name: str, symbols: Mapping[str, Dim]) -> _Spec:
    dims = [name if parse_dim(each, symbols) == dim else each for each in spec.dims]
    return spec.model_copy(update={"dims": dims})


def typed(spec: TensorSpec | OutputSpec, whole: Task) -> StreamType:
    """The type of a sub-task's stream in the dims of the whole."""
    symbols = {**whole.symbols(), **whole_dims(whole)}
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
