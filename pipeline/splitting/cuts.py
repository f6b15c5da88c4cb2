"""Cuts: values that a reference computes on its way and a stream can hold, found by running it in this process."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pipeline.splitting.operators import Executed, Recorder, executed_by_functions
from pipeline.splitting.statements import Place, Statement, normal_form
from step_runtime.base.errors import TaskCodeError
from step_runtime.base.shapes import Dim, as_dim, try_evaluate
from step_runtime.base.syntax import BUILTINS
from step_runtime.base.types import Buffer, DType, Element, Multihot, Scalar, StreamType, components_of, layout
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task, declared_shapes
from step_runtime.verification.instance import TaskInstance, instances

ONE: Dim = as_dim(1)
_SEEDS = (0, 1)
_MOST_NUMBERS = 2**18
_CLOSE = 1e-9

RESERVED = ("step", "torch", "input_data", "ctx", "Symbol")
"""Names that mean something in tasks."""

Axes = tuple[Dim, ...]
"""The dims of a tensor in torch order, outermost first."""


@dataclass(frozen=True)
class Cut:
    """A value of a reference that a stream can hold.

    Attributes:
        name: Its name, which no input, parameter, function or dim has.
        places: Where names hold it, with its numbers in the same order or with axes in another; first where it is made.
        axes: The axes of the tensor at each place.
        type: The stream that holds it.
        data: What generates data like it; None for a Multihot.
        ones: The fewest and the most ones of an element of a Multihot; None for another type.
        temporary: Whether the reference has no name for it, and no function of PyTorch gives it.
        output: The output that it is, by number; None if it is none.
    """

    name: str
    places: tuple[Place, ...]
    axes: tuple[Axes, ...]
    type: StreamType
    data: str | None
    ones: tuple[int, int] | None = None
    temporary: bool = False
    output: int | None = None

    @property
    def place(self) -> Place:
        """Where it is made."""
        return self.places[0]


@dataclass(frozen=True)
class ReferenceCuts:
    """The cuts of a task, in the order in which the reference makes them.

    Attributes:
        cuts: Values between inputs and outputs; an output that is no tuple is one, too.
        outputs: The place of each component of each output.
        axes: The axes of whatever tensor the reference makes, by place.
        executed: What each statement executes, at each set of sizes.
        functions: What each function executes on an element, at each set of sizes.
        refused: Why values that the reference names are no cuts, in words, by place.
        slow: Functions that take long, in words.
        expanded: Whether calls of attention are written out.
    """

    cuts: tuple[Cut, ...]
    outputs: tuple[tuple[Place, ...], ...]
    axes: Mapping[Place, Axes]
    executed: tuple[tuple[Executed, ...], ...]
    functions: tuple[Mapping[str, Executed], ...]
    refused: Mapping[Place, str]
    slow: tuple[str, ...] = ()
    expanded: bool = False


def find_cuts(name: str, content: str) -> ReferenceCuts:
    """The cuts of a task, given by its name and its YAML; its code runs in this process: call it in a worker.

    Raises:
        TaskError: The task can't be used.
        TaskCodeError: The reference fails.
    """
    task = loads_task(content, name)
    plain, expanded = statements_of(task), statements_of(task, expanded=True)
    if len(expanded) > len(plain):
        try:
            return replace(_Finder(task, expanded).found(), expanded=True)
        except TaskCodeError:  # The mask of a call is one that is added.
            pass
    return _Finder(task, plain).found()


def statements_of(task: Task, *, expanded: bool = False) -> tuple[Statement, ...]:
    """The references of a task in normal form; `expanded` as of it."""
    names = {*task.symbols(), *(f"{name}_value" for name in task.symbols()), *RESERVED}
    names |= {fn.func_name for fn in task.fns} | {spec.name for spec in task.outputs}
    names |= {spec.name for spec in (*task.inputs, *task.parameters)}
    snippets = [code for output in task.outputs for code in output.data_transform]
    sizes = {name: {each[name] for each in task.size_sets() if name in each} for name in task.symbols()}
    numbers = {f"{name}_value": min(known) for name, known in sizes.items() if len(known) == 1}
    return normal_form(snippets, names, numbers=numbers, expanded=expanded)


class _Finder:
    """Runs a reference at each set of sizes on two inputs, and looks at the tensors that its names hold."""

    def __init__(self, task: Task, statements: Sequence[Statement]) -> None:
        self._task, self._statements = task, statements
        self._instances = instances(task)
        self._code = [statement.code for statement in statements]
        self._executed: list[tuple[Executed, ...]] = []
        self._refused: dict[Place, str] = {}
        self._samples = [self._values(instance, seed) for instance in self._instances for seed in _SEEDS]
        self._inputs = [self._given(instance, seed) for instance in self._instances for seed in _SEEDS]
        self._dims = _dims_of(task, self._instances)
        places = [place for place in self._samples[0] if all(place in sample for sample in self._samples)]
        self.axes = {place: axes for place in places if (axes := self._axes(place)) is not None}
        self._elements = _elements(task)

    def _values(self, instance: TaskInstance, seed: int) -> dict[Place, Tensor]:
        instance.sample_inputs(seed)
        found: dict[Place, Tensor] = {}
        executed, recorder, traced = list[Executed](), Recorder(), instance.trace(self._code)
        for number, statement in enumerate(self._statements):
            with recorder:
                names = next(traced)
            executed.append(recorder.taken())
            for name in statement.defines:
                value = names.get(name)
                if not isinstance(value, Tensor) or value.is_complex():
                    self._refused[number, name] = "is no tensor of real numbers"
                elif not 0 < value.numel() <= _MOST_NUMBERS:
                    self._refused[number, name] = f"has {value.numel()} numbers, more than {_MOST_NUMBERS}"
                else:
                    found[number, name] = value.detach().to(torch.float64).clone()
        self._executed += [tuple(executed)] if seed == _SEEDS[0] else []
        return found

    @staticmethod
    def _given(instance: TaskInstance, seed: int) -> list[Tensor]:
        return [_sorted(part.to(torch.float64)) for parts in instance.sample_inputs(seed).values() for part in parts]

    def _axes(self, place: Place) -> Axes | None:
        """The dims of a tensor; None if there are none that fit."""
        shapes = [self._samples[len(_SEEDS) * at][place].shape for at in range(len(self._instances))]
        if len({len(shape) for shape in shapes}) > 1:
            return None
        return self._dims.of([*zip(*shapes, strict=True)])

    def found(self) -> ReferenceCuts:
        """The cuts."""
        depending = self._depending()
        groups: list[list[Place]] = []
        for place in (place for place in self._samples[0] if place not in self.axes):
            self._refused.setdefault(place, "has axes whose sizes are no dim or product of up to three")
        for place in self.axes:
            if place not in depending or self._is_input(place):
                continue
            if not self._is_sane(place):
                self._refused[place] = "has NaN or infinite numbers, other than masks of minus infinity"
                continue
            group = next((group for group in groups if self._same(group[0], place)), None)
            if group is None:
                groups.append([place])
            elif self._aligned(group[0], place):
                group.append(place)
        outputs = self._outputs()
        declared = {parts[0]: number for number, parts in enumerate(outputs) if len(parts) == 1}
        taken = self._names()
        cuts = []
        for group in groups:
            number = next((declared[place] for place in group if place in declared), None)
            cut = self._cut(group, taken) if number is None else self._output(group, number)
            if cut is None:
                self._refused[group[0]] = "has dims that no stream of the functions' types has"
            else:
                cuts.append(cut)
                taken.add(cut.name)
        seconds = dict[str, float]()
        functions = tuple(executed_by_functions(instance, seconds) for instance in self._instances)
        slow = tuple(f"{name}, {1000 * each:.0f} ms a call" for name, each in seconds.items())
        return ReferenceCuts(tuple(cuts), outputs, self.axes, tuple(self._executed), functions, self._refused, slow)

    def _outputs(self) -> tuple[tuple[Place, ...], ...]:
        results = iter(
            (number, str(each.target)) for number, each in enumerate(self._statements) if each.output is not None
        )
        return tuple(tuple(itertools.islice(results, len(spec.data_transform))) for spec in self._task.outputs)

    def _names(self) -> set[str]:
        task = self._task
        names = {spec.name for spec in (*task.inputs, *task.parameters)} | {spec.name for spec in task.outputs}
        names |= {fn.func_name for fn in task.fns} | {*RESERVED, *BUILTINS}
        return names.union(task.symbols(), (f"{name}_value" for name in task.symbols()))

    def _depending(self) -> set[Place]:
        """The places of values that depend on the inputs, and not on parameters alone."""
        inputs = {spec.name for spec in self._task.inputs}
        known: set[str] = set()
        found: set[Place] = set()
        for number, statement in enumerate(self._statements):
            depends = statement.reads is None or bool(statement.reads & inputs) or bool(statement.uses & known)
            known = known | statement.defines if depends else known - statement.defines
            found |= {(number, name) for name in statement.defines} if depends else set()
        return found

    def _is_sane(self, place: Place) -> bool:
        """Whether its numbers are finite but for masks, which leave some in each row."""
        for sample in self._samples:
            value, masked = sample[place], sample[place] == -torch.inf
            if not bool((torch.isfinite(value) | masked).all()) or (value.dim() and bool(masked.all(-1).any())):
                return False
        return True

    def _is_input(self, place: Place) -> bool:
        """Whether an input has the same numbers."""
        for values, inputs in zip(self._samples, self._inputs, strict=True):
            own = _sorted(values[place])
            if not any(len(own) == len(other) and _near(own, other) for other in inputs):
                return False
        return True

    def _same(self, one: Place, other: Place) -> bool:
        return all(
            sample[one].numel() == sample[other].numel() and _near(_sorted(sample[one]), _sorted(sample[other]))
            for sample in self._samples
        )

    def _aligned(self, one: Place, other: Place) -> bool:
        """Whether two tensors of the same numbers differ in the order of named axes alone."""
        order = permutation(self.axes[one], self.axes[other])
        if order is None:
            return False
        for sample in self._samples:
            a, b = sample[one], sample[other]
            a = a.reshape([size for size, dim in zip(a.shape, self.axes[one], strict=True) if dim != ONE])
            if not _near(_unmasked(a.permute(order).reshape(b.shape).flatten()), _unmasked(b.flatten())):
                return False
        return True

    def _output(self, group: Sequence[Place], number: int) -> Cut:
        """An output as a cut."""
        spec, type_ = self._task.outputs[number], self._task.output_types[number]
        return replace(self._described(group, spec.name, type_), output=number)

    def _cut(self, group: Sequence[Place], taken: set[str]) -> Cut | None:
        place = group[0]
        values = [sample[place] for sample in self._samples]
        found = max(self._types(self.axes[place], values), key=lambda pair: pair[0], default=None)
        if found is None:
            return None
        own = next((each for each in group if not self._statements[each[0]].temporary), place)
        hint = own[1].strip("_") or "value"
        numbered = (f"{hint}_{number}" for number in itertools.count(2))
        free = next(name for name in itertools.chain((hint,), numbered) if name not in taken)
        return self._described(group, free, found[1])

    def _described(self, group: Sequence[Place], name: str, type_: StreamType) -> Cut:
        """A cut with what generates its data."""
        values = [sample[group[0]] for sample in self._samples]
        axes = tuple(self.axes[each] for each in group)
        statements = [self._statements[number] for number, _ in group]
        temporary = all(each.temporary and not each.is_call for each in statements)
        if isinstance(type_.dtype, Multihot):
            counts = [value.sum(-1) for value in values]
            ones = int(min(count.min() for count in counts)), int(max(count.max() for count in counts))
            return Cut(name, tuple(group), axes, type_, None, ones, temporary)
        last = canonical_axes(type_)[-1]
        axis = max((at for at, dim in enumerate(axes[0]) if dim == last), default=-1)
        return Cut(name, tuple(group), axes, type_, _generator(values, axis), None, temporary)

    def _types(self, axes: Axes, values: Sequence[Tensor]) -> Iterator[tuple[tuple[Any, ...], StreamType]]:
        """The stream types that may hold tensors of these axes, each with how well it suits."""
        binary = all(bool(((value == 0) | (value == 1)).all()) for value in values)
        dims = [dim for dim in axes if dim != ONE]
        for element, (made, taken) in self._elements.items():
            if isinstance(element, Multihot) and not binary:
                continue
            rest = _without(dims, layout(element))
            if rest is None:
                continue
            own = layout(element)
            trailing = tuple(dims[len(rest) :]) == own
            key = (isinstance(element, Multihot), trailing, made and taken, bool(own), made, len(own))
            yield key, StreamType(element, tuple(reversed(rest)) or (ONE,))


def _elements(task: Task) -> dict[Element, tuple[bool, bool]]:
    """The element types of a task's streams, with whether a function gives and takes each.

    Formats other than fp32 are left out, as what a reference computes on its way has none.
    """
    found: dict[Element, tuple[bool, bool]] = {}
    taken = [part for dtypes in task.fn_types for part in components_of(dtypes[0])]
    made = [part for dtypes in task.fn_types for part in components_of(dtypes[1])]
    given: list[DType] = [stream.dtype for stream in (*task.input_types, *task.output_types)]
    for part in [*taken, *made, *(part for dtype in given for part in components_of(dtype))]:
        simple = isinstance(part, Scalar | Multihot) or (isinstance(part, Buffer) and isinstance(part.elem, Scalar))
        if simple and part.format.wide:
            found[part] = part in made, part in taken
    return found


class _KnownDims:
    """The dims of a task by their sizes at each set, and products of up to three of them."""

    def __init__(self, dims: Sequence[Dim], sizes: Sequence[Mapping[str, int]]) -> None:
        self._known: dict[tuple[int, ...], list[Dim]] = {tuple(1 for _ in sizes): [ONE]}
        for width in (1, 2, 3):
            for parts in itertools.combinations([dim for dim in dims if width == 1 or dim.is_Symbol], width):
                dim = as_dim(math.prod(parts))
                found = tuple(try_evaluate(dim, each) for each in sizes)
                known = self._known.setdefault(tuple(size for size in found if size is not None), [])
                if None not in found and (width == 1 or not known):
                    known.append(dim)

    def of(self, shape: Sequence[tuple[int, ...]]) -> Axes | None:
        """The dims that axes of these sizes have, a number if they are one; None if there are none.

        Of several of the same sizes, each axis has another, as far as possible.
        """
        axes: list[Dim] = []
        for sizes in shape:
            known = self._known.get(sizes) or ([as_dim(sizes[0])] if len(set(sizes)) == 1 else [])
            if not known:
                return None
            axes.append(next((dim for dim in known if dim not in axes), known[0]))
        return tuple(axes)


def _dims_of(task: Task, instances_: Sequence[TaskInstance]) -> _KnownDims:
    symbols = [task.symbols()[name] for name in task.symbols() if name in task.used_symbols]
    declared = [dim.value for dims in declared_shapes(task) for dim in dims]
    free = {symbol for dim in declared for symbol in dim.free_symbols}
    ordered = [symbol for symbol in symbols if symbol in free] + [symbol for symbol in symbols if symbol not in free]
    return _KnownDims(list(dict.fromkeys([*ordered, *declared])), [instance.sizes for instance in instances_])


def canonical_axes(type_: StreamType) -> Axes:
    """The torch axes of a stream's numbers: its dims from the outermost on, then those of an element."""
    return (*reversed(type_.shape), *(dim for part in components_of(type_.dtype) for dim in layout(part)))


