"""Verified programs of sub-tasks as one program: streams by name, coerced where a joint's types differ.

Equal computations of several parts are done once, and what is used several times is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pipeline.splitting.cuts import ONE, Axes, ReferenceCuts, canonical_axes, permutation, statements_of
from pipeline.splitting.subtasks import typed
from pipeline.synthesis.parallel_search import SearchPool
from pipeline.synthesis.rules import ProgramBuilder, tidy
from pipeline.synthesis.type_space import find_coercions
from pipeline.verification.judge import Request, judge, verdict_in
from pipeline.verification.pool import WorkerLost
from step_runtime.base.errors import STAGES, RuleError, StepError
from step_runtime.base.types import StreamType
from step_runtime.execution.applier import Applier
from step_runtime.language.parser import parse
from step_runtime.primitives import Copy
from step_runtime.program.graph import StreamId
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import instances
from step_runtime.verification.simulate import simulate


class JointError(Exception):
    """Programs do not fit together; `joint` is the name of the stream at which they don't."""

    def __init__(self, joint: str, message: str) -> None:
        super().__init__(f"{joint}: {message}")
        self.joint = joint


@dataclass(frozen=True)
class Composition:
    """A program made of others.

    Attributes:
        text: The program.
        joints: The streams between its parts, by name, in the order in which they are made.
        joined: The same program with all these streams as its results, without Copies.
    """

    text: str
    joints: tuple[str, ...]
    joined: str


def compose(task: Task, parts: Sequence[SolvedTask]) -> Composition:
    """One program for a task of programs for its sub-tasks, in any order; none of the task's code is run.

    Args:
        task: The whole task.
        parts: Sub-tasks whose inputs are the whole's inputs or outputs of other parts, by name.

    Raises:
        JointError: A stream is given by no part or by several, is needed to make itself, has a type that no coercion
            leads from to the type that is taken, or a part's program can't be read among the whole's names.
    """
    return _Composer(task, parts).composition()


class _Composer:
    def __init__(self, task: Task, parts: Sequence[SolvedTask]) -> None:
        self._task, self._scope = task, (scope := static_scope(task))
        self._builder = ProgramBuilder(scope)
        self._streams: dict[str, StreamId] = {name: place for place, name in enumerate(scope.inputs)}
        self._makers: dict[str, SolvedTask] = {}
        self._open: set[str] = set()
        self._joints: list[str] = []
        for part in parts:
            for spec in part.task.outputs:
                if spec.name in self._makers or spec.name in scope.inputs:
                    raise JointError(spec.name, "more than one part makes this stream")
                self._makers[spec.name] = part

    def composition(self) -> Composition:
        """The parts that the outputs need, joined."""
        wanted = zip(self._task.outputs, self._task.output_types, strict=True)
        results = tuple(self._coerced(spec.name, type_, "the whole's output") for spec, type_ in wanted)
        joints = tuple(self._joints)
        joined = replace(self._builder.program(results), results=tuple(self._streams[name] for name in joints))
        return Composition(print_program(tidy(self._builder.program(results))), joints, print_program(joined))

    def _stream(self, name: str) -> StreamId:
        if name not in self._streams:
            part = self._makers.get(name)
            if part is None:
                raise JointError(name, "no part makes this stream, and the task has no such input")
            if name in self._open:
                raise JointError(name, "it depends on itself")
            self._open.add(name)
            self._add(part)
        return self._streams[name]

    def _coerced(self, name: str, type_: StreamType, where: str) -> StreamId:
        """A stream as one of a type."""
        stream = self._stream(name)
        given = self._builder.types[stream]
        found = find_coercions(given, type_)
        if not found:
            raise JointError(
                name, f"it is made as {given}, {where} is {type_}, and no primitives of structure lead there"
            )
        for op in found[0].ops:
            stream = self._builder.add(op, stream)[0]
        return stream

    def _add(self, part: SolvedTask) -> None:
        """Writes a part's program, with the parts that it needs before."""
        name = part.task.outputs[0].name
        try:
            types = {spec.name: typed(spec, self._task) for spec in part.task.inputs}
            outputs = tuple(typed(spec, self._task) for spec in part.task.outputs)
        except ValueError as error:
            raise JointError(name, f"its streams have dims that the whole lacks: {error}") from None
        scope = replace(self._scope, inputs=types, outputs=outputs)
        program, wrong = parse(part.program, scope)
        if wrong:
            raise JointError(name, f"its program can't be read among the whole's names: {wrong[0].message}")
        own = {
            place: self._coerced(each, types[each], f"the input of the part that makes {name}")
            for place, each in enumerate(program.inputs)
        }
        try:
            for node in program.nodes:
                if isinstance(node.op, Copy):
                    own |= dict.fromkeys(node.outputs, own[node.inputs[0]])
                    continue
                made = self._builder.add(node.op, *(own[stream] for stream in node.inputs))
                own |= zip(node.outputs, made, strict=True)
        except RuleError as error:
            raise JointError(name, f"its program breaks a rule in the whole: {error}") from None
        for spec, stream in zip(part.task.outputs, program.results, strict=True):
            self._streams[spec.name] = own[stream]
            self._joints.append(spec.name)


