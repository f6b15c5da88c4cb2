"""A task at one set of sizes: its functions with code, its inputs with data, its reference outputs."""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import sympy
import torch
from torch import Tensor

from step_runtime import snippets
from step_runtime.calls import Data, Watch, element_layout
from step_runtime.errors import RuleError, TaskCodeError, TaskError
from step_runtime.functions import DeclaredFn, Fn
from step_runtime.limits import Limits
from step_runtime.scope import Scope, make_scope
from step_runtime.shapes import Dim, evaluate, format_dim, torch_shape
from step_runtime.task import FnSpec, OutputSpec, Task, TensorSpec
from step_runtime.task_checks import Location
from step_runtime.task_yaml import format_location
from step_runtime.types import Multihot, components_of, layout

_DRAWS = 5
"""Inputs that a reference is tried on: a choice among few outcomes may come out alike twice."""


class TaskFn(DeclaredFn):
    """A task's function with its author's code."""

    def __init__(self, task: Task, spec: FnSpec, namespace: snippets.Namespace, *, widen: bool) -> None:
        super().__init__(spec.func_name, spec.name, task.fn_types(spec), stateful=spec.init is not None)
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
        return [torch.full(element_layout(element, sizes), float(value)) for element, value in parts]


class TaskInstance:
    """A task at one set of sizes, computing in one floating type.

    `watch` is told of `global` and of the references before they run, each by its place in the file.

    Raises:
        TaskError: a dim has no size, or is no positive int at these sizes.
        TaskCodeError: the task's `global` failed.
    """

    def __init__(
        self, task: Task, sizes: Mapping[str, int], *, dtype: torch.dtype = torch.float64, watch: Watch | None = None
    ) -> None:
        self.task = task
        self.dtype = dtype
        self._watch = watch
        self._widen = dtype == torch.float64
        self._drawn: dict[int, dict[str, Data]] = {}
        self._namespace = self._base_namespace(sizes)
        self.fns: dict[str, Fn] = {}
        for spec in task.fns:
            self.fns[spec.func_name] = TaskFn(task, spec, self._namespace, widen=self._widen)
        self._namespace.update(self.fns)
        self._run_global(sizes)
        self.sizes = self._settled_sizes(sizes)
        self._check_dims()

    def _base_namespace(self, sizes: Mapping[str, int]) -> snippets.Namespace:
        import step_runtime

        symbols = self.task.symbols()
        return {
            "torch": torch,
            "step": step_runtime,
            "Symbol": sympy.Symbol,
            "input_data": {},
            "ctx": {symbols[name]: size for name, size in sizes.items()},
            **symbols,
            **{f"{name}_value": size for name, size in sizes.items()},
        }

    def _run_global(self, sizes: Mapping[str, int]) -> None:
        if self.task.global_ is None:
            return
        who = f"{self.task.name}: global"
        code = snippets.compile_block(self.task.global_, who, widen=self._widen)
        with self._author_code(who, ("global",)):
            snippets.run(code, self._namespace)

    @contextmanager
    def _author_code(self, who: str, location: Location) -> Iterator[None]:
        """Runs an author's code with the own floating type as torch's default; names the snippet where it fails.

        Raises:
            TaskCodeError: the code raised.
        """
        if self._watch is not None:
            self._watch(format_location(location), "")
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad():
                torch.manual_seed(0)
                yield
        except TaskError:
            raise
        except (Exception, SystemExit) as error:
            message = f"{who}: {_line(error, who)}raised {type(error).__name__}: {error}"
            raise TaskCodeError(message, location) from error
        finally:
            torch.set_default_dtype(before)

    def _settled_sizes(self, before: Mapping[str, int]) -> dict[str, int]:
        """What `global` made of the sizes: `ctx` wins over a name such as `E_value`, which wins over defaults."""
        ctx = self._namespace["ctx"]
        settled: dict[str, int] = {}
        for name, symbol in self.task.symbols().items():
            bound = ctx.get(symbol)
            value = self._namespace.get(f"{name}_value", bound) if bound == before.get(name) else bound
            if symbol in ctx or f"{name}_value" in self._namespace:
                if not isinstance(value, int) or value < 1:
                    expected = f"expected {name} to be an int of 1 or more, found {value!r}"
                    raise TaskError(f"{self.task.name}: global: {expected}")
                settled[name] = ctx[symbol] = self._namespace[f"{name}_value"] = value
        return settled

    def _check_dims(self) -> None:
        task = self.task
        specs: list[TensorSpec | OutputSpec] = [*task.inputs, *task.parameters, *task.outputs]
        streams = [(spec.name, task.stream_type(spec)) for spec in specs]
        shapes = [(name, (*t.shape, *layout(element))) for name, t in streams for element in components_of(t.dtype)]
        shapes += [(f.func_name, layout(e)) for f in task.fns for t in task.fn_types(f) for e in components_of(t)]
        most = Limits().bytes // self.dtype.itemsize
        for name, dims in shapes:
            numbers = math.prod(self._size(dim, name) for dim in dims)
            if numbers > most:
                raise TaskError(f"{task.name}: {name}: {numbers:,} numbers at these sizes; the limit is {most:,}")

    def _size(self, dim: Dim, name: str) -> int:
        """The size of a dim of what is called `name`."""
        try:
            return evaluate(dim, self.sizes)
        except KeyError as error:
            raise TaskError(
                f"{self.task.name}: {name}: dim {error.args[0]} has no size; "
                f"expected one in `sizes` (sizes: {{{error.args[0]}: 3}}) or in `global`"
            ) from None
        except RuleError as error:
            raise TaskError(f"{self.task.name}: {name}: {error}") from None

    @cached_property
    def scope(self) -> Scope:
        """The names that programs may use here."""
        lists: dict[str, tuple[Fn, ...]] = {}
        for name, value in self._namespace.items():
            if isinstance(value, list | tuple) and value and all(isinstance(item, Fn) for item in value):
                lists[name] = tuple(value)
        return make_scope(self.task, self.fns, self.sizes, lists)

    def draw(self, seed: int) -> dict[str, Data]:
        """Random data for every input, and for the parameters, which the snippets then see.

        Tensors have torch shape `reversed(dims) + layout`. The same seed gives the same data.
        """
        if seed not in self._drawn:
            generator = torch.Generator().manual_seed(seed)
            specs = (*self.task.inputs, *self.task.parameters)
            self._drawn[seed] = {spec.name: self._tensors(spec, generator) for spec in specs}
        data = self._drawn[seed]
        seen: dict[str, Any] = self._namespace["input_data"]
        seen.clear()
        # Clones: a snippet that writes into its input must not reach the streams, nor either of them the next run.
        seen.update({name: parts[0].clone() for name, parts in data.items()})
        return {spec.name: tuple(part.clone() for part in data[spec.name]) for spec in self.task.inputs}

    def _tensors(self, spec: TensorSpec, generator: torch.Generator) -> Data:
        stream = self.task.stream_type(spec)
        outer = torch_shape(stream.shape, self.sizes)
        return tuple(
            self._multihots((*outer, *element_layout(element, self.sizes)), spec, generator)
            if isinstance(element, Multihot)
            else self._numbers((*outer, *element_layout(element, self.sizes)), spec.data_gen, generator)
            for element in components_of(stream.dtype)
        )

    def _numbers(self, shape: tuple[int, ...], kind: str | None, generator: torch.Generator) -> Tensor:
        if kind == "torch.ones":
            return torch.ones(shape, dtype=self.dtype)
        if kind == "torch.randn":
            return torch.randn(shape, dtype=self.dtype, generator=generator)
        uniform = torch.rand(shape, dtype=self.dtype, generator=generator)
        return (uniform < 0.5).to(self.dtype) if kind == "binary" else uniform

    def _multihots(self, shape: tuple[int, ...], spec: TensorSpec, generator: torch.Generator) -> Tensor:
        """Between `min` and `max` ones in random places of each element."""
        length = shape[-1]
        least, most = spec.min or 0, min(length if spec.max is None else spec.max, length)
        if least > most:
            raise TaskError(f"{self.task.name}: {spec.name}: min {least} is more than the {most} bits that may be set")
        ones = torch.randint(least, most + 1, shape[:-1], generator=generator)
        places = torch.rand(shape, dtype=self.dtype, generator=generator).argsort(-1).argsort(-1)
        return (places < ones.unsqueeze(-1)).to(self.dtype)

    def reference(self) -> list[Data]:
        """The reference outputs for the data drawn last, one tuple of tensors per output.

        Raises:
            TaskCodeError: a snippet failed, or its value is no tensor of the declared shape.
        """
        namespace = dict(self._namespace)
        namespace["input_data"] = {name: value.clone() for name, value in self._namespace["input_data"].items()}
        outputs = []
        for number, spec in enumerate(self.task.outputs):
            stream = self.task.stream_type(spec)
            outer = torch_shape(stream.shape, self.sizes)
            parts = []
            for index, element in enumerate(components_of(stream.dtype)):
                who = f"{self.task.name}: data_transform {index} of output {spec.name}"
                code = snippets.compile_value(spec.data_transform[index], who, "_value", widen=self._widen)
                with self._author_code(who, location := ("outputs", number, "data_transform", index)):
                    snippets.run(code, namespace)
                expected = (*outer, *element_layout(element, self.sizes))
                told = _not_as_declared(value := namespace.pop("_value"), expected)
                if told:
                    raise TaskCodeError(f"{who}: {told}", location)
                parts.append(value.detach().to(self.dtype))
            outputs.append(tuple(parts))
        return outputs


