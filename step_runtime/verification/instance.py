"""A task at one set of sizes: its functions with code, its inputs with data, its reference outputs."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from math import prod
from types import SimpleNamespace
from typing import Any

import sympy
import torch
from torch import Tensor

from step_runtime.base.errors import RuleError, TaskCodeError, TaskError, describe_error, describe_value
from step_runtime.base.functions import DeclaredFn, Fn
from step_runtime.base.shapes import (
    INNERMOST_FIRST,
    LARGEST_DIM,
    Sizes,
    evaluate,
    format_sizes,
    is_reversed,
    torch_shape,
)
from step_runtime.base.stream import Stream
from step_runtime.base.types import (
    Buffer,
    DType,
    Element,
    Multihot,
    Scalar,
    StreamType,
    STuple,
    components_of,
)
from step_runtime.execution.applier import Applier
from step_runtime.execution.invocation import BeforeRun, Data, default_dtype, element_layout, unsupported
from step_runtime.execution.number_formats import conversion_problem, element_type, exact
from step_runtime.primitives import PRIMITIVES
from step_runtime.program.limits import Limits
from step_runtime.tasks import snippets
from step_runtime.tasks.generators import PLAIN, expression, family
from step_runtime.tasks.scope import Scope, make_scope
from step_runtime.tasks.task import FnSpec, Task, TensorSpec, WrittenDim, declared_shapes
from step_runtime.tasks.yaml_format import Location, format_location

_KEPT = 2**28
"""Bytes of samples from which on older ones are drawn anew when they are asked for."""


_TYPES = (Buffer, Fn, Multihot, Scalar, Stream, STuple)
STEP = SimpleNamespace(**PRIMITIVES, **{cls.__name__: cls for cls in _TYPES})
"""What snippets see as `step`: the part of the package that programs in Python use."""


class TaskFn(DeclaredFn):
    """A task's function with its author's code."""

    def __init__(
        self, spec: FnSpec, dtypes: tuple[DType, DType], namespace: snippets.Namespace, *, widen: snippets.Widening
    ) -> None:
        super().__init__(spec.func_name, spec.name, dtypes, stateful=spec.init is not None)
        self._init = spec.init or []
        self._namespace = namespace
        parameters = ("state", "input") if self.stateful else ("input",)
        code = snippets.compile_function(spec.apply, parameters, spec.func_name, widen=widen)
        self._code: Callable[..., Sequence[Tensor]] = snippets.bind_function(code, spec.func_name, namespace)

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        """The author's code on one element."""
        return self._code(*args)

    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The author's code; the initial state is declared."""
        return (self._code,)

    def getInit(self) -> Sequence[Tensor]:
        """Each component filled with its declared initial value."""
        sizes = {symbol.name: size for symbol, size in self._namespace["ctx"].items()}
        parts = zip(components_of(self.output), self._init, strict=True)
        return [
            torch.full(element_layout(element, sizes), value, dtype=element_type(element, torch.get_default_dtype()))
            for element, value in parts
        ]


