"""Dims that are divided, as products: a proposer knows how to take a product apart, and how to put it together.

Where a type has `H/2`, `H` is read as twice a dim of its own; and where a function takes Buffers of `S` numbers that
no stream has, and `S` divides the dim `T` of an input, `T` as `S` times one. Programs are written with the quotients.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import sympy

from pipeline.lms.embedded.types.coercions import cut, factors
from step_runtime.base.shapes import Dim, as_dim
from step_runtime.base.types import Buffer, DType, Multihot, StreamType, STuple, components_of, layout
from step_runtime.primitives import Primitive, Repeat, Reshape
from step_runtime.program.graph import Program
from step_runtime.tasks.task import Task


class Divided(NamedTuple):
    """A task whose types divide no dims.

    Attributes:
        task: The task; its sizes also have those of the quotients.
        wholes: The products that dims are read as, by their names.
        quotients: What the dims of its own are in the task as it is written.
    """

    task: Task
    wholes: Mapping[str, Dim]
    quotients: Mapping[Dim, Dim]

    def written(self, program: Program) -> Program:
        """A program of this task as one of the task as it is written."""
        if not self.quotients:
            return program
        return replace(program, nodes=tuple(replace(node, op=self.op(node.op)) for node in program.nodes))

    def op(self, op: Primitive) -> Primitive:
        """A primitive of this task as one of the task as it is written."""
        match op:
            case Repeat(n=dim):
                return Repeat(as_dim(dim.subs(self.quotients)))
            case Reshape(L=places, S=dim):
                return Reshape(places, as_dim(dim.subs(self.quotients)))
        return op


def divided(task: Task) -> Divided:
    """The task with products for dims that are divided; the task itself where there are none."""
    divisors = _written(task) or _needed(task)
    wholes, quotients, sizes = dict[str, Dim](), dict[Dim, Dim](), dict[str, list[int]]()
    symbols, sets = task.symbols(), task.size_sets()
    for name, divisor in divisors.items():
        counts = [_count(own, name, divisor) for own in sets]
        if not all(counts) or divisors.keys() & {part.name for part in divisor.free_symbols}:
            continue
        part = sympy.Symbol(f"{name}_parts")
        wholes[name], quotients[part] = as_dim(divisor * part), as_dim(symbols[name] / divisor)
        sizes[part.name] = [count for count in counts if count]
    if not wholes or sizes.keys() & symbols.keys():
        return Divided(task, {}, {})
    products = {symbols[name]: whole for name, whole in wholes.items()}
    return Divided(_with(task, lambda dim: as_dim(dim.subs(products)), sizes), wholes, quotients)


def _count(sizes: Mapping[str, int], name: str, divisor: Dim) -> int | None:
    """How often a divisor goes into a dim at some sizes; None if there is a rest, or the sizes are not known."""
    if name not in sizes or any(symbol.name not in sizes for symbol in divisor.free_symbols):
        return None
    by = int(divisor.subs(dict(sizes)))
    return sizes[name] // by if by > 0 and sizes[name] % by == 0 else None


def _streams(task: Task) -> Iterator[StreamType]:
    yield from (*task.input_types, *task.parameter_types, *task.output_types)


def _written(task: Task) -> dict[str, Dim]:
    """What the types divide dims by; several numbers by their least common multiple."""
    found: dict[str, Dim] = {}
    dtypes = (*(stream.dtype for stream in _streams(task)), *chain.from_iterable(task.fn_types))
    inner = (dim for dtype in dtypes for part in components_of(dtype) for dim in layout(part))
    for dim in (*inner, *chain.from_iterable(stream.shape for stream in _streams(task))):
        if dim.is_Symbol or dim.is_Integer:
            continue
        whole, divisor = sympy.fraction(sympy.together(dim))
        if divisor == 1 or not isinstance(whole, sympy.Symbol):
            continue
        before = found.get(whole.name, divisor)
        both = before.is_Integer and divisor.is_Integer
        found[whole.name] = as_dim(math.lcm(int(before), int(divisor))) if both else as_dim(divisor)
    return found


def _needed(task: Task) -> dict[str, Dim]:
    """Dims of inputs by those of Buffers that functions take although no stream has them, where these divide them."""
    held = _with_factors(dim for stream in task.input_types for dim in (*stream.shape, *cut(stream.dtype)[1]))
    rest = [(_buffered(taken), _buffered(given)) for taken, given in task.fn_types]
    while served := [pair for pair in rest if pair[0] <= held and not pair[1] <= held]:
        held = _with_factors(held.union(*(given for _, given in served)))
    lacking = set().union(*(taken for taken, _ in rest)) - held
    if len(lacking) != 1:
        return {}
    (divisor,) = lacking
    sets = task.size_sets()
    names = {dim.name for stream in task.input_types for dim in stream.shape if isinstance(dim, sympy.Symbol)}
    return {
        name: divisor
        for name in sorted(names)
        if all(counts := [_count(sizes, name, divisor) for sizes in sets]) and max(filter(None, counts)) > 1
    }


def _with_factors(dims: Any) -> frozenset[Dim]:
    return frozenset(part for dim in dims for part in (dim, *factors(dim)))


def _buffered(dtype: DType) -> frozenset[Dim]:
    """The dims of a type's Buffers, other than 1."""
    return frozenset(dim for part in components_of(dtype) for dim in cut(part)[1] if dim != 1)


def _with(task: Task, change: Callable[[Dim], Dim], sizes: Mapping[str, list[int]]) -> Task:
    """A task with other dims in its types, and more sizes."""
    made = task.model_copy(update={"sizes": {**task.sizes, **sizes}})
    made._name = task.name

    def dtype(given: DType) -> DType:
        match given:
            case STuple(components=parts):
                return STuple(tuple(map(dtype, parts)))
            case Buffer(elem=elem, dims=dims):
                return Buffer(dtype(elem), tuple(map(change, dims)))
            case Multihot(name=name, length=length):
                return Multihot(name, change(length))
        return given

    for name in ("input_types", "parameter_types", "output_types"):
        streams = (StreamType(dtype(stream.dtype), tuple(map(change, stream.shape))) for stream in getattr(task, name))
        vars(made)[name] = tuple(streams)
    vars(made)["fn_types"] = tuple((dtype(taken), dtype(given)) for taken, given in task.fn_types)
    return made
