"""The cost of programs of a task: the cost model with the task's own functions and references."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from step_runtime.base.errors import Diagnostic, TaskError
from step_runtime.base.shapes import Sizes, format_dim, format_sizes, upper_bound
from step_runtime.base.types import StreamType
from step_runtime.base.units import UNITS, Figure, Measure
from step_runtime.cost.chip import DEFAULT_CHIP, Chip
from step_runtime.cost.model import Cost, estimate, in_bytes
from step_runtime.cost.operations import OperationCounter, operations_of
from step_runtime.language.parser import read
from step_runtime.program.graph import Node, Program
from step_runtime.program.limits import Limits
from step_runtime.program.printer import label
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_program
from step_runtime.verification.instance import TaskInstance


class Rejected(Exception):
    """A program has no cost, as it fails a check; `diagnostics` are the findings."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(diagnostics[0].message)
        self.diagnostics = tuple(diagnostics)


@dataclass(frozen=True)
class Bound:
    """The least cost of any program of a task; memory and queues have no such bound.

    Attributes:
        traffic: Bytes: every input and parameter is read once, and every output written once.
        operations: Operations of the references, to compare with; a program with better algebra may need fewer.
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
    """

    program: Program
    types: tuple[StreamType, ...]
    cost: Cost
    bound: Bound


def parameter_bits(task: Task, program: Program | None, sizes: Sizes, chip: Chip) -> int:
    """The bits of the parameters that a program's functions read, or, without a program, the task's references."""
    named = {fn.label for node in program.nodes for fn in node.op.functions()} if program else set[str]()
    code = "\n".join([
        *(fn.apply for fn in task.fns if fn.func_name in named),
        *(text for output in task.outputs if program is None for text in output.data_transform),
    ])  # fmt: skip
    words = {*re.findall(r"\w+", code)}
    measure = Measure(sizes, chip.scalar_bits)
    held = [stream for _, spec, stream in task.tensors() if spec in task.parameters and spec.name in words]
    return sum(measure.elements(stream) * measure.bits(stream.dtype) for stream in held)


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
        checked = check_program(read(text, limits), scope, limits, torch.float64.itemsize)
        if checked.found:
            raise Rejected(checked.found)
        # Conditions on sizes were for the check; they hold code, which is no data for other processes.
        return replace(checked.program, conditions=()), tuple(kind for kind in checked.types if kind is not None), scope

    def cost(self, program: Program, types: Sequence[StreamType], sizes: Sizes) -> Cost:
        """The cost of a checked program at the sizes that it was checked at."""
        instance, count = self._at(sizes)
        read = parameter_bits(self.task, program, instance.sizes, self.chip)
        operations = lambda fn: count(instance.fns[fn.label])  # noqa: E731
        cost = estimate(program, types, instance.sizes, operations, self.chip, parameters=read)
        return replace(cost, sizes=instance.own_sizes)

    def price(self, text: str, sizes: Sizes | None = None) -> Priced:
        """A program's cost.

        Raises:
            Rejected: The program fails a check.
        """
        sizes = self._sets[0] if sizes is None else sizes
        program, types, _ = self.check(text, sizes)
        return Priced(program, types, self.cost(program, types, sizes), self.bound(sizes))

    def bound(self, sizes: Sizes | None = None) -> Bound:
        """The least cost of any program."""
        instance, _ = self._at(self._sets[0] if sizes is None else sizes)
        measure = Measure(instance.sizes, self.chip.scalar_bits)
        streams = (*self.task.input_types, *self.task.output_types)
        bits = sum(measure.elements(stream) * measure.bits(stream.dtype) for stream in streams)
        bits += parameter_bits(self.task, None, instance.sizes, self.chip)
        instance.sample_inputs(0)
        operations = operations_of(instance.reference, self.chip.weights, torch.float64)
        ports = [
            measure.elements(stream) * self.chip.transfer(measure.bits(stream.dtype))
            for stream in self.task.input_types
        ]
        return Bound(in_bytes(bits), operations, max(self.chip.transfer(bits), *ports))

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
