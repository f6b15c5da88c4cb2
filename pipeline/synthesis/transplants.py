"""Transplants: the plan of a solved task, carried out in another one as far as it goes.

Each function stands for the task's own that its code and types resemble most, each input for one of its kind; a step
whose function has no counterpart passes its operand on. Structural primitives come from the task's own types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.synthesis.precedents import Fingerprint, Form, Precedent, Step, form_of, kind_of, similarity
from pipeline.synthesis.rules import ProgramBuilder, route, zipped
from pipeline.synthesis.type_space import OperandShapes, Shape, TypeSpace, find_coercions
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.types import DType, StreamType, STuple, components_of
from step_runtime.primitives import Accum, Map, Merge, Promote, Scan
from step_runtime.program.graph import Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import Task

_MOST_SHAPES = 4
"""Shapes at which the operands of a step are tried, the cheapest first."""
_RELATED = 0.25
"""Functions that are less alike do not stand for each other."""


def transplanted(
    precedent: Precedent, task: Task, scope: Scope, fingerprints: Mapping[str, Fingerprint]
) -> Program | None:
    """A program that makes what the precedent's plan makes of the task's inputs; None if that is nothing.

    Its results are the streams of all steps that were carried out, in order.
    """
    fns = _counterparts(precedent, scope, fingerprints)
    lowering, builder = _Lowering(scope), ProgramBuilder(scope)
    streams: dict[int, StreamId] = dict(_inputs(precedent, task, scope))
    made: list[StreamId] = []
    for place, (step, production) in enumerate(zip(precedent.plan.steps, precedent.productions, strict=True)):
        value = precedent.plan.inputs + place
        mapped = tuple(None if fn is None else fns.get(fn.label) for fn in step.fns)
        known = [streams[source] for source in step.sources if source in streams]
        complete = len(known) == len(step.sources)
        if complete and all(own is not None for own, fn in zip(mapped, step.fns, strict=True) if fn is not None):
            stream = lowering.stream(builder, replace(step, fns=mapped), known, production.form)
            if stream is not None:
                streams[value] = stream
                made.append(stream)
                continue
        if known:
            streams[value] = known[0]
    return builder.program(tuple(dict.fromkeys(made))) if made else None


class _Lowering:
    """Carries steps out in a task."""

    def __init__(self, scope: Scope) -> None:
        self._space = TypeSpace(scope)
        self._operands = OperandShapes(self._space)

    def stream(self, builder: ProgramBuilder, step: Step, streams: Sequence[StreamId], form: Form) -> StreamId | None:
        """The stream of a step, in a form where some way for the operands to meet has it; None if there is no way."""
        *data, index = streams if step.kind is Merge else (*streams, -1)
        types = [builder.types[each] for each in data]
        found = None
        try:
            dtypes = _assigned(types, next(fn for fn in step.fns if fn is not None).input)
            shapes = self._shapes(types, dtypes)
        except (RuleError, ValueError):
            return None
        for shape in shapes:
            try:
                parts = [_coerced(builder, *pair, shape) for pair in zip(data, dtypes, strict=True)]
                stream = _applied(builder, step, parts, index, shape)
            except RuleError:
                continue
            found = stream if found is None else found
            if form_of(shape, step.folded, [builder.types[each] for each in streams]) == form:
                return stream
        return found

    def _shapes(self, types: Sequence[StreamType], dtypes: Sequence[DType]) -> list[Shape]:
        """Those at which operands meet most cheaply."""
        sources, parts = tuple(map(self._space.intern, types)), tuple(map(self._operands.part, dtypes))
        costs: dict[Shape, int] = {}
        for paths in self._operands.meetings(sources, parts, split=False, grown=False):
            costs.setdefault(paths[0].target.shape, sum(path.cost for path in paths))
        return sorted(costs, key=lambda shape: costs[shape])[:_MOST_SHAPES]


def _coerced(builder: ProgramBuilder, stream: StreamId, dtype: DType, shape: Shape) -> StreamId:
    ways = find_coercions(builder.types[stream], StreamType(dtype, shape))
    if not ways:
        raise RuleError("coercion", "no structural primitives lead there")
    for op in ways[0].ops:
        stream = builder.add(op, stream)[0]
    return stream


def _assigned(types: Sequence[StreamType], dtype: DType) -> list[DType]:
    """The part of a function's input that each operand holds."""
    need, found = components_of(dtype), list[DType]()
    place = 0
    for type_ in types:
        count = len(type_.dtype.components) if isinstance(type_.dtype, STuple) else 1
        part = need[place : place + count]
        if len(part) < count:
            raise RuleError("coercion", "more operands than the function takes")
        found.append(part[0] if count == 1 else STuple(part))
        place += count
    if place != len(need):
        raise RuleError("coercion", "fewer operands than the function takes")
    return found


def _applied(builder: ProgramBuilder, step: Step, parts: Sequence[StreamId], index: StreamId, shape: Shape) -> StreamId:
    if step.kind is Merge:
        return route(builder, step.fns[:-1], step.fn, [*parts, index])
    stream = zipped(builder, parts)
    if step.kind is Map:
        return builder.add(Map(step.fn), stream)[0]
    fold = Accum if step.kind is Accum else Scan
    folded = min(step.folded, len(shape))
    if folded == len(shape):
        stream = builder.add(Promote(len(shape)), stream)[0]
    return builder.add(fold(step.fn, folded), stream)[0]


def _counterparts(precedent: Precedent, scope: Scope, fingerprints: Mapping[str, Fingerprint]) -> dict[str, Fn]:
    """The task's function for each of the precedent's: the pairs most alike first, each once where there are enough."""
    pairs = [
        (similarity(theirs, own), theirs_label, own_label)
        for theirs_label, theirs in precedent.fingerprints.items()
        for own_label, own in fingerprints.items()
    ]
    ranked = sorted((pair for pair in pairs if pair[0] > _RELATED), key=lambda pair: -pair[0])
    labels, found, taken = {fn.label: fn for fn in scope.fns.values()}, dict[str, Fn](), set[str]()
    for once in (True, False):
        for _, theirs_label, own_label in ranked:
            if theirs_label not in found and not (once and own_label in taken):
                found[theirs_label] = labels[own_label]
                taken.add(own_label)
    return found


def _inputs(precedent: Precedent, task: Task, scope: Scope) -> list[tuple[int, StreamId]]:
    """The input that stands for each of the precedent's: of its kind, if possible of its rank and data, not taken."""
    theirs = list(zip(precedent.task.inputs, precedent.scope.inputs.values(), strict=True))
    own = list(zip(task.inputs, scope.inputs.values(), strict=True))
    found, taken = list[tuple[int, StreamId]](), set[int]()
    for place, (spec, type_) in enumerate(theirs):
        options = [
            (
                kind_of(type_.dtype) == kind_of(other.dtype),
                len(type_.shape) == len(other.shape),
                spec.data_gen == given.data_gen,
                stream not in taken,
                -abs(place - stream),
                stream,
            )
            for stream, (given, other) in enumerate(own)
        ]
        best = max(options, default=None)
        if best is not None:
            found.append((place, best[-1]))
            taken.add(best[-1])
    return found


def programs_of(
    precedents: Sequence[tuple[Precedent, float]], task: Task, scope: Scope, fingerprints: Mapping[str, Fingerprint]
) -> list[tuple[Program, float]]:
    """The transplants of precedents, each with its precedent's relevance."""
    found = ((transplanted(precedent, task, scope, fingerprints), weight) for precedent, weight in precedents)
    return [(program, weight) for program, weight in found if program is not None]