def composed(pool: SearchPool, task: Task, found: ReferenceCuts, parts: Sequence[SolvedTask]) -> Composition | str:
    """A right program for a task of programs for its sub-tasks; else the name of what one of them makes wrongly."""
    try:
        made = compose(task, parts)
    except JointError as error:
        return error.joint
    request = Request(task=task.name, statement=task.statement, text=made.text)
    if verdict_in(STAGES, request, pool.submit(judge, request)).passed:
        return made
    try:
        wrong: str | None = pool.run(wrong_joint, task, made.joined, made.joints, found).result()
    except (WorkerLost, StepError):
        wrong = None
    return wrong or made.joints[-1]


def wrong_joint(name: str, content: str, joined: str, joints: Sequence[str], found: ReferenceCuts) -> str | None:
    """The first joint of a composition whose numbers are not the reference's, in this process: call it in a worker.

    Args:
        name: The task's name.
        content: Its YAML.
        joined: The composition with its joints as results.
        joints: Their names.
        found: The cuts of the task.

    Raises:
        TaskError: The task can't be used.
        StepError: The program fails.
    """
    task = loads_task(content, name)
    code = [statement.code for statement in statements_of(task, expanded=found.expanded)]
    cuts = {cut.name: cut for cut in found.cuts}
    for instance in instances(task):
        program, _ = parse(joined, instance.scope)
        types = infer_types(program, instance.scope)[0]
        streams = simulate(program, types, instance.sample_inputs(0), instance.sizes, Applier(instance.dtype))
        instance.sample_inputs(0)
        values: dict[tuple[int, str], Tensor] = {}
        for number, names in enumerate(instance.trace(code)):
            values |= {(number, key): each.clone() for key, each in names.items() if isinstance(each, Tensor)}
        for joint, data, stream in zip(joints, streams, program.results, strict=True):
            cut, type_ = cuts.get(joint), types[stream]
            if cut is not None and type_ is not None and not _holds(data[0], cut.axes[0], type_, values[cut.place]):
                return joint
    return None


def _holds(data: Tensor, axes: Axes, type_: StreamType, value: Tensor) -> bool:
    """Whether a stream holds the numbers of a tensor of the reference."""
    order = permutation(axes, canonical_axes(type_))
    if order is None or data.numel() != value.numel():
        return False
    value = value.reshape([size for size, dim in zip(value.shape, axes, strict=True) if dim != ONE]).permute(order)
    own = data.flatten().to(torch.float64)
    return torch.allclose(own, value.flatten().to(torch.float64), rtol=1e-6, atol=1e-9)
