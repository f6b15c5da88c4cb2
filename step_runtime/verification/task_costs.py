"""The cost of programs of a task: the cost model with the task's own functions and references.

As polynomials in the dims, what follows from the types alone (elements, traffic, what primitives hold) is computed in
sympy by the same rules that give the numbers. Other figures are fitted: a polynomial of degree 2 at most in each dim is
found through exact values, and is given only if it holds at other sizes too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import product
from typing import TypeAlias

import sympy
import torch

from step_runtime.base.errors import Diagnostic, RuleError, TaskError
from step_runtime.base.shapes import Dim, Sizes, format_dim, format_sizes, upper_bound
from step_runtime.base.types import StreamType
from step_runtime.base.units import UNITS, Figure, measure_at, symbolic_measure
from step_runtime.cost.chip import DEFAULT_CHIP, Chip
from step_runtime.cost.model import Cost, estimate, in_bytes, off_chip_streams
from step_runtime.cost.operations import OperationCounter, operations_of
from step_runtime.language.parser import read
from step_runtime.program.graph import Node, Program
from step_runtime.program.limits import Limits
from step_runtime.program.printer import label
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import Task, declared_shapes
from step_runtime.verification.check import check_program
from step_runtime.verification.instance import TaskInstance

Values: TypeAlias = Mapping[str, float]
"""Figures by name, at some sizes."""
Orders: TypeAlias = tuple[int, ...]
"""The order of a difference in each dim."""

MAX_DEGREE = 2
"""Of a fitted polynomial, in each dim."""
_MIXTURES = 12
"""Random sizes at which a fitted polynomial must hold. A maximum of two failed at an eighth of them or more."""


@dataclass(frozen=True)
class TypeFormulas:
    """The figures that follow from a program's types, without spills.

    The elements of each stream, the bytes between chip and memory, and those that each primitive holds, queues aside.
    """

    elements: tuple[Dim, ...]
    traffic: Dim
    memory: tuple[Dim, ...]


def type_formulas(program: Program, types: Sequence[StreamType], chip: Chip) -> TypeFormulas:
    """The polynomials that a program's types give."""
    measure = symbolic_measure(chip.scalar_bits)
    held = [
        node.op.memory([types[i] for i in node.inputs], [types[i] for i in node.outputs], measure)
        for node in program.nodes
    ]
    moved = [types[i] for i in off_chip_streams(program)]
    traffic = sum(measure.elements(stream) * measure.bits(stream.dtype) for stream in moved)
    return TypeFormulas(
        tuple(sympy.expand(measure.elements(stream)) for stream in types),
        sympy.expand(sympy.sympify(traffic) / 8),
        tuple(sympy.expand(sympy.sympify(bits) / 8) for bits in held),
    )


def fitted(
    figures: Callable[[Sizes], Values | None], base: Sizes, symbols: Sequence[str], checks: Sequence[Sizes]
) -> dict[str, Dim | None]:
    """The figures as polynomials in the dims, by Newton's forward differences at small multiples of the base.

    A difference is computed only if no difference of lower order that it contains is 0. Costs are sums of products of a
    few dims, so most combinations of dims are skipped.

    Args:
        figures: The figures at some sizes, or None at sizes that the program is not made for.
        base: Sizes that it is made for.
        symbols: The dims to vary. One that can't be varied alone is a constant of the program.
        checks: Other sizes at which the polynomials must hold.

    Returns:
        A polynomial for each figure; None where there is none of degree 2 or less in each dim, or where it is not known
        to hold at sizes that it was not fitted to.
    """

    @cache
    def at(orders: Orders) -> Values | None:
        return figures({**base, **{name: base[name] * (1 + n) for name, n in zip(symbols, orders, strict=True)}})

    nowhere = (0,) * len(symbols)
    start = at(nowhere)
    if start is None:
        return {}
    lines = {name: [_raised(nowhere, place, n) for n in range(1, MAX_DEGREE + 2)] for place, name in enumerate(symbols)}
    free = [name for name, line in lines.items() if all(at(orders) is not None for orders in line)]
    places = [symbols.index(name) for name in free]
    found: dict[str, Dim | None] = {}
    for figure in start:
        differences = _differences(at, figure, nowhere, places)
        found[figure] = None if differences is None else _newton(differences, base, symbols)
    further = [{**base, **{name: factor * base[name] for name, factor in own.items()}} for own in _mixtures(free)]
    return _confirmed(found, figures, [*further, *checks])


