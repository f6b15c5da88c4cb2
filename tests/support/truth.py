"""Whether a program implements its task, decided without the parser, the simulator or the verifier.

The text runs as Python, on streams that only note who consumes them: Python itself tells what aliases, rebinding
and comprehensions mean. What it noted is the graph, which is then run on tokens at many sizes and seeds. Types are
those that the check infers; the run on tokens holds every stream to them. Only texts made by `edits` and `aliases`
come here.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor

from step_runtime.base.errors import RunError
from step_runtime.execution.invocation import default_dtype
from step_runtime.primitives import PRIMITIVES, Primitive
from step_runtime.program.graph import Node, Program
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import Types, infer_types
from step_runtime.verification.instance import TaskInstance, instances
from tests.support.tokens import Value, run_tokens

MANY_SIZES = {"M": [4, 6, 5, 7], "N": [3, 2, 5, 4], "K": [2, 5, 3, 6], "D": [6, 4, 2, 8]}
"""Four sets that suit every task of the benchmark: D is even, and there are tokens enough for a top 3."""
Inputs: TypeAlias = Mapping[str, Value]
SEEDS = (11, 12, 13, 14, 15)


def at_many_sizes(task: Task) -> Task:
    """The task at other sizes than it is verified at; sizes that it alone knows stay, and all if it lists sets."""
    if any(isinstance(size, list) for size in task.sizes.values()):
        return task
    return task.model_copy(update={"sizes": task.sizes | MANY_SIZES})


def close(found: Tensor, right: Tensor) -> bool:
    """Equal but for rounding in float64; NaN equals NaN."""
    return found.shape == right.shape and torch.allclose(found, right, rtol=1e-7, atol=1e-9, equal_nan=True)


def computes(program: Program, types: Types, place: TaskInstance, data: Inputs, reference: Sequence[Value]) -> bool:
    """Whether a run on tokens gives the reference outputs for the data that `place` drew last."""
    with default_dtype(torch.float64):
        try:
            outputs = run_tokens(program, types, data, place.sizes)
        except RunError:
            return False
    return len(outputs) == len(reference) and all(map(_all_close, outputs, reference))


def _all_close(output: Value, expected: Value) -> bool:
    return len(output) == len(expected) and all(map(close, output, expected))


# --- a text as Python ---


@dataclass(frozen=True)
class Noted:
    """A stream while a text runs."""

    number: int


@dataclass
class Notes:
    """The graph of a text, noted by running it in a scope."""

    scope: Scope
    nodes: list[Node] = field(default_factory=list)
    uses: Counter[int] = field(default_factory=Counter)
    streams: int = 0

    def __getattr__(self, name: str) -> Any:
        """`step.NAME` of the running text: what it makes has an `apply` that notes a node."""
        kind = PRIMITIVES[name]
        return lambda *values, **config: Applied(self, kind(*values, **config))

    def new(self) -> Noted:
        """A stream of its own."""
        self.streams += 1
        return Noted(self.streams - 1)


@dataclass(frozen=True)
class Applied:
    """A configured primitive of a running text."""

    notes: Notes
    op: Primitive

    def apply(self, argument: Any) -> Any:
        """Notes the node and every use of a stream; gives the new streams."""
        inputs = tuple(_flat(argument))
        self.notes.uses.update(inputs)
        count = self.op.output_count(self.notes.scope.sizes)
        streams = [self.notes.new() for _ in range(1 if count is None else count)]
        self.notes.nodes.append(Node(self.op, inputs, tuple(stream.number for stream in streams)))
        return streams[0] if count is None else streams


def _flat(argument: Any) -> Iterator[int]:
    if isinstance(argument, Noted):
        yield argument.number
    else:
        for part in argument:
            yield from _flat(part)


def run_text(text: str, scope: Scope) -> tuple[Program, Counter[int]]:
    """The graph of a program's text, and how often each stream is consumed, as Python understands the text.

    Raises:
        Exception: whatever Python or a primitive's configuration has against it.
    """
    notes = Notes(scope)
    streams = {name: notes.new() for name in scope.inputs}
    sizes = {f"{name}_value": size for name, size in scope.sizes.items()}
    names: dict[str, Any] = {"step": notes, **scope.lists, **scope.fns, **scope.dims, **sizes}
    body = f"def body({', '.join(streams)}):\n" + "".join(f" {line}\n" for line in text.splitlines())
    # `edits` or `aliases` wrote this text; what others write is parsed and never comes here.
    exec(body, names)
    returned = tuple(_flat(names["body"](*streams.values())))
    return Program(tuple(scope.inputs), tuple(notes.nodes), returned), notes.uses


# --- the verdict ---


@dataclass
class Truth:
    """Decides about programs of one task, at many sizes and seeds."""

    task: Task
    seeds: Sequence[int] = SEEDS
    _known: dict[tuple[int, Program], bool] = field(default_factory=dict)
    _references: dict[tuple[int, int], list[Value]] = field(default_factory=dict)

    @cached_property
    def places(self) -> list[TaskInstance]:
        """The task at every set of sizes."""
        return instances(at_many_sizes(self.task))

    def fault(self, text: str) -> str | None:
        """What is wrong with a program: `text`, `affine`, `type` or `value`; None for a right one."""
        programs = []
        for place in self.places:
            try:
                program, uses = run_text(text, place.scope)
            except Exception:
                return "text"
            types, found = infer_types(program, place.scope)
            if found or [types[stream] for stream in program.results] != list(place.scope.outputs):
                return "type"
            if uses and max(uses.values()) > 1:
                return "affine"
            programs.append(program)
        return None if all(map(self._computes, programs, self.places)) else "value"

    def _computes(self, program: Program, place: TaskInstance) -> bool:
        """Whether it computes the reference at a set of sizes, at every seed."""
        program = without_passing_on(program)
        key = (id(place), program)
        if key not in self._known:
            types, _ = infer_types(program, place.scope)
            self._known[key] = all(self._computes_at(program, types, place, seed) for seed in self.seeds)
        return self._known[key]

    def _computes_at(self, program: Program, types: Types, place: TaskInstance, seed: int) -> bool:
        data = place.sample_inputs(seed)
        if (id(place), seed) not in self._references:
            self._references[id(place), seed] = place.reference()
        return computes(program, types, place, data, self._references[id(place), seed])


def without_passing_on(program: Program) -> Program:
    """The graph without Copy and Identity, which pass tokens on as they are, so that mutants share runs."""
    number = {stream: stream for stream in range(len(program.inputs))}
    nodes = []
    streams = len(number)
    for node in program.nodes:
        inputs = tuple(number[stream] for stream in node.inputs)
        if node.op.transparent:
            number |= dict.fromkeys(node.outputs, inputs[0])
            continue
        outputs = tuple(range(streams, streams + len(node.outputs)))
        streams += len(outputs)
        number |= dict(zip(node.outputs, outputs, strict=True))
        nodes.append(Node(node.op, inputs, outputs))
    return Program(program.inputs, tuple(nodes), tuple(number[stream] for stream in program.results))
