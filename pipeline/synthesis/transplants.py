"""Transplants: the plan of a solved task, carried out in another one as far as it goes.

Each function stands for the task's own that its code and types resemble most, each input for one of its kind; a step
whose function has no counterpart passes its operand on. Structural primitives come from the task's own types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipeline.synthesis.fingerprints import Fingerprint, kind_of, similarity
from pipeline.synthesis.lowering import ProgramBuilder
from pipeline.synthesis.plans import MOST_SHAPES, PlanLowering, Step
from pipeline.synthesis.precedents import Precedent, Production, form_of
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.program.graph import Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import Task

_RELATED = 0.25
"""Functions that are less alike do not stand for each other."""


def transplanted(
    precedent: Precedent, task: Task, scope: Scope, fingerprints: Mapping[str, Fingerprint]
) -> Program | None:
    """A program that makes what the precedent's plan makes of the task's inputs; None if that is nothing.

    Its results are the streams of all steps that were carried out, in order.
    """
    fns = _counterparts(precedent, scope, fingerprints)
    lowering, builder = PlanLowering(scope), ProgramBuilder(scope)
    streams: dict[int, StreamId] = dict(_inputs(precedent, task, scope))
    made: list[StreamId] = []
    for place, (step, production) in enumerate(zip(precedent.plan.steps, precedent.productions, strict=True)):
        value = precedent.plan.inputs + place
        mapped = tuple(None if fn is None else fns.get(fn.label) for fn in step.fns)
        known = [streams[source] for source in step.sources if source in streams]
        complete = len(known) == len(step.sources)
        if complete and all(own is not None for own, fn in zip(mapped, step.fns, strict=True) if fn is not None):
            stream = _carried_out(lowering, builder, replace(step, fns=mapped, shape=()), known, production)
            if stream is not None:
                streams[value] = stream
                made.append(stream)
                continue
        if known:
            streams[value] = known[0]
    return builder.program(tuple(dict.fromkeys(made))) if made else None


def _carried_out(
    lowering: PlanLowering, builder: ProgramBuilder, step: Step, streams: list[StreamId], production: Production
) -> StreamId | None:
    """The stream of a step, in the precedent's form where some way for the operands to meet has it."""
    found = None
    for variant in range(MOST_SHAPES):
        try:
            stream, shape = lowering.step(builder, replace(step, variant=variant), streams)
        except (RuleError, ValueError):
            return found
        found = stream if found is None else found
        if form_of(shape, step.folded, [builder.types[each] for each in streams]) == production.form:
            return stream
    return found


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
