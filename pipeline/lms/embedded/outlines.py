"""A solved task in outline, so that others can be held against it: what was applied to what, and what for.

Structural primitives are left out, as another task's types ask for others. `adapted` makes of an outline what it would
be in a task that lacks some of its functions, and `relevance` says how much it has to do with a task at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from pipeline.lms.embedded.layout import without_ones
from pipeline.lms.embedded.reading import Solved, as_graph
from pipeline.lms.embedded.roles import Role, features_of, jaccard, likeness, roles_of
from pipeline.lms.embedded.scoring import PASSED, kind_of
from step_runtime.base.shapes import Dim
from step_runtime.base.types import StreamType
from step_runtime.primitives import Accum, Map, Merge, Partition, Primitive, Scan
from step_runtime.program.graph import Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.tasks.task import Task

How: TypeAlias = Literal["Map", "Accum", "Scan", "Accum all", "Scan all", "Route"]
"""How a function is applied; a fold of `all` leaves a stream with nothing but ones."""

_UNLIKE = 0.25
"""Functions less alike than this have nothing to do with each other."""


@dataclass(frozen=True, eq=False)
class Origin:
    """What made a stream: a function's role and whether it scanned, or for an input its type, rank and data.

    `sources` are the origins of what it was made of. Origins of one program or one task are known by identity.
    """

    maker: Role | tuple[str, ...]
    scanned: bool = False
    sources: tuple[Origin, ...] = ()


class Application(NamedTuple):
    """A function, or a routing, on sources: inputs by number, then what applications before this one made.

    `roles` has one function, or that which merges and those of the branches; `passes` is the place of the source
    that would stand in for the result, were the application left out.
    """

    how: How
    roles: tuple[Role, ...]
    sources: tuple[int, ...]
    passes: int


class Outline(NamedTuple):
    """A solved task as others can be held against it: its program without structural primitives."""

    inputs: tuple[Origin, ...]
    applications: tuple[Application, ...]
    results: tuple[int, ...]
    profile: Profile


class Use(NamedTuple):
    """An application by the origins of its sources; `times` counts those of the same function in its program."""

    how: How
    roles: tuple[Role, ...]
    sources: tuple[Origin, ...]
    times: int


class Profile(NamedTuple):
    """What tasks are compared by: their functions, streams, and the operations of their references."""

    roles: tuple[Role, ...]
    streams: frozenset[str]
    operations: frozenset[str]

    @classmethod
    def of(cls, task: Task, scope: Scope, roles: Sequence[Role]) -> Profile:
        """A task's profile."""
        streams = [f"in {kind_of(s.dtype)} {len(s.shape)}" for s in scope.inputs.values()]
        streams += [f"out {kind_of(s.dtype)} {len(s.shape)}" for s in scope.outputs]
        operations = {name for spec in task.outputs for code in spec.data_transform for name in features_of(code)}
        return cls(tuple(roles), frozenset(streams), frozenset(name for name in operations if "(" not in name))


def relevance(shown: Profile, new: Profile) -> float:
    """How much a solved task bears on a new one, in [0, 1]: by functions first, then references and streams."""
    one, other = _covered(shown.roles, new.roles), _covered(new.roles, shown.roles)
    functions = max(one, other)
    return (
        0.6 * functions + 0.25 * jaccard(shown.operations, new.operations) + 0.15 * jaccard(shown.streams, new.streams)
    )


def _covered(roles: Sequence[Role], among: Sequence[Role]) -> float:
    best = [max((likeness(role, other) for other in among), default=0.0) for role in roles]
    return sum(best) / len(best) if best else 0.0


def input_origins(task: Task, scope: Scope) -> tuple[Origin, ...]:
    """The origins of a task's inputs, in order."""
    streams = zip(task.inputs, scope.inputs.values(), strict=True)
    return tuple(Origin((kind_of(s.dtype), str(len(s.shape)), spec.data_gen or "")) for spec, s in streams)


