"""Author's code as flat graphs of torch's core operators, traced without data.

Code is traced on tensors that have types and shapes, but no numbers (meta tensors): what looks at a number, as a branch
by data does, fails there, so that no graph depends on the data of one run.
"""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from step_runtime.base.errors import describe_error
from step_runtime.verification.exact.operators import MOVES, Operators, Result, kind, mapped, name_of, those
from step_runtime.verification.exact.table import COPYING, DEFINITIONS, TABLE
from step_runtime.verification.exact.value import Unknown, Value, fixed

_ALSO_SPLIT = (
    "native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit", "huber_loss",
    "smooth_l1_loss", "mse_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "l1_loss",
    "nll_loss_forward", "leaky_relu", "elu", "hardswish", "hardsigmoid", "mish", "log2", "log10", "frac",
    "nan_to_num", "soft_margin_loss", "celu", "softshrink", "hardshrink", "logit",
    "heaviside", "threshold", "renorm", "_trilinear", "avg_pool2d", "unfold", "cdist", "trace", "take", "rot90",
    "dist", "prelu", "_prelu_kernel", "addmm", "addmv", "hardtanh", "isinf",
)  # fmt: skip


@functools.cache
def _decompositions() -> Mapping[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions, get_decompositions

    aten = torch.ops.aten
    table = dict(core_aten_decompositions())
    table |= get_decompositions([getattr(aten, name) for name in _ALSO_SPLIT if hasattr(aten, name)])
    own = {*TABLE, *DEFINITIONS, *MOVES}
    return {key: value for key, value in table.items() if name_of(key) not in own}


def prepare() -> None:
    """Has torch import all that tracing takes, once a process."""
    trace(lambda one: [torch.softmax(one, -1)], [torch.zeros(2, 2)])


@dataclass(frozen=True)
class Step:
    """One operator of a graph: its operands are constants and the numbers of earlier steps as `Slot`s."""

    target: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    result: Result


@dataclass(frozen=True)
class Slot:
    """The result of a step, or an input; `part` of several."""

    number: int
    part: int | None = None


@dataclass(frozen=True)
class Trace:
    """A flat graph of operators.

    Attributes:
        inputs: The number of its inputs.
        steps: In order; the result of the first one has the number of the inputs. None for one that no output needs.
        outputs: What it gives.
    """

    inputs: int
    steps: Sequence[Step | Tensor | None]
    outputs: Sequence[Any]

    def run(self, operators: Operators, inputs: Sequence[Value]) -> list[Value]:
        """The outputs for some inputs.

        Raises:
            Unknown: An operator is not followed.
        """
        return self.evaluated(
            inputs, fixed, lambda step, args, kwargs: operators.run(step.target, args, kwargs, step.result)
        )

    def evaluated(
        self, inputs: Sequence[Any], constant: Callable[[Tensor], Any], operator: Callable[[Step, Any, Any], Any]
    ) -> list[Any]:
        """The outputs for some inputs, by what constants and operators give."""
        found: list[Any] = list(inputs)

        def value(slot: Slot) -> Any:
            return found[slot.number] if slot.part is None else found[slot.number][slot.part]

        for step in self.steps:
            if isinstance(step, Step):
                found.append(operator(step, mapped(step.args, Slot, value), mapped(step.kwargs, Slot, value)))
            else:
                found.append(None if step is None else constant(step))
        return mapped(self.outputs, Slot, value)  # type: ignore[no-any-return]


def trace(code: Callable[..., Sequence[Tensor]], examples: Sequence[Tensor | Value]) -> Trace:
    """The graph of some code on tensors like the examples, whose numbers it is not given.

    Raises:
        Unknown: The code looks at data, or fails on tensors without.
    """

    def cloned(*tensors: Tensor) -> list[Tensor]:
        return list(code(*(tensor.clone() for tensor in tensors)))

    with without_compiler():
        found = _recorded(cloned, examples, _decompositions())
        if any(isinstance(step, Step) and step.target._schema.is_mutable for step in found.steps):
            # Within a decomposition; what is replayed has none, and its changes in place become results too.
            first = found
            replayed = functools.partial(
                first.evaluated,
                constant=lambda one: one,
                operator=lambda step, args, kwargs: step.target(*args, **kwargs),
            )
            found = _recorded(lambda *inputs: replayed(inputs), examples, {})
    return _needed(found)


def _recorded(
    code: Callable[..., Sequence[Tensor]], examples: Sequence[Tensor | Value], table: Mapping[Any, Any]
) -> Trace:
    inputs = [torch.empty(example.shape, dtype=example.dtype, device="meta") for example in examples]
    recorder = _Recorder(inputs, table)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            with recorder, _NoNumbers():
                outputs = torch.func.functionalize(code, remove="mutations_and_views")(*inputs)
    except Unknown:
        raise
    except Exception as error:
        raise Unknown(f"code that looks at data, or that torch does not trace: {describe_error(error)}") from error
    return Trace(len(examples), recorder.steps, [recorder.operand(one) for one in outputs])


_COMPILER = "torch._dynamo"


@contextmanager
def without_compiler() -> Iterator[None]:
    """Keeps torch from importing its compiler, of which tracing only takes that it is disabled.

    The import takes a second and more. A later import of the compiler finds nothing of this; nor does another thread's,
    as where there are others, torch imports all of it.
    """
    if _COMPILER in sys.modules or threading.active_count() > 1:
        yield
        return
    sys.modules[_COMPILER] = alone = ModuleType(_COMPILER)
    vars(alone)["disable"] = lambda function, *_, **__: function
    try:
        yield
    finally:
        del sys.modules[_COMPILER]
        vars(torch).pop("_dynamo", None)


_NUMBERS = frozenset((
    "numpy", "__array__", "tolist", "data_ptr", "untyped_storage", "storage", "__dlpack__", "_typed_storage",
    "share_memory_", "__reduce_ex__", "__deepcopy__",
))  # fmt: skip
"""Methods of tensors that give or share their memory, which has no numbers here."""


_ON_CPU = {Tensor.device.__get__: torch.device("cpu"), Tensor.is_cpu.__get__: True}  # type: ignore[attr-defined]
"""What code finds of tensors, although these are on none."""


class _NoNumbers(TorchFunctionMode):
    """Refuses methods that look into a tensor's memory past torch's operators."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if func in _ON_CPU:
            return _ON_CPU[func]
        if name in _NUMBERS:
            raise Unknown(f"code that looks at data: {name}")
        place = args[1] if name == "__getitem__" else None
        if isinstance(place, Tensor) and not place.dim() and kind(place.dtype) == "i":
            return args[0].index_select(0, place.reshape(1).long()).squeeze(0)  # torch looks at the number
        return func(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):
    """Records the operators that run within it, those of the table by what they consist of."""

    def __init__(self, inputs: Sequence[Tensor], table: Mapping[Any, Any]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[Step | Tensor] = []
        self._inputs = len(inputs)
        self._table = table
        self._slots: dict[int, Slot] = {}
        self._complexes: dict[int, Tensor] = {}
        self._kept: list[Tensor] = []
        for number, tensor in enumerate(inputs):
            self._keep(tensor, Slot(number))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        given = [*those([args, kwargs], Tensor), *args, kwargs.get("dtype")]
        if (name in _MAKE_COMPLEX or any(map(_is_complex, given))) and not _asks(func):
            return self._complex(func, args, kwargs)
        if rule := self._table.get(func):
            with self:
                found = rule(*args, **kwargs)
            if found is not NotImplemented:
                return found
        if name in DEFINITIONS:
            return self._defined(func, DEFINITIONS[name], args, kwargs)
        if _asks(func) and all(type(one) in (Tensor, torch.nn.Parameter) for one in those([args, kwargs], Tensor)):
            with _disable_current_modes():  # of tensors that are no inputs, and do not depend on these
                return func(*args, **kwargs)
        found = _shaped(func, args, kwargs)
        if func.overloadpacket.__name__.startswith("as_strided") and not args[0].is_contiguous():
            raise Unknown("a view by strides of numbers that do not lie in order")
        several = list(found) if isinstance(found, list | tuple) else [found]
        tensors = [one for one in several if isinstance(one, Tensor)]
        if not tensors:
            return found  # a fact about the tensor, or a check: there are no data that it could depend on
        result = Result(tuple(one.dtype for one in tensors), tuple(tuple(one.shape) for one in tensors))
        own = {name: self.operand(one) for name, one in kwargs.items() if name != "device"}
        step = Step(func, [self.operand(one) for one in args], own, result)
        number = self._add(step)
        for part, one in enumerate(several):
            if isinstance(one, Tensor):
                self._keep(one, Slot(number, part if isinstance(found, list | tuple) else None))
        return found

    def _defined(self, func: Any, rule: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What an operator gives by others.

        Raises:
            Unknown: Its format is narrow, so that it would round what it is made of.
        """
        given = those([args, kwargs], Tensor)
        if name_of(func) not in COPYING and any(one.is_floating_point() and one.dtype.itemsize < 4 for one in given):
            raise Unknown(f"the operator {name_of(func)} in a narrow format")
        expected = _shaped(func, args, kwargs)
        with self:
            found = rule(*args, **kwargs)
            several = found if isinstance(found, list | tuple) else [found]
            own = [
                _converted(one, like, func)
                for one, like in zip(
                    several, expected if isinstance(expected, list | tuple) else [expected], strict=True
                )
            ]
        return own if isinstance(found, list | tuple) else own[0]

    def _complex(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What an operator gives on complex numbers, which are kept as torch's pairs of real and imaginary parts."""
        from torch._subclasses.complex_tensor._ops.common import COMPLEX_OPS_TABLE, lookup_complex

        rule = lookup_complex(func) or COMPLEX_OPS_TABLE.get(getattr(torch.ops.aten, name_of(func).removesuffix("_")))
        if rule is None:
            raise Unknown(f"the operator {name_of(func)} on complex numbers")
        with self:
            found = rule(*mapped(args, Tensor, self._parts), **mapped(kwargs, Tensor, self._parts))
        if any(type(one).__name__ == "ComplexTensor" for one in those([args, kwargs], Tensor)):
            return found
        expected = _shaped(func, args, kwargs)
        for one, own in zip(those([found], Tensor), those([expected], Tensor), strict=True):
            self._complexes[id(own)] = one
            self._kept.append(own)
        return expected if any(map(_is_complex, those([expected], Tensor))) else found

    def _parts(self, one: Tensor) -> Tensor:
        if not one.is_complex() or type(one).__name__ == "ComplexTensor":
            return one
        if id(one) not in self._complexes:
            from torch._subclasses.complex_tensor import ComplexTensor

            self._kept.append(one)
            with _disable_current_modes():
                self._complexes[id(one)] = ComplexTensor(_checked(one).real.clone(), _checked(one).imag.clone())
        return self._complexes[id(one)]

    def operand(self, one: Any) -> Any:
        """An operand of an operator, with slots for tensors."""
        if isinstance(one, list | tuple):
            return [self.operand(each) for each in one]
        if not isinstance(one, Tensor):
            if isinstance(one, torch.SymInt | torch.SymFloat | torch.SymBool):
                raise Unknown("a number that depends on data")
            return one
        if one.is_complex():
            raise Unknown("complex numbers")
        if id(one) not in self._slots:
            self._keep(one, Slot(self._add(one)))
        return self._slots[id(one)]

    def _add(self, step: Step | Tensor) -> int:
        self.steps.append(step)
        return self._inputs + len(self.steps) - 1

    def _keep(self, tensor: Tensor, slot: Slot) -> None:
        self._slots[id(tensor)] = slot
        self._kept.append(tensor)


_MAKE_COMPLEX = ("complex", "view_as_complex")
"""Operators that make complex numbers of real ones."""


def _is_complex(one: Any) -> bool:
    if isinstance(one, torch.dtype | Tensor):
        return one.is_complex if isinstance(one, torch.dtype) else one.is_complex()
    return isinstance(one, complex)


def _converted(one: Tensor, like: Tensor, func: Any) -> Tensor:
    """The result of a definition in the type that torch gives.

    Raises:
        Unknown: The definition is not of such types.
    """
    if one.dtype == like.dtype and one.shape == like.shape:
        return one
    if one.shape != like.shape or not (one.is_floating_point() and like.is_floating_point()):
        raise Unknown(f"the operator {func} for such types")
    return one.to(like.dtype)


def _asks(func: Any) -> bool:
    """Whether an operator gives no tensor."""
    return not any("Tensor" in str(one.type) for one in func._schema.returns)


def _shaped(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator gives on tensors without numbers, also of those that have some."""
    args, kwargs = (mapped(each, Tensor, lambda one: one.to("meta")) for each in (args, kwargs))
    made = {"device": "meta"} if any(one.name == "device" for one in func._schema.arguments) else {}
    return func(*args, **{**kwargs, **made})


def _checked(tensor: Tensor) -> Tensor:
    """A tensor that is no result of the code's operators, if it has numbers."""
    if tensor.is_meta:
        raise Unknown("a tensor that the code has captured")
    return tensor


def _needed(found: Trace) -> Trace:
    """The graph without operators that no output needs."""
    needed = {slot.number for slot in those(found.outputs, Slot)}
    kept: list[Step | Tensor | None] = []
    for number, step in reversed([*enumerate(found.steps, found.inputs)]):
        if number not in needed:
            kept.append(None)
            continue
        if isinstance(step, Step):
            needed |= {slot.number for slot in those([step.args, step.kwargs], Slot)}
        kept.append(_checked(step) if isinstance(step, Tensor) else step)
    return Trace(found.inputs, kept[::-1], found.outputs)
