"""Checks on the graph: types and shapes, the affine rule, the outputs; and the pass that inserts Copy."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

from step_runtime.base.errors import Diagnostic, RuleError, Stage, quantity
from step_runtime.base.shapes import INNERMOST_FIRST, format_shape, is_reversed
from step_runtime.base.sized import Condition
from step_runtime.base.types import TOO_MANY_COMPONENTS, Buffer, StreamType
from step_runtime.language.canonical import Description, describe
from step_runtime.language.parser import Source, evaluate
from step_runtime.primitives import Copy, Rules
from step_runtime.primitives.primitive import format_hint
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.program.limits import Limits, check_size
from step_runtime.tasks.scope import Scope

Types = list[StreamType | None]
"""The type of every stream by number; None if an earlier error leaves it unknown."""


@dataclass(frozen=True)
class TypedProgram:
    """A program that was read at one set of sizes: its graph, its types, and the findings of the checks without a run.

    All of it is the same at any sizes at which the conditions hold.
    """

    scope: Scope
    program: Program
    types: Types
    found: list[Diagnostic]
    conditions: Sequence[Condition] = ()

    def holds(self, scope: Scope) -> bool:
        """Whether the graph and the types are the same in a scope at other sizes."""
        return self.scope.names == scope.names and all(each.holds(scope.sizes) for each in self.conditions)

    @cached_property
    def key(self) -> str:
        """A digest of what the graph computes, equal for programs of which one verdict holds."""
        return self.described.key(whole=True)

    @cached_property
    def described(self) -> Description:
        """The description of the program's graph."""
        return describe(self.program)


def infer_types(
    program: Program, scope: Scope, conditions: list[Condition] | None = None
) -> tuple[Types, list[Diagnostic]]:
    """Types and shapes of all streams, and every rule that does not hold, each reported once.

    `conditions` collects what rules require of sizes.
    """
    rules = Rules(scope.sizes, fns=tuple(scope.fns.values()), conditions=conditions)
    types: Types = list(scope.inputs.values())
    found: list[Diagnostic] = []
    for node in program.nodes:
        inputs = [types[stream] for stream in node.inputs]
        results: Sequence[StreamType | None] = [None] * len(node.outputs)
        known = [stream for stream in inputs if stream is not None]
        if len(known) == len(inputs):
            try:
                results = node.op.infer(known, rules)
            except RuleError as error:
                if len(known) > 1:
                    error = error.about(zip(map(program.name, node.inputs), known, strict=True))
                stage: Stage = "limits" if error.code == TOO_MANY_COMPONENTS else "type"
                found.append(Diagnostic.of(stage, error, node.span))
        types.extend(results)
    return types, found


def check_program(source: Source, scope: Scope, limits: Limits, itemsize: int) -> TypedProgram:
    """A program that was read, checked in a scope without a run."""
    program, found = evaluate(source, scope, limits)
    conditions = [*program.conditions]
    types, typed = infer_types(program, scope, conditions)
    found = [*found, *typed, *check_affine(program)]
    found = found or check_size(program, types, scope.sizes, limits, itemsize)
    found = _with_hidden(found or check_outputs(program, types, scope), source, scope)
    return TypedProgram(scope, program, types, found, tuple(dict.fromkeys(conditions)))