@lru_cache(maxsize=1024)
def outline(solved: Solved) -> Outline | None:
    """A solved task's uses and profile; None if its program is not well-typed."""
    found = as_graph(solved)
    if found is None:
        return None
    program, types, scope = found
    roles = roles_of(solved.task, scope.fns)
    applications, results = _applications(program, types, roles)
    profile = Profile.of(solved.task, scope, list(roles.values()))
    return Outline(input_origins(solved.task, scope), applications, results, profile)


def _applications(
    program: Program, types: Sequence[StreamType], roles: dict[str, Role]
) -> tuple[tuple[Application, ...], tuple[int, ...]]:
    """What a program applies, and the numbers of its results; a routing from Partition to Merge is one."""
    held: dict[StreamId, tuple[int, ...]] = {stream: (stream,) for stream in range(len(program.inputs))}
    routed: dict[StreamId, tuple[tuple[int, ...], Role | None]] = {}
    found: list[Application] = []
    for node in program.nodes:
        origin = next((routed[stream] for stream in node.inputs if stream in routed), None)
        if isinstance(node.op, Partition):
            data, index = (held[stream] for stream in node.inputs)
            routed |= dict.fromkeys(node.outputs, ((*data, *index), None))
        elif origin is not None and not isinstance(node.op, Merge):
            role = next((roles[fn.label] for fn in node.op.functions()), origin[1])
            routed |= dict.fromkeys(node.outputs, (origin[0], role))
        elif isinstance(node.op, Map | Accum | Scan | Merge):
            branches = tuple(role for stream in node.inputs if (role := routed.get(stream, (None, None))[1]))
            sources = origin[0] if origin else tuple(number for stream in node.inputs for number in held[stream])
            role = roles[node.op.fn.label]
            passes = next((place for place, kind in enumerate(role.inputs) if kind == role.output), 0)
            how = how_applied(node.op, types[node.inputs[0]].shape)
            found.append(Application(how, (role, *branches), sources, min(passes, len(sources) - 1)))
            held |= dict.fromkeys(node.outputs, (len(program.inputs) + len(found) - 1,))
        else:
            together = node.op.name in PASSED
            parts = tuple(number for stream in node.inputs for number in held[stream])
            held |= dict.fromkeys(node.outputs, parts if together else held[node.inputs[0]])
    return tuple(found), tuple(number for stream in program.results for number in held[stream])


def adapted(outline: Outline, roles: Sequence[Role]) -> tuple[list[Use], list[Origin]]:
    """A solved task's applications, as they would be in a task of these functions.

    Those of functions unlike all of these are left out, with one source in place of the result; and so are those
    whose results then go nowhere. The second value are the origins of the results.
    """
    first, applications = len(outline.inputs), outline.applications
    kept = [any(likeness(use.roles[0], role) > _UNLIKE for role in roles) for use in applications]
    stands: list[int] = list(range(first))
    for number, use in enumerate(applications):
        stands.append(first + number if kept[number] else stands[use.sources[use.passes]])
    live = {stands[result] for result in outline.results}
    for number in reversed(range(len(applications))):
        if kept[number] and first + number in live:
            live |= {stands[source] for source in applications[number].sources}
    times = Counter(use.roles for number, use in enumerate(applications) if kept[number] and first + number in live)
    origins, uses = list(outline.inputs), []
    for number, use in enumerate(applications):
        sources = tuple(origins[stands[source]] for source in use.sources)
        origins.append(Origin(use.roles[0], use.how.startswith("Scan"), sources))
        if kept[number] and first + number in live:
            uses.append(Use(use.how, use.roles, sources, times[use.roles]))
    return uses, [origins[stands[result]] for result in outline.results]


def how_applied(op: Primitive | None, shape: tuple[Dim, ...]) -> How:
    """How a primitive applies its function to a stream of this shape; None is a whole routing."""
    if not isinstance(op, Accum | Scan):
        return "Map" if isinstance(op, Map) else "Route"
    return how_folded(isinstance(op, Scan), shape[op.b :])


def how_folded(scan: bool, outside: tuple[Dim, ...]) -> How:
    """How a fold is applied that leaves these dims alone."""
    whole = not without_ones(outside)
    return ("Scan all" if whole else "Scan") if scan else "Accum all" if whole else "Accum"