def _mixtures(names: Sequence[str]) -> list[dict[str, int]]:
    """Further factors of sizes, at which a polynomial that fits only one side of a maximum fails."""
    most = MAX_DEGREE + 2
    drawn = random.Random(0)
    mixed = [{name: drawn.randint(1, most) for name in names} for _ in range(_MIXTURES)]
    return [dict.fromkeys(names, MAX_DEGREE + 1), *({name: most} for name in names), *mixed]


def _raised(orders: Orders, place: int, by: int = 1) -> Orders:
    return (*orders[:place], orders[place] + by, *orders[place + 1 :])


def _differences(
    at: Callable[[Orders], Values | None], figure: str, nowhere: Orders, places: Sequence[int]
) -> dict[Orders, Fraction] | None:
    """A figure's differences that are not 0; None if one is of too high an order, or takes sizes without a value."""
    found = {nowhere: Fraction(0)}
    waiting = [nowhere]
    for orders in waiting:
        values = at(orders)
        if values is None:
            return None
        below = product(*(range(order + 1) for order in orders))
        own = Fraction(values[figure]) - sum(
            found.get(other, 0) * math.prod(map(math.comb, orders, other)) for other in below if other != orders
        )
        if own and max(orders) > MAX_DEGREE:
            return None
        found[orders] = own
        for place in places if own or orders == nowhere else ():
            further = _raised(orders, place)
            lower = [_raised(further, each, -1) for each in places if further[each]]
            if further not in waiting and all(found.get(each) or each == nowhere for each in lower):
                waiting.append(further)
    return {orders: own for orders, own in found.items() if own}


def _newton(differences: Mapping[Orders, Fraction], base: Sizes, symbols: Sequence[str]) -> Dim:
    """The polynomial of differences at multiples of the base."""
    total: Dim = sympy.Integer(0)
    for orders, difference in differences.items():
        term: Dim = sympy.Rational(difference.numerator, difference.denominator)
        for name, order in zip(symbols, orders, strict=True):
            steps = sympy.Symbol(name) / base[name] - 1
            term *= sympy.prod((steps - n) / sympy.Integer(n + 1) for n in range(order))
        total += term
    return sympy.expand(total)


def _confirmed(
    found: Mapping[str, Dim | None], figures: Callable[[Sizes], Values | None], checks: Sequence[Sizes]
) -> dict[str, Dim | None]:
    """The polynomials that hold at all further sizes for which the program is made, of which there must be one."""
    confirmed = dict.fromkeys(found, 0)
    for sizes in checks:
        values = figures(sizes)
        for name, formula in found.items():
            if values is not None and formula is not None:
                holds = formula.subs({dim: sizes[dim.name] for dim in formula.free_symbols}) == sympy.nsimplify(
                    values[name], rational=True
                )
                confirmed[name] = confirmed[name] + 1 if holds and confirmed[name] >= 0 else -1
    return {name: formula if confirmed[name] > 0 else None for name, formula in found.items()}


