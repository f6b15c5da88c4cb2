"""Solved examples without structural primitives: applications of functions to streams.

Structural primitives are omitted because another task's types need different ones. `adapted` adapts a solved task
to a task that lacks some of its functions; `relevance` measures how related two tasks are.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from pipeline.lms.embedded.kinds import PASSED, kind_of
from pipeline.lms.embedded.prompt.parsing import SolvedExample, as_graph
from pipeline.lms.embedded.retrieval.fingerprints import Fingerprint, features_of, fingerprints_of, jaccard, similarity
from pipeline.lms.embedded.types.coercions import dims_of, factors, without_ones
from step_runtime.base.shapes import Dim
from step_runtime.base.types import StreamType
from step_runtime.primitives import Accum, Map, Merge, Partition, Primitive, Scan
from step_runtime.program.graph import Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import Task

How: TypeAlias = Literal["Map", "Accum", "Scan", "Accum all", "Scan all", "Route"]
"""How a function is applied; a fold of `all` leaves a stream whose dims are all 1."""

_UNLIKE = 0.25
"""Functions less similar than this are unrelated."""


@dataclass(frozen=True, eq=False)
class Provenance:
    """The origin of a stream: a function's fingerprint and whether it scanned, or for an input its type, rank and data.

    `sources` are the provenances of its operands. Those of one program or one task are known by identity.
    """

    maker: Fingerprint | tuple[str, ...]
    scanned: bool = False
    sources: tuple[Provenance, ...] = ()


class Form(NamedTuple):
    """How streams meet and are folded, whatever their dims are called and however many there are.

    Attributes:
        folded: The number of dims that are folded.
        columns: For each dim of the common shape, innermost first, which sources have it; equal neighbours are one.
    """

    folded: int
    columns: tuple[tuple[bool, ...], ...]


def form_of(shape: Sequence[Dim], folded: Sequence[Dim], sources: Sequence[StreamType]) -> Form:
    """The form in which sources meet in a shape, of which the dims `folded` are folded; dims of 1 do not count."""
    own = [{part for dim in dims_of(source) for part in (dim, *factors(dim))} for source in sources]
    columns = (
        tuple(dim in dims or (bool(factors(dim)) and dims.issuperset(factors(dim))) for dims in own)
        for dim in without_ones(shape)
    )
    return Form(len(without_ones(folded)), tuple(column for column, _ in itertools.groupby(columns)))


class Application(NamedTuple):
    """A function, or a routing, on sources: inputs by number, then results of earlier applications.

    `fingerprints` has one function, or the merging one and those of the branches; `passes` is the place of the source
    that replaces the result if the application is omitted; a routing has no form.
    """

    how: How
    fingerprints: tuple[Fingerprint, ...]
    sources: tuple[int, ...]
    passes: int
    form: Form | None = None


class Outline(NamedTuple):
    """A solved task in a form to compare others with: its program without structural primitives."""

    inputs: tuple[Provenance, ...]
    applications: tuple[Application, ...]
    results: tuple[int, ...]
    profile: TaskProfile


class Use(NamedTuple):
    """An application by the provenances of its sources; `times` counts those of the same function in its program."""

    how: How
    fingerprints: tuple[Fingerprint, ...]
    sources: tuple[Provenance, ...]
    times: int
    form: Form | None = None


class TaskProfile(NamedTuple):
    """The features by which tasks are compared: functions, streams, and the operations of their references."""

    fingerprints: tuple[Fingerprint, ...]
    streams: frozenset[str]
    operations: frozenset[str]

    @classmethod
    def of(cls, task: Task, scope: Scope, fingerprints: Sequence[Fingerprint]) -> TaskProfile:
        """A task's profile."""
        streams = [f"in {kind_of(s.dtype)} {len(s.shape)}" for s in scope.inputs.values()]
        streams += [f"out {kind_of(s.dtype)} {len(s.shape)}" for s in scope.outputs]
        operations = {name for spec in task.outputs for code in spec.data_transform for name in features_of(code)}
        return cls(tuple(fingerprints), frozenset(streams), frozenset(name for name in operations if "(" not in name))


def relevance(shown: TaskProfile, new: TaskProfile) -> float:
    """The relevance of a solved task to a new one, in [0, 1]: by functions first, then references and streams."""
    one, other = _covered(shown.fingerprints, new.fingerprints), _covered(new.fingerprints, shown.fingerprints)
    functions = max(one, other)
    return (
        0.6 * functions + 0.25 * jaccard(shown.operations, new.operations) + 0.15 * jaccard(shown.streams, new.streams)
    )


def _covered(fingerprints: Sequence[Fingerprint], among: Sequence[Fingerprint]) -> float:
    best = [max((similarity(fingerprint, other) for other in among), default=0.0) for fingerprint in fingerprints]
    return sum(best) / len(best) if best else 0.0


def input_provenances(task: Task, scope: Scope) -> tuple[Provenance, ...]:
    """The provenances of a task's inputs, in order."""
    streams = zip(task.inputs, scope.inputs.values(), strict=True)
    return tuple(Provenance((kind_of(s.dtype), str(len(s.shape)), spec.data_gen or "")) for spec, s in streams)