def permutation(source: Axes, target: Axes) -> tuple[int, ...] | None:
    """The order in which the axes of one tensor, without those of 1, are those of another; None if they differ.

    Equal axes keep their order.
    """
    left = [(at, dim) for at, dim in enumerate(dim for dim in source if dim != ONE)]
    order = []
    for dim in (dim for dim in target if dim != ONE):
        found = next((pair for pair in left if pair[1] == dim), None)
        if found is None:
            return None
        left.remove(found)
        order.append(found[0])
    return None if left else tuple(order)


def _without(dims: Sequence[Dim], part: Sequence[Dim]) -> list[Dim] | None:
    """The dims without those of an element, the last of several equal ones first; None if some are missing."""
    rest = list(dims)
    for dim in reversed(part):
        if dim not in rest:
            return None
        del rest[len(rest) - 1 - rest[::-1].index(dim)]
    return rest


_MASKED = "torch.randn(shape).masked_fill((torch.rand(shape) < 0.4) & (torch.arange(shape[-1]) > 0), -torch.inf)"


def _generator(values: Sequence[Tensor], axis: int) -> str:
    """What generates data like these: masked, of the same sign, whole, or with the same sums along their last axis."""
    if any(bool((value == -torch.inf).any()) for value in values):
        return _MASKED
    least = min(float(value.min()) for value in values)
    most = max(float(value.max()) for value in values)
    sums = [value.sum(axis) for value in values if value.dim()]
    whole = bool(sums) and all(bool((total - 1).abs().max() < _CLOSE) for total in sums)
    if all(bool((value == value.round()).all()) for value in values):
        if (least, most) == (0, 1):
            return "one_hot" if whole else "binary"
        return f"integers({least:.0f}, {most:.0f})"
    if least >= 0:
        return "torch.softmax(torch.randn(shape), -1)" if whole else "torch.rand"
    return "torch.randn"


def _unmasked(value: Tensor) -> Tensor:
    """The numbers with a fixed one in the place of minus infinity."""
    return torch.where(value == -torch.inf, -math.pi, value)


def _sorted(value: Tensor) -> Tensor:
    return _unmasked(value).flatten().sort().values


def _near(one: Tensor, other: Tensor) -> bool:
    scale = float(other.abs().max()) if other.numel() else 0.0
    return bool(((one - other).abs() <= _CLOSE * max(scale, 1e-300)).all())