def _with_hidden(found: list[Diagnostic], source: Source, scope: Scope) -> list[Diagnostic]:
    """The findings; a finding in a line that uses a rebound name of the task says where the program rebound it."""
    if not found:
        return found
    inputs = scope.inputs if source.parameters is None else [each.arg for each in source.parameters]
    kinds = dict.fromkeys(scope.sizes, "dim") | dict.fromkeys(scope.fns, "function") | dict.fromkeys(inputs, "input")
    bound: dict[str, int] = {}
    for node in (node for statement in source.statements for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in kinds:
            bound.setdefault(node.id, node.lineno)

    @cache
    def notes(line: int, end: int) -> list[str]:
        names = dict.fromkeys(re.findall(r"\w+", " ".join(source.lines[line - 1 : end])))
        hidden = "line {} binds {} anew, which hides the task's {} of that name: choose a new name"
        return [hidden.format(bound[name], name, kinds[name]) for name in names if bound.get(name, line) < line]

    if not bound:
        return found
    places = [(each, each.span) for each in found]
    return [replace(each, details=(*each.details, *(notes(at.line, at.end_line) if at else ()))) for each, at in places]


def check_affine(program: Program) -> list[Diagnostic]:
    """Every stream may be consumed by at most one primitive (paper, Section 2.3); `return` consumes nothing."""
    found = []
    for stream, nodes in program.consumers().items():
        if len(nodes) < 2:
            continue
        name = program.name(stream)
        lines = ", ".join(dict.fromkeys(str(node.span.line) for node in nodes if node.span))
        shown = name if re.fullmatch(r"\w+(\[\d+\])*", name) else "E0"
        copy = f"{shown}_0, {shown}_1" if shown.isidentifier() else "E0_0, E0_1"
        copies = "a Copy gives" if len(nodes) == 2 else f"{len(nodes) - 1} Copies in a chain give"
        found.append(
            Diagnostic(
                "affine",
                "affine",
                f"stream {name} is consumed {len(nodes)} times; a stream may be consumed once",
                nodes[1].span,
                (f"it is consumed in {'lines' if ',' in lines else 'line'} {lines}",) if lines else (),
                f"{copies} each use a stream of its own: {copy} = step.Copy().apply({shown})",
            )
        )
    return found


def check_outputs(program: Program, types: Types, scope: Scope) -> list[Diagnostic]:
    """Number, element types and dims of the results against the task's outputs."""
    declared = scope.outputs
    results = [types[stream] for stream in program.results]
    if len(results) != len(declared):
        wanted = (f"the task's outputs: {'; '.join(map(str, declared))}",)
        returned, outputs = quantity(len(results), "stream"), quantity(len(declared), "output")
        message = f"the program returns {returned}; the task has {outputs}"
        advice = "return them as one tuple, in the order of the task's outputs"
        return [Diagnostic("shape", "output-count", message, program.result_span, wanted, advice)]
    found = []
    for index, (result, output) in enumerate(zip(results, declared, strict=True)):
        if result is None or result == output:
            continue
        what = "element type" if result.dtype != output.dtype else "shape"
        name = program.name(program.results[index])
        details = (f"{name}: {result}", f"declared: {output}")
        message = f"output {index} differs in {what} from the task's declaration"
        hint = _output_hint(result, output, declared) or format_hint(
            output.dtype, result.dtype, Rules(fns=tuple(scope.fns.values()))
        )
        found.append(Diagnostic("shape", "output-type", message, program.result_span, details, hint))
    return found


def _output_hint(result: StreamType, output: StreamType, declared: Sequence[StreamType]) -> str | None:
    if result.dtype == output.dtype and is_reversed(result.shape, output.shape):
        return f"{INNERMOST_FIRST}: {format_shape(output.shape)} is a torch tensor of the reversed shape"
    if result in declared:
        return "the outputs may be in the wrong order"
    if result.dtype == output.dtype and sorted(map(str, result.shape)) == sorted(map(str, output.shape)):
        return f"the dims are right but their order is not: {format_shape(output.shape)} is innermost first"
    if isinstance(result.dtype, Buffer) and result.dtype.elem == output.dtype:
        return "Streamify() turns a Buffer's dims into stream dims"
    if isinstance(output.dtype, Buffer) and output.dtype.elem == result.dtype:
        return "Bufferize(a=k) turns the k innermost stream dims into a Buffer"
    extra = [dim for dim in result.shape if dim == 1]
    if result.dtype == output.dtype and len(result.shape) - len(output.shape) == len(extra) > 0:
        return "Flatten merges a leftover dim of 1 into its inner neighbour"
    return None


def without_copies(program: Program) -> Program:
    """The program with each result of a Copy replaced by the copied stream: the inverse of `insert_copies`."""
    number: dict[StreamId, StreamId] = {i: i for i in range(len(program.inputs))}
    names: dict[StreamId, str] = {}
    nodes: list[Node] = []
    count = len(program.inputs)
    for node in program.nodes:
        inputs = tuple(number[stream] for stream in node.inputs)
        if isinstance(node.op, Copy):
            number |= dict.fromkeys(node.outputs, inputs[0])
            continue
        outputs = tuple(range(count, count + len(node.outputs)))
        count += len(outputs)
        number |= zip(node.outputs, outputs, strict=True)
        names |= {
            new: program.names[old] for old, new in zip(node.outputs, outputs, strict=True) if old in program.names
        }
        nodes.append(replace(node, inputs=inputs, outputs=outputs))
    results = tuple(number[stream] for stream in program.results)
    return replace(program, nodes=tuple(nodes), results=results, names=names)


def insert_copies(program: Program) -> Program:
    """The program with a chain of Copies before the first use of every stream that is used more than once.

    Programs that keep the affine rule are returned unchanged; in others streams are renumbered.
    """
    left = {stream: len(nodes) for stream, nodes in program.consumers().items()}
    number: dict[StreamId, StreamId] = {i: i for i in range(len(program.inputs))}
    names: dict[StreamId, str] = {}
    nodes: list[Node] = []
    count = len(program.inputs)

    def use(stream: StreamId) -> StreamId:
        nonlocal count
        left[stream] -= 1
        if not left[stream]:
            return number[stream]
        taken, rest = count, count + 1
        nodes.append(Node(Copy(), (number[stream],), (taken, rest)))
        number[stream] = rest
        count += 2
        return taken

    returned = dict(number)
    for node in program.nodes:
        inputs = tuple(use(stream) for stream in node.inputs)
        outputs = tuple(range(count, count + len(node.outputs)))
        count += len(outputs)
        for old, new in zip(node.outputs, outputs, strict=True):
            number[old] = returned[old] = new
            if old in program.names:
                names[new] = program.names[old]
        nodes.append(replace(node, inputs=inputs, outputs=outputs))
    results = tuple(returned[stream] for stream in program.results)
    return replace(program, nodes=tuple(nodes), results=results, names=names)
