"""Precedents: solved tasks as evidence about another one, whatever their functions, streams and dims are called.

A fingerprint is what a function does, independent of names: every operation, and every operation with the origins of
its arguments. Locals are replaced by their values, weights and sizes by their kind, so that renaming changes nothing.
Fingerprints are compared by the features that they share and by their types without dims; nothing is run or evaluated.

A solved program is read as a plan. Each of its steps is a production of the grammar: a function, the form in which its
operands meet and are folded, and what made the operands. How much a precedent counts is its relevance: by the functions
that two tasks share, by the operations of their references, and by their streams.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from pipeline.synthesis.type_space import dims_of, factors, without_ones
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import Buffer, DType, Multihot, StreamType, STuple
from step_runtime.language.parser import parse
from step_runtime.primitives import Accum, Map, Merge, Partition, RepeatRef, Scan
from step_runtime.program.graph import Program, StreamId
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import infer_types

_OTHER_TYPES = 0.8
"""Similarity of functions with the same code and number of arguments but other types,"""
_OTHER_ARITY = 0.4
"""and of those with other numbers of arguments."""
_COMMUTES = frozenset(("Add", "Mult", "maximum", "minimum"))
_MODULES = frozenset(("torch", "F", "nn", "functional", "math"))


@dataclass(frozen=True)
class Fingerprint:
    """What a function does (`features`), and its types without dims."""

    features: frozenset[str]
    inputs: tuple[str, ...]
    output: str
    stateful: bool


@lru_cache(maxsize=1 << 16)
def similarity(one: Fingerprint, other: Fingerprint) -> float:
    """The similarity of two functions, in [0, 1]; 1 where only names differ."""
    if one.stateful != other.stateful:
        return 0.0
    code = jaccard(one.features, other.features)
    if (one.inputs, one.output) == (other.inputs, other.output):
        return code
    return code * (_OTHER_TYPES if len(one.inputs) == len(other.inputs) else _OTHER_ARITY)


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The Jaccard similarity of two sets; 1 for empty ones."""
    union = len(one | other)
    return len(one & other) / union if union else 1.0


def fingerprints_of(task: Task, fns: Mapping[str, Fn]) -> dict[str, Fingerprint]:
    """The fingerprints of a task's functions, by label."""
    found = {}
    for spec in task.fns:
        fn = fns[spec.func_name]
        init = () if spec.init is None else (f"from {[float(value) for value in spec.init]}",)
        inputs = tuple(kind_of(part) for part in getattr(fn.input, "components", (fn.input,)))
        features = features_of(spec.apply).union(init)
        found[fn.label] = Fingerprint(features, inputs, kind_of(fn.output), spec.init is not None)
    return found


def kind_of(dtype: DType) -> str:
    """A type without its dims."""
    if isinstance(dtype, STuple):
        return f"[{','.join(kind_of(part) for part in dtype.components)}]"
    if isinstance(dtype, Buffer):
        return f"{kind_of(dtype.elem)}{len(dtype.dims)}"
    return "m" if isinstance(dtype, Multihot) else "s"