@lru_cache(maxsize=1024)
def outline(solved: SolvedExample) -> Outline | None:
    """A solved task's uses and profile; None if its program is not well-typed."""
    found = as_graph(solved)
    if found is None:
        return None
    program, types, scope = found
    fingerprints = fingerprints_of(solved.task, scope.fns)
    applications, results = applications_of(program, types, fingerprints)
    profile = TaskProfile.of(solved.task, scope, list(fingerprints.values()))
    return Outline(input_provenances(solved.task, scope), applications, results, profile)


def applications_of(
    program: Program, types: Sequence[StreamType], fingerprints: dict[str, Fingerprint]
) -> tuple[tuple[Application, ...], tuple[int, ...]]:
    """A program's applications, and the numbers of its results; a routing, from Partition to Merge, is one."""
    held: dict[StreamId, tuple[int, ...]] = {stream: (stream,) for stream in range(len(program.inputs))}
    made = list(types[: len(program.inputs)])
    routed: dict[StreamId, tuple[tuple[int, ...], Fingerprint | None]] = {}
    found: list[Application] = []
    for node in program.nodes:
        provenance = next((routed[stream] for stream in node.inputs if stream in routed), None)
        if isinstance(node.op, Partition):
            data, index = (held[stream] for stream in node.inputs)
            routed |= dict.fromkeys(node.outputs, ((*data, *index), None))
        elif provenance is not None and not isinstance(node.op, Merge):
            fingerprint = next((fingerprints[fn.label] for fn in node.op.functions()), provenance[1])
            routed |= dict.fromkeys(node.outputs, (provenance[0], fingerprint))
        elif isinstance(node.op, Map | Accum | Scan | Merge):
            branches = tuple(
                fingerprint for stream in node.inputs if (fingerprint := routed.get(stream, (None, None))[1])
            )
            sources = (
                provenance[0] if provenance else tuple(number for stream in node.inputs for number in held[stream])
            )
            fingerprint = fingerprints[node.op.fn.label]
            passes = next((place for place, kind in enumerate(fingerprint.inputs) if kind == fingerprint.output), 0)
            shape = types[node.inputs[0]].shape
            folded = shape[: node.op.b] if isinstance(node.op, Accum | Scan) else ()
            form = None if provenance else form_of(shape, folded, [made[number] for number in sources])
            applied = (how_applied(node.op, shape), (fingerprint, *branches), sources)
            found.append(Application(*applied, min(passes, len(sources) - 1), form))
            made.append(types[node.outputs[0]])
            held |= dict.fromkeys(node.outputs, (len(program.inputs) + len(found) - 1,))
        else:
            together = node.op.name in PASSED
            parts = tuple(number for stream in node.inputs for number in held[stream])
            held |= dict.fromkeys(node.outputs, parts if together else held[node.inputs[0]])
    return tuple(found), tuple(number for stream in program.results for number in held[stream])


def adapted(outline: Outline, fingerprints: Sequence[Fingerprint]) -> tuple[list[Use], list[Provenance]]:
    """A solved task's applications, adapted to a task with these functions.

    Applications of functions unlike all of these are omitted, with one source in place of the result; so are those
    whose results are then unused. The second value is the provenances of the results.
    """
    first, applications = len(outline.inputs), outline.applications
    kept = [
        any(similarity(use.fingerprints[0], fingerprint) > _UNLIKE for fingerprint in fingerprints)
        for use in applications
    ]
    stands: list[int] = list(range(first))
    for number, use in enumerate(applications):
        stands.append(first + number if kept[number] else stands[use.sources[use.passes]])
    live = {stands[result] for result in outline.results}
    for number in reversed(range(len(applications))):
        if kept[number] and first + number in live:
            live |= {stands[source] for source in applications[number].sources}
    times = Counter(
        use.fingerprints for number, use in enumerate(applications) if kept[number] and first + number in live
    )
    provenances, uses = list(outline.inputs), []
    for number, use in enumerate(applications):
        sources = tuple(provenances[stands[source]] for source in use.sources)
        provenances.append(Provenance(use.fingerprints[0], use.how.startswith("Scan"), sources))
        if kept[number] and first + number in live:
            uses.append(Use(use.how, use.fingerprints, sources, times[use.fingerprints], use.form))
    return uses, [provenances[stands[result]] for result in outline.results]


def how_applied(op: Primitive | None, shape: tuple[Dim, ...]) -> How:
    """How a primitive applies its function to a stream of this shape; None is a whole routing."""
    if not isinstance(op, Accum | Scan):
        return "Map" if isinstance(op, Map) else "Route"
    return how_folded(isinstance(op, Scan), shape[op.b :])


def how_folded(scan: bool, outside: tuple[Dim, ...]) -> How:
    """How a fold is applied that keeps these dims."""
    whole = not without_ones(outside)
    return ("Scan all" if whole else "Scan") if scan else "Accum all" if whole else "Accum"