def _not_as_declared(value: object, expected: tuple[int, ...]) -> str | None:
    if not isinstance(value, Tensor):
        return f"expected a tensor, found {type(value).__name__}"
    if tuple(value.shape) != expected:
        return f"the reference has shape {tuple(value.shape)}; the declared dims give {expected}"
    return None


def _line(error: BaseException, who: str) -> str:
    """The last line of a snippet of several that an error passed, for a message."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == f"<{who}>"]
    return f"line {lines[-1]} of it " if lines else ""


def instances(task: Task, *, dtype: torch.dtype = torch.float64, watch: Watch | None = None) -> list[TaskInstance]:
    """The task at each of its sets of sizes."""
    return [TaskInstance(task, sizes, dtype=dtype, watch=watch) for sizes in task.size_sets()]


def check_reference(task: Task, source: str, watch: Watch | None = None) -> None:
    """Runs the task's own code, functions apart, at each set of sizes.

    Raises:
        TaskError: a dim has no size, or the code fails or gives another shape than declared.

    Warns:
        UserWarning: an output is the same for other inputs.
    """
    task = task.named(source)
    for instance in instances(task, watch=watch):
        drawn = []
        for seed in range(_DRAWS):
            instance.draw(seed)
            drawn.append(instance.reference())
        for spec, *values in zip(task.outputs, *drawn, strict=True):
            if all(torch.equal(a, b) for other in values[1:] for a, b in zip(values[0], other, strict=True)):
                sizes = ", ".join(f"{format_dim(sympy.Symbol(k))}={v}" for k, v in instance.sizes.items())
                warnings.warn(
                    f"{source}: output {spec.name} does not depend on the inputs at {sizes}: any constant would pass",
                    stacklevel=3,
                )