class TaskInstance:
    """A task at one set of sizes, computing fp32 in one floating type.

    `place` has the sizes of the task's own dims, for messages. `before_run` is called before `global` and each
    reference, with their place in the file and the sizes. `seed` is what torch's generator is set to before.

    Raises:
        TaskError: A dim has no size, or is not a positive int at these sizes; a tensor holds too many numbers, or a
            Multihot needs more ones than it has bits.
        TaskCodeError: The task's `global` fails.
    """

    def __init__(
        self,
        task: Task,
        sizes: Mapping[str, int],
        *,
        dtype: torch.dtype = torch.float64,
        before_run: BeforeRun | None = None,
    ) -> None:
        self.task = task
        self.dtype = dtype
        self.sizes = dict(sizes)
        self.place = format_sizes(self.own_sizes)
        self.seed = 0
        self._before_run = before_run
        self._widen = snippets.widening(float64=dtype == torch.float64, formats=task.names_formats)
        self._sampled: dict[int, dict[str, Data]] = {}
        self._references: dict[int, list[Data]] = {}
        self._input_data: dict[str, Any] = {}
        self._namespace = self._base_namespace(sizes)
        self.fns: dict[str, Fn] = {}
        for spec, dtypes in zip(task.fns, task.fn_types, strict=True):
            self.fns[spec.func_name] = TaskFn(spec, dtypes, self._namespace, widen=self._widen)
        self._namespace.update(self.fns)
        self._run_global()
        self.sizes = self._settled_sizes(sizes)
        self.place = format_sizes(self.own_sizes)
        self._check_dims(sizes)
        for place, tensor, stream in task.tensors():
            self._check_ones(tensor, stream.dtype, place)

    def _base_namespace(self, sizes: Mapping[str, int]) -> snippets.Namespace:
        symbols = self.task.symbols()
        return {
            "torch": torch,
            "step": STEP,
            "Symbol": sympy.Symbol,
            "input_data": self._input_data,
            "ctx": {symbols[name]: size for name, size in sizes.items()},
            **symbols,
            **{f"{name}_value": size for name, size in sizes.items()},
        }

    def _run_global(self) -> None:
        if self.task.global_ is None:
            return
        who = f"{self.task.name}: global"
        code = snippets.compile_block(self.task.global_, who, widen=self._widen)
        with self.author_code(who, ("global",)):
            snippets.run(code, self._namespace)

    @contextmanager
    def author_code(self, who: str, location: Location) -> Iterator[None]:
        """Runs an author's code with the instance's floating type as torch's default; names the snippet if it fails."""
        if self._before_run is not None:
            self._before_run(f"{format_location(location)} at {self.place}", "")
        try:
            with default_dtype(self.dtype), torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(self.seed)
                yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise TaskCodeError(f"{who}: {_line(error, who)}raised {describe_error(error)}", location) from error

    @contextmanager
    def reads(self) -> Iterator[set[str]]:
        """The inputs and parameters that snippets read by name within the context."""
        recorded = snippets.RecordedReads(self._input_data)
        self._namespace["input_data"] = recorded
        try:
            yield recorded.read
        finally:
            self._namespace["input_data"] = self._input_data

    def _settled_sizes(self, before: Mapping[str, int]) -> dict[str, int]:
        """The sizes after `global`: from `ctx`, else from a name such as `E_value`, else the defaults."""
        ctx = self._namespace["ctx"]
        settled: dict[str, int] = {}
        for name, symbol in self.task.symbols().items():
            bound = ctx.get(symbol)
            value = self._namespace.get(f"{name}_value", bound) if bound == before.get(name) else bound
            if symbol in ctx or f"{name}_value" in self._namespace:
                if not isinstance(value, int) or not 1 <= value <= LARGEST_DIM:
                    expected = (
                        f"expected {name} to be an int of 1 or more, and less than 2**63, found {describe_value(value)}"
                    )
                    raise self._wrong(("global",), expected)
                settled[name] = ctx[symbol] = self._namespace[f"{name}_value"] = value
        return settled

    def _wrong(self, location: Location, message: str) -> TaskError:
        return TaskError(f"{self.task.name}: {format_location(location)}: {message}", location)

    def _check_dims(self, before: Mapping[str, int]) -> None:
        """Checks that the sizes of every tensor are known and bounded; `before` are the sizes before `global` ran."""
        most = Limits().bytes // self.dtype.itemsize
        for dims in declared_shapes(self.task):
            sizes = [self._size(dim) for dim in dims]
            numbers = prod(sizes)
            if numbers > most:
                found = f"{numbers:,}" if numbers < LARGEST_DIM else "2**63 or more"
                where = f"{format_location(dims[0].location[:2])} would hold {found} numbers"
                message = f"{where} at {self.place}; the limit is {most:,}"
                raise self._wrong(self._origin(dims[sizes.index(max(sizes))], before), message)

    def _size(self, dim: WrittenDim) -> int:
        try:
            return evaluate(dim.value, self.sizes)
        except KeyError as error:
            name = error.args[0]
            expected = f"expected one in `sizes` (sizes: {{{name}: 3}}) or in `global`"
            raise self._wrong(dim.location, f"dim {name} has no size; {expected}") from None
        except RuleError as error:
            expected = "expected a positive int at every set of sizes"
            raise self._wrong(dim.location, f"{dim.text}: {error.details[0]}; {expected}") from None

    def _origin(self, dim: WrittenDim, before: Mapping[str, int]) -> Location:
        """Where a dim's size comes from: `sizes`, `global`, or the dim itself."""
        names = [symbol.name for symbol in dim.value.free_symbols]
        largest = max(names, key=lambda name: self.sizes[name], default="")
        if self.sizes.get(largest) != before.get(largest):
            return ("global",)
        return ("sizes", largest) if largest in self.task.sizes else dim.location

    def _check_ones(self, spec: TensorSpec, dtype: DType, location: Location) -> None:
        """Checks that a Multihot input has at least `min` bits; a `max` beyond its length has no effect."""
        if not isinstance(dtype, Multihot):
            return
        length = evaluate(dtype.length, self.sizes)
        if spec.min is not None and spec.min > length:
            expected = f"expected at most {length}, the Multihot's length at {self.place}"
            raise self._wrong((*location, "min"), f"{expected}, found {spec.min}")

    @property
    def own_sizes(self) -> Sizes:
        """The sizes of the dims that the task uses; all, if it uses none."""
        return {name: size for name, size in self.sizes.items() if name in self.task.used_symbols} or self.sizes

    @cached_property
    def applier(self) -> Applier:
        """Runs its functions; what it remembers of them goes with the instance."""
        return Applier(self.dtype, functions=self.fns)

    @property
    def kept(self) -> int:
        """Bytes of the data that it keeps."""
        return sum(part.nbytes for data in self._sampled.values() for part in chain(*data.values()))

    @cached_property
    def scope(self) -> Scope:
        """The names that programs may use here."""
        lists: dict[str, tuple[Fn, ...]] = {}
        for name, value in self._namespace.items():
            if isinstance(value, list | tuple) and value and all(isinstance(item, Fn) for item in value):
                lists[name] = tuple(value)
        return make_scope(self.task, self.fns, self.sizes, lists)

    def sample_inputs(self, seed: int) -> dict[str, Data]:
        """Random data for every input, and for the parameters, which the snippets then use.

        Tensors have torch shape `reversed(dims) + layout`. The same seed gives the same data.
        """
        data = self.sampled(seed)
        self._input_data.clear()
        # Clones: a snippet that writes into its input must reach neither the streams nor the next run.
        self._input_data.update({name: _as_seen(parts) for name, parts in data.items()})
        return {spec.name: data[spec.name] for spec in self.task.inputs}

    def sampled(self, seed: int) -> Mapping[str, Data]:
        """The inputs of `sample_inputs` for a seed, and the parameters; the snippets keep their data."""
        if seed not in self._sampled:
            if self.kept > _KEPT:
                self._sampled.clear()
            generator = torch.Generator().manual_seed(seed)
            tensors = self.task.tensors()
            self._sampled[seed] = {spec.name: self._tensors(spec, stream, generator) for _, spec, stream in tensors}
        return self._sampled[seed]

    def use_inputs(self, data: Mapping[str, Data]) -> dict[str, Data]:
        """Gives the snippets and the caller this data for inputs and parameters, in this instance's type."""
        own = {name: tuple(map(self._own, parts)) for name, parts in data.items()}
        self._input_data.update({name: _as_seen(parts) for name, parts in own.items()})
        pairs = {spec.name: zip(own[spec.name], data[spec.name], strict=True) for spec in self.task.inputs}
        return {name: tuple(one.clone() if one is of else one for one, of in both) for name, both in pairs.items()}

    def _own(self, part: Tensor) -> Tensor:
        """fp32 numbers of another instance in this one's type."""
        return part.to(self.dtype) if part.dtype in (torch.float64, torch.float32) else part

    def change_input(self, spec: TensorSpec) -> bool:
        """Gives the snippets other data for one input, the rest as of seed 0; whether there is any other."""
        before, other = (self.sampled(seed)[spec.name] for seed in (0, 1))
        self.sample_inputs(0)
        self.replace_input(spec, other)
        return not all(map(torch.equal, before, other))

    def replace_input(self, spec: TensorSpec, data: Data) -> None:
        """Gives the snippets this data for one input or parameter, until inputs are sampled."""
        self._input_data[spec.name] = _as_seen(data)

    def _tensors(self, spec: TensorSpec, stream: StreamType, generator: torch.Generator) -> Data:
        outer = torch_shape(stream.shape, self.sizes)
        return tuple(
            self._multihots((*outer, *element_layout(element, self.sizes)), spec, generator).to(self._type(element))
            if isinstance(element, Multihot)
            else self._numbers((*outer, *element_layout(element, self.sizes)), spec, element, generator)
            for element in components_of(stream.dtype)
        )

    def _type(self, element: Element) -> torch.dtype:
        return element_type(element, self.dtype)

    def _numbers(
        self, shape: tuple[int, ...], spec: TensorSpec, element: Element, generator: torch.Generator
    ) -> Tensor:
        kind = spec.data_gen
        if kind is not None and kind not in PLAIN:
            return self._generated(shape, spec, element, generator)
        if kind == "torch.ones":
            return torch.ones(shape, dtype=self._type(element))
        if kind == "torch.randn":
            return torch.randn(shape, dtype=self.dtype, generator=generator).to(self._type(element))
        uniform = torch.rand(shape, dtype=self.dtype, generator=generator)
        return ((uniform < 0.5) if kind == "binary" else uniform).to(self._type(element))

    def _generated(
        self, shape: tuple[int, ...], spec: TensorSpec, element: Element, generator: torch.Generator
    ) -> Tensor:
        """What a task's own generator gives; raises `TaskCodeError` if the element's type does not hold it."""
        kind = spec.data_gen or ""
        place = next(place for place, tensor, _ in self.task.tensors() if tensor == spec)
        location = (*place, "data_gen")
        who = f"{self.task.name}: data_gen of {spec.name}"
        source = expression(kind, self.task.symbols())
        code = snippets.compile_value(source, who, "_value", widen=self._widen)
        namespace = self._namespace | {"shape": shape}
        before, self.seed = self.seed, int(torch.randint(2**31, (), generator=generator))
        try:
            with self.author_code(who, location):
                snippets.run(code, namespace)
        finally:
            self.seed = before
        if problem := _not_as_declared(value := namespace["_value"], shape) or _beyond(value, element, kind):
            raise TaskCodeError(f"{who}: {problem}", location)
        generated: Tensor = value.detach().to(self._type(element))
        return generated

    def _multihots(self, shape: tuple[int, ...], spec: TensorSpec, generator: torch.Generator) -> Tensor:
        """Between `min` and `max` ones in random places of each element."""
        least, most = spec.min or 0, shape[-1] if spec.max is None else min(spec.max, shape[-1])
        ones = torch.randint(least, most + 1, shape[:-1], generator=generator)
        places = torch.rand(shape, dtype=self.dtype, generator=generator).argsort(-1).argsort(-1)
        return (places < ones.unsqueeze(-1)).to(self.dtype)

    def sampled_reference(self, seed: int) -> tuple[dict[str, Data], list[Data]]:
        """The inputs of `sample_inputs`, and the reference outputs for them, which are computed once."""
        inputs = self.sample_inputs(seed)
        if seed not in self._references:
            self._references[seed] = self.reference()
        return inputs, self._references[seed]

    def reference(self) -> list[Data]:
        """The reference outputs for the inputs sampled last, one tuple of tensors per output.

        Raises:
            TaskCodeError: A snippet fails, or its value is not a tensor of the declared shape.
        """
        namespace = dict(self._namespace)
        given = self._input_data.items()
        namespace["input_data"] = {name: _as_seen(v if isinstance(v, list) else (v,)) for name, v in given}
        outputs = []
        for number, (spec, stream) in enumerate(zip(self.task.outputs, self.task.output_types, strict=True)):
            outer = torch_shape(stream.shape, self.sizes)
            parts = []
            for index, element in enumerate(components_of(stream.dtype)):
                who = f"{self.task.name}: data_transform {index} of output {spec.name}"
                code = snippets.compile_value(spec.data_transform[index], who, "_value", widen=self._widen)
                with self.author_code(who, location := ("outputs", number, "data_transform", index)):
                    snippets.run(code, namespace)
                expected = (*outer, *element_layout(element, self.sizes))
                problem = _not_as_declared(value := namespace.pop("_value"), expected)
                problem = problem or conversion_problem(value, element.format)
                if problem:
                    raise TaskCodeError(f"{who}: {problem}", location)
                parts.append(value.detach().to(self._type(element)))
            outputs.append(tuple(parts))
        return outputs

    def trace(self, statements: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """What names hold after each of the statements of a reference, for the inputs sampled last.

        Raises:
            TaskCodeError: A statement fails.
        """
        namespace = dict(self._namespace)
        given = self._input_data.items()
        namespace["input_data"] = {name: _as_seen(v if isinstance(v, list) else (v,)) for name, v in given}
        for number, statement in enumerate(statements):
            who = f"{self.task.name}: statement {number}"
            code = snippets.compile_block(statement, who, widen=self._widen)
            with self.author_code(who, ("outputs",)):
                snippets.run(code, namespace)
            yield namespace


def _as_seen(parts: Sequence[Tensor]) -> Tensor | list[Tensor]:
    """Data as snippets find it: a list of tensors for a stream of tuples."""
    return parts[0].clone() if len(parts) == 1 else [part.clone() for part in parts]


def _not_as_declared(value: object, expected: tuple[int, ...]) -> str | None:
    if not isinstance(value, Tensor):
        return f"expected a tensor, found {type(value).__name__}"
    problem = unsupported(value)
    if problem is not None:
        return problem
    if tuple(value.shape) != expected:
        hint = f"; {INNERMOST_FIRST}" if is_reversed(value.shape, expected) else ""
        return f"its value has shape {tuple(value.shape)}; the declared dims give {expected}{hint}"
    return None


def _beyond(value: Tensor, element: Element, generator: str) -> str | None:
    """Why a format does not hold the numbers that a generator gives, or None."""
    format_ = element.format
    if format_.wide or not value.numel():
        return None
    if family(generator) == "expression" and (problem := conversion_problem(value, format_)):
        return problem
    numbers = exact(value.detach()).to(torch.float64)
    finite = numbers[numbers.isfinite()]
    beyond = finite[(finite < format_.least) | (finite > format_.most)]
    return f"gives {float(beyond[0]):g}; {format_.name} holds {format_.range}" if len(beyond) else None


def _line(error: BaseException, who: str) -> str:
    """The last line of a snippet of several lines in an error's traceback, for a message."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == f"<{who}>"]
    return f"line {lines[-1]} of the snippet " if lines else ""


def instances(
    task: Task, *, dtype: torch.dtype = torch.float64, before_run: BeforeRun | None = None
) -> list[TaskInstance]:
    """The task at each of its sets of sizes."""
    return [TaskInstance(task, sizes, dtype=dtype, before_run=before_run) for sizes in task.size_sets()]