@lru_cache(maxsize=4096)
def features_of(code: str) -> frozenset[str]:
    """The features of a snippet; only its text if it is not Python."""
    try:
        statements = parse_python(textwrap.dedent(code)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset((code,))
    reader = _Reader()
    for statement in statements:
        reader.read(statement)
    return frozenset(reader.features)


def commutes(code: str) -> bool:
    """Whether a snippet does no more than to apply an operation to its two inputs whose order does not matter."""
    return any(features_of(code) == {name, f"{name}(input0, input1)", f"out0({name})"} for name in _COMMUTES)


class _Reader:
    """Walks one snippet; `features` are those found."""

    def __init__(self) -> None:
        self.features: set[str] = set()
        self._names: dict[str, str] = {}

    def read(self, statement: ast.stmt) -> None:
        """Processes one statement."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._names[name] = self._head(value)
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=ast.Tuple(elts=values)) if len(parts) == len(values):
                for part, value in zip(parts, values, strict=True):
                    self._bind(part, self._head(value))
            case ast.Assign(targets=[ast.Tuple(elts=parts)], value=value):
                whole = self._head(value)
                for place, part in enumerate(parts):
                    self._bind(part, f"{whole}{place}")
            case ast.Return(value=ast.List(elts=parts)):
                self.features.update(f"out{place}({self._head(part)})" for place, part in enumerate(parts))
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value):
                self.features.add(f"out({self._head(value)})")
            case _:
                self.features.add(type(statement).__name__)

    def _bind(self, target: ast.expr, head: str) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = head

    def _head(self, node: ast.expr) -> str:
        """The origin of an expression: an operation, an argument, a weight, a size, or a number."""
        match node:
            case ast.Constant(value=value):
                return repr(value)
            case ast.Name(id=name):
                return self._names.get(name, "size" if name.endswith("_value") else name)
            case ast.Subscript(value=ast.Name(id="input_data")):
                return "data"
            case ast.Subscript(value=ast.Name(id="input" | "state" as name), slice=ast.Constant(value=int(place))):
                return f"{name}{place}"
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(type(op).__name__, [left, right])
            case ast.Attribute(value=whole, attr=name):
                return name if _is_module(whole) else self._operation(name, [whole])
        parts = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
        return self._operation(type(node).__name__, parts)

    def _call(self, node: ast.Call) -> str:
        """A function's name, and that of a method, whose receiver is its first argument."""
        match node.func:
            case ast.Attribute(value=receiver, attr=name):
                return self._operation(name, [*([] if _is_module(receiver) else [receiver]), *node.args])
        return self._operation(self._head(node.func), node.args)

    def _operation(self, name: str, arguments: list[ast.expr]) -> str:
        heads = [self._head(argument) for argument in arguments]
        if name in _COMMUTES:
            heads.sort()
        self.features |= {name, f"{name}({', '.join(heads)})"}
        return name


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in _MODULES


ValueId = int
"""Values are numbered: first the inputs, then the steps' results in order."""


@dataclass(frozen=True)
class Step:
    """A function, or a routing, applied to earlier values.

    Attributes:
        kind: The primitive that applies it.
        fns: The function; of a routing the branches (None: unchanged) in the order of bits, then the one that merges.
        sources: Its operands; of a routing the index last.
        shape: The stream shape at which the operands meet, innermost first; empty: whichever is cheapest.
        folded: Of `Accum` and `Scan` the number of inner dims that they fold.
    """

    kind: type[Map | Accum | Scan | Merge]
    fns: tuple[Fn | None, ...]
    sources: tuple[ValueId, ...]
    shape: tuple[Dim, ...] = ()
    folded: int = 0

    @property
    def fn(self) -> Fn:
        """The function, or the one that merges."""
        last = self.fns[-1]
        if last is None:
            raise ValueError("a step applies a function")
        return last


@dataclass(frozen=True)
class Plan:
    """Steps in order, and the values that are the outputs."""

    steps: tuple[Step, ...]
    results: tuple[ValueId, ...]
    inputs: int


class NotAPlan(Exception):
    """A program has parts that a plan cannot describe."""


def plan_of(program: Program, scope: Scope) -> tuple[Plan, list[StreamType | None]]:
    """The plan that a program follows, and the types of its values; those may be wrong.

    Raises:
        NotAPlan: A routing has branches that are more than one function each, or a stream is missing.
    """
    reader = _PlanReader(program, scope)
    return reader.plan(), reader.value_types


class _PlanReader:
    """Reads a plan from a program."""

    def __init__(self, program: Program, scope: Scope) -> None:
        self._program = program
        self._types = infer_types(program, scope)[0]
        self._inputs = len(program.inputs)
        self.value_types: list[StreamType | None] = [self._types[stream] for stream in range(self._inputs)]
        self._steps: list[Step] = []
        self._origins: dict[StreamId, tuple[ValueId, ...]] = {i: (i,) for i in range(self._inputs)}
        self._pieces: dict[StreamId, tuple[int, int, Fn | None]] = {}
        self._partitions: list[tuple[tuple[ValueId, ...], tuple[Dim, ...]]] = []

    def plan(self) -> Plan:
        """The plan."""
        for node in self._program.nodes:
            op = node.op
            if isinstance(op, Partition):
                self._partition(node.inputs, node.outputs)
            elif isinstance(op, Merge):
                self._merge(op, node.inputs, node.outputs[0])
            elif isinstance(op, Map) and any(stream in self._pieces for stream in node.inputs):
                number, bit, fn = self._piece(node.inputs[0])
                if fn is not None:
                    raise NotAPlan("a branch of two functions")
                self._pieces[node.outputs[0]] = number, bit, op.fn
            elif isinstance(op, Map | Accum | Scan):
                shape = self._shape_of(node.inputs[0])
                folded = 0 if isinstance(op, Map) else op.b
                self._add(Step(type(op), (op.fn,), self._all(node.inputs), shape, folded), node.outputs[0])
            else:
                self._structural(op, node.inputs, node.outputs)
        results = [self._all((stream,)) for stream in self._program.results]
        if any(len(result) != 1 for result in results):
            raise NotAPlan("an output of several streams")
        return Plan(tuple(self._steps), tuple(result[0] for result in results), self._inputs)

    def _structural(self, op: object, inputs: Sequence[StreamId], outputs: Sequence[StreamId]) -> None:
        taken = inputs[:1] if isinstance(op, RepeatRef) else inputs
        if any(stream in self._pieces for stream in taken):
            if len(taken) > 1:
                raise NotAPlan("branches of several streams")
            self._pieces |= dict.fromkeys(outputs, self._pieces[taken[0]])
            return
        origins = self._all(taken)
        self._origins |= dict.fromkeys(outputs, origins)

    def _partition(self, inputs: Sequence[StreamId], outputs: Sequence[StreamId]) -> None:
        data, index = self._all(inputs[:1]), self._all(inputs[1:])
        self._partitions.append(((*data, *index), self._shape_of(inputs[0])))
        for bit, stream in enumerate(outputs):
            self._pieces[stream] = len(self._partitions) - 1, bit, None

    def _merge(self, op: Merge, inputs: Sequence[StreamId], output: StreamId) -> None:
        pieces = [self._piece(stream) for stream in inputs[:-1]]
        numbers = {number for number, _, _ in pieces}
        if len(numbers) != 1 or [bit for _, bit, _ in pieces] != list(range(len(pieces))):
            raise NotAPlan("a Merge of other streams than one Partition's")
        sources, shape = self._partitions[numbers.pop()]
        fns = (*(fn for _, _, fn in pieces), op.fn)
        self._add(Step(Merge, fns, sources, shape), output)

    def _piece(self, stream: StreamId) -> tuple[int, int, Fn | None]:
        if stream not in self._pieces:
            raise NotAPlan("a branch that is no piece of a Partition")
        return self._pieces[stream]

    def _add(self, step: Step, output: StreamId) -> None:
        self._steps.append(step)
        self.value_types.append(self._types[output])
        self._origins[output] = (self._inputs + len(self._steps) - 1,)

    def _all(self, streams: Sequence[StreamId]) -> tuple[ValueId, ...]:
        found: list[ValueId] = []
        for stream in streams:
            if stream not in self._origins:
                raise NotAPlan("a piece of a Partition outside its Merge")
            found += self._origins[stream]
        return tuple(found)

    def _shape_of(self, stream: StreamId) -> tuple[Dim, ...]:
        type_ = self._types[stream]
        return () if type_ is None else type_.shape


Maker: TypeAlias = Fingerprint | tuple[str, ...]
"""What made a stream: a function, by its fingerprint; of an input, its elements' kind and its rank."""

_KINDS_ALIKE = 0.5
"""How alike two inputs of other kinds or ranks are."""
_FUNCTIONS, _REFERENCES, _STREAMS = 0.6, 0.25, 0.15
"""Shares of functions, references' operations and streams in the relevance of a task to another."""


class Form(NamedTuple):
    """How streams meet and are folded, whatever their dims are called and however many there are.

    Attributes:
        folded: The number of dims that are folded.
        columns: For each dim of the common shape, innermost first, which operands have it; equal neighbors are one.
    """

    folded: int
    columns: tuple[tuple[bool, ...], ...]


def form_of(shape: Sequence[Dim], folded: int, sources: Sequence[StreamType]) -> Form:
    """The form in which sources meet in a shape whose innermost dims are folded; dims of 1 do not count."""
    own = [{part for dim in dims_of(source) for part in (dim, *factors(dim))} for source in sources]
    columns = (
        tuple(dim in dims or (bool(factors(dim)) and dims.issuperset(factors(dim))) for dims in own)
        for dim in without_ones(shape)
    )
    return Form(len(without_ones(shape[:folded])), tuple(column for column, _ in itertools.groupby(columns)))


class Production(NamedTuple):
    """A step of a solved program, without names.

    Attributes:
        kind: The primitive that applies the function; Merge for a routing.
        fingerprint: Of the function, or of the one that merges.
        form: How the operands meet.
        makers: What made each operand.
        again: Whether an earlier step applies the same function.
        reused: Of each operand whether an earlier step takes it.
        order: Of a routing the places of the branches' functions in the task's list, -1 for none.
    """

    kind: type[Map | Accum | Scan | Merge]
    fingerprint: Fingerprint
    form: Form
    makers: tuple[Maker, ...]
    again: bool
    reused: tuple[bool, ...]
    order: tuple[int, ...] = ()


class Profile(NamedTuple):
    """The features by which tasks are compared."""

    fingerprints: tuple[Fingerprint, ...]
    streams: frozenset[str]
    operations: frozenset[str]

    @classmethod
    def of(cls, task: Task, scope: Scope, fingerprints: Sequence[Fingerprint]) -> Profile:
        """A task's profile."""
        streams = [f"in {kind_of(s.dtype)} {len(s.shape)}" for s in scope.inputs.values()]
        streams += [f"out {kind_of(s.dtype)} {len(s.shape)}" for s in scope.outputs]
        operations = {name for spec in task.outputs for code in spec.data_transform for name in features_of(code)}
        return cls(tuple(fingerprints), frozenset(streams), frozenset(name for name in operations if "(" not in name))


@lru_cache(maxsize=1024)
def profile_of(task: Task) -> Profile:
    """A task's profile."""
    scope = static_scope(task)
    return Profile.of(task, scope, [*fingerprints_of(task, scope.fns).values()])


@dataclass(frozen=True, eq=False)
class Precedent:
    """A solved task: its plan, with the type of each value, its productions and its profile."""

    task: Task
    scope: Scope
    plan: Plan
    fingerprints: dict[str, Fingerprint]
    productions: tuple[Production, ...]
    profile: Profile


@lru_cache(maxsize=1024)
def precedent_of(solved: SolvedTask) -> Precedent | None:
    """What a solved task shows; None if its program is not well-typed, or no plan describes it."""
    scope = static_scope(solved.task)
    program, wrong = parse(solved.program, scope)
    if wrong:
        return None
    try:
        plan, found = plan_of(program, scope)
    except NotAPlan:
        return None
    types = [type_ for type_ in found if type_ is not None]
    if len(types) < len(found):
        return None
    fingerprints = fingerprints_of(solved.task, scope.fns)
    productions = tuple(productions_of(plan, types, scope, fingerprints))
    profile = Profile.of(solved.task, scope, [*fingerprints.values()])
    return Precedent(solved.task, scope, plan, fingerprints, productions, profile)


def productions_of(
    plan: Plan, types: Sequence[StreamType], scope: Scope, fingerprints: dict[str, Fingerprint]
) -> Iterator[Production]:
    makers: list[Maker] = [maker_of_input(type_) for type_ in types[: plan.inputs]]
    places = {fn: place for place, fn in enumerate(scope.fns.values())}
    applied, taken = set[str](), set[int]()
    for step in plan.steps:
        label = step.fn.label
        form = form_of(step.shape, step.folded, [types[source] for source in step.sources])
        order = branch_order(tuple(-1 if fn is None else places[fn] for fn in step.fns[:-1]))
        own = tuple(makers[source] for source in step.sources)
        reused = tuple(source in taken for source in step.sources)
        yield Production(step.kind, fingerprints[label], form, own, label in applied, reused, order)
        applied.add(label)
        taken.update(step.sources)
        makers.append(fingerprints[label])


def branch_order(places: tuple[int, ...]) -> tuple[int, ...]:
    """The order of a routing's branches, whatever other functions the task lists between them."""
    ranks = {place: rank for rank, place in enumerate(sorted({place for place in places if place >= 0}))}
    return tuple(ranks.get(place, -1) for place in places)


def maker_of_input(type_: StreamType) -> Maker:
    """What an input counts as among makers."""
    return kind_of(type_.dtype), str(len(type_.shape))


def alike(one: Maker, other: Maker) -> float:
    """How alike two makers are, in [0, 1]."""
    if isinstance(one, Fingerprint) and isinstance(other, Fingerprint):
        return similarity(one, other)
    if isinstance(one, Fingerprint) or isinstance(other, Fingerprint):
        return 0.0
    return 1.0 if one == other else _KINDS_ALIKE


def relevance(shown: Profile, new: Profile) -> float:
    """The relevance of a solved task to a new one, in [0, 1]: by functions first, then references and streams."""
    one, other = _covered(shown.fingerprints, new.fingerprints), _covered(new.fingerprints, shown.fingerprints)
    references, streams = jaccard(shown.operations, new.operations), jaccard(shown.streams, new.streams)
    return _FUNCTIONS * max(one, other) + _REFERENCES * references + _STREAMS * streams


def _covered(fingerprints: Sequence[Fingerprint], among: Sequence[Fingerprint]) -> float:
    best = [max((similarity(fingerprint, other) for other in among), default=0.0) for fingerprint in fingerprints]
    return sum(best) / len(best) if best else 0.0


def nearest(solved: Sequence[SolvedTask], profile: Profile, most: int) -> list[tuple[Precedent, float]]:
    """The most relevant precedents, each with its relevance; of equal ones the first."""
    found = [known for each in dict.fromkeys(solved) if (known := precedent_of(each)) is not None]
    weighed = [(known, relevance(known.profile, profile)) for known in found]
    return sorted(weighed, key=lambda pair: -pair[1])[:most]