class Rejected(Exception):
    """A program has no cost, as it fails a check; `diagnostics` are the findings."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(diagnostics[0].message)
        self.diagnostics = tuple(diagnostics)


@dataclass(frozen=True)
class Bound:
    """The least cost of any program of a task; memory and queues have no such bound.

    Attributes:
        traffic: Bytes: every input is read once, and every output written once.
        operations: Operations of the references; a program with better algebra may need fewer.
        time: Cycles that the traffic takes, or the longest input to arrive.
    """

    traffic: float
    operations: int
    time: int


@dataclass(frozen=True)
class Priced:
    """A program with its cost.

    Attributes:
        bound: What any program of the task costs there.
        formulas: The figures as polynomials in the dims; None for one that is none.
        by_type: The polynomials that follow from the types.
    """

    program: Program
    types: tuple[StreamType, ...]
    cost: Cost
    bound: Bound
    formulas: Mapping[str, Dim | None]
    by_type: TypeFormulas


class TaskCosts:
    """Costs of programs of one task on one chip; the task's code is compiled once for each set of sizes.

    Raises:
        TaskError: The task cannot be used; from the methods, too.
    """

    def __init__(self, task: Task, chip: Chip = DEFAULT_CHIP) -> None:
        self.task = task
        self.chip = chip
        self._known: dict[tuple[tuple[str, int], ...], tuple[TaskInstance, OperationCounter]] = {}
        self._sets = [self._at(sizes)[0].sizes for sizes in task.size_sets()]

    def sizes(self, changes: Sizes) -> dict[str, int]:
        """The task's first set of sizes with some changed.

        Raises:
            TaskError: The task has no such dim, or its `global` sets it.
        """
        sizes = {**self._sets[0], **changes}
        unknown = sorted(changes.keys() - self._sets[0].keys())
        if unknown:
            raise TaskError(f"{self.task.name}: no dim {unknown[0]}; expected one of {', '.join(self._sets[0])}")
        found = self._at(sizes)[0].sizes
        fixed = [name for name in changes if found[name] != changes[name]]
        if fixed:
            raise TaskError(f"{self.task.name}: the task's `global` sets {fixed[0]} to {found[fixed[0]]}")
        return sizes

    def check(self, text: str, sizes: Sizes) -> tuple[Program, tuple[StreamType, ...], Scope]:
        """A program checked at some sizes, with functions that are only declared.

        Raises:
            Rejected: It fails a check.
        """
        scope = self._at(sizes)[0].scope.without_code()
        limits = Limits()
        program, types, found = check_program(read(text, limits), scope, limits, torch.float64.itemsize)
        if found:
            raise Rejected(found)
        return program, tuple(kind for kind in types if kind is not None), scope

    def cost(self, program: Program, types: Sequence[StreamType], sizes: Sizes) -> Cost:
        """The cost of a checked program at the sizes that it was checked at."""
        instance, count = self._at(sizes)
        cost = estimate(program, types, instance.sizes, lambda fn: count(instance.fns[fn.label]), self.chip)
        return replace(cost, sizes=instance.own_sizes)

    def price(self, text: str, sizes: Sizes | None = None, *, formulas: bool = True) -> Priced:
        """A program's cost, with polynomials if they are asked for, which takes up to a few seconds.

        Raises:
            Rejected: The program fails a check.
        """
        sizes = self._sets[0] if sizes is None else sizes
        program, types, _ = self.check(text, sizes)
        cost = self.cost(program, types, sizes)
        found: Mapping[str, Dim | None] = {}
        if formulas:
            declared = (dim.value for dims in declared_shapes(self.task) for dim in dims)
            symbols = sorted({symbol.name for dim in declared for symbol in dim.free_symbols})
            others = [each for each in self._sets if each != sizes]
            found = fitted(partial(self._figures, text), sizes, symbols, others)
        by_type = type_formulas(program, types, self.chip)
        return Priced(program, types, cost, self.bound(sizes), found, by_type)

    def bound(self, sizes: Sizes | None = None) -> Bound:
        """The least cost of any program."""
        instance, _ = self._at(self._sets[0] if sizes is None else sizes)
        measure = measure_at(instance.sizes, self.chip.scalar_bits)
        streams = (*self.task.input_types, *self.task.output_types)
        bits = sum(measure.elements(stream) * measure.bits(stream.dtype) for stream in streams)
        instance.sample_inputs(0)
        operations = operations_of(instance.reference, self.chip.weights, torch.float64)
        ports = [
            measure.elements(stream) * self.chip.transfer(measure.bits(stream.dtype))
            for stream in self.task.input_types
        ]
        return Bound(in_bytes(bits), operations, max(self.chip.transfer(bits), *ports))

    def _figures(self, text: str, sizes: Sizes) -> Values | None:
        """The figures at other sizes; None where the task or the program is not made for them."""
        try:
            instance, _ = self._at(sizes)
            if instance.sizes != {**instance.sizes, **sizes}:
                return None
            program, types, _ = self.check(text, sizes)
            return {str(name): value for name, value in self.cost(program, types, sizes).figures().items()}
        except (RuleError, TaskError, Rejected):
            return None

    def _at(self, sizes: Sizes) -> tuple[TaskInstance, OperationCounter]:
        key = tuple(sizes.items())
        if key not in self._known:
            instance = TaskInstance(self.task, sizes)
            instance.sample_inputs(0)
            self._known[key] = instance, OperationCounter(instance.sizes, self.chip.weights)
        return self._known[key]


_HINTS: dict[Figure, str] = {
    "memory": "hold less at a time: fold elements as they come, and let no stream wait for another",
    "traffic": "read every input once, and return no more than the outputs",
    "operations": "compute repeated values once, before they are repeated",
    "time": "let functions work on streams at the same time, and reduce before the slow ones",
    "queue": "make both ways of a copied stream equally long, e.g. combine after the reduction and not before",
}


def over_limits(task: Task, program: Program, cost: Cost) -> list[Diagnostic]:
    """A finding for each limit of the task that a program exceeds, at the primitive that costs most."""
    found = []
    for figure, limit in task.cost_limits.items():
        most, value = upper_bound(limit, cost.sizes), cost.figure(figure)
        if value <= most:
            continue
        written = format_dim(limit) if limit != 0 else "0"
        shown = f"{most:,}" if written in (f"{most}", "0") else f"{written} = {most:,}"
        message = f"the program's {figure} is {value:,} {UNITS[figure]}; the task's limit is {shown}"
        node, why = _costliest(figure, program, cost)
        names = sorted(symbol.name for symbol in limit.free_symbols)
        where = [f"at {format_sizes({name: cost.sizes[name] for name in names or cost.sizes})}"]
        bounded = ["dims that depend on the data count as their upper bounds"] if cost.bounded else []
        span = program.result_span if node is None else node.span
        details = (*([why] if why else []), *where, *bounded)
        found.append(Diagnostic("cost", f"cost-{figure}", message, span, details, _HINTS[figure]))
    return found


def _costliest(figure: Figure, program: Program, cost: Cost) -> tuple[Node | None, str]:
    """The primitive that costs most, and what it costs; None where no single one does."""
    candidates: list[tuple[float, int, str]] = []
    for number, spent in enumerate(cost.nodes):
        name = label(program.nodes[number].op)
        if figure == "memory":
            candidates.append((spent.memory, number, f"{name} holds {spent.memory / 8:,.10g} bytes"))
        elif figure == "operations":
            candidates.append((spent.operations, number, f"{name} takes {spent.operations:,} operations"))
        elif figure == "time" and cost.path:
            candidates.append((spent.added, number, f"{name} adds {spent.added:,} cycles to the critical path"))
    for queue in cost.queues if figure in ("memory", "queue") else ():
        name = label(program.nodes[queue.node].op)
        waits = f"operand {queue.operand} of {name} waits in a queue of {queue.length:,} elements"
        amount = queue.bits if figure == "memory" else queue.length
        candidates.append((amount, queue.node, f"{waits}, {queue.bits / 8:,.10g} bytes"))
    most, number, why = max(candidates, default=(0, 0, ""), key=lambda candidate: candidate[0])
    return (program.nodes[number], why) if most else (None, "")
