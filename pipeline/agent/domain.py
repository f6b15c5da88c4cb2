"""The optimizers' view of STeP programs, and the structures by which tasks and programs are compared.

Structures are texts, so that a record can show them:

- of a task: `in fp32 [2]` and `out Buffer(1) [1]` (element type and number of dims), `fn fp32, fp32 -> fp32` (a
  signature), `fn exp` and `ref softmax` (torch operators of functions and references), `dim 2*D` (compound dims);
- of a program: `Map` (a primitive), `Map > Accum on fp32 [2]` (an edge with its stream), `Map > Accum > Zip` (a path).

No code is run: snippets are read as syntax trees, programs are parsed and typed.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import dspy

from optimizers import Attempt, Domain
from pipeline.base.files import DATA, TASKS
from pipeline.languages import registry
from step_runtime.base.errors import STAGES
from step_runtime.base.shapes import format_dim
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import Buffer, DType, Element, Multihot, Scalar, StreamType, components_of
from step_runtime.language.foreign import in_own_words
from step_runtime.language.parser import parse
from step_runtime.program.graph import Node, Program
from step_runtime.tasks.reader import read_task
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types

_OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow",
    ast.Compare: "compare", ast.For: "loop", ast.While: "loop", ast.IfExp: "choice", ast.Subscript: "index",
}  # fmt: skip


def structures(inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> frozenset[str]:
    """The structures of the input field `task`, and of the output field `impl` if there is an answer.

    A program that can't be read has none; one that breaks rules has those of its readable part.
    """
    task: Task = inputs["task"]
    found = frozenset(_of_task(task))
    return found if outputs is None else found | frozenset(_of_program(str(outputs["impl"]), static_scope(task)))


def closeness(attempt: Attempt, stages: Sequence[str] = STAGES) -> float:
    """The share of the verifier's stages that an answer passed; 0 for one that could not be read."""
    if attempt.passed:
        return 1.0
    stage = attempt.feedback.get("stage")
    return stages.index(stage) / len(stages) if stage in stages else 0.0


def _of_task(task: Task) -> Iterator[str]:
    for stream in (*task.input_types, *task.parameter_types):
        yield f"in {_kind(stream)}"
    for stream in task.output_types:
        yield f"out {_kind(stream)}"
    for stream in (*task.input_types, *task.parameter_types, *task.output_types):
        yield from (f"dim {format_dim(dim)}" for dim in stream.shape if dim.args)
    for taken, given in task.fn_types:
        yield f"fn {element_kind(taken)} -> {element_kind(given)}"
    for spec in task.fns:
        yield from (f"fn {name}" for name in _operators(spec.apply))
    for output in task.outputs:
        yield from (f"ref {name}" for code in output.data_transform for name in _operators(code))


def _of_program(text: str, scope: Scope) -> Iterator[str]:
    program, _ = parse(text, scope)
    types, _ = infer_types(program, scope)
    consumers = program.consumers()
    for node in program.nodes:
        yield _name(node)
        for stream in node.outputs:
            kind = types[stream]
            for later in consumers.get(stream, ()):
                edge = f"{_name(node)} > {_name(later)}"
                yield edge if kind is None else f"{edge} on {_kind(kind)}"
                for result in later.outputs:
                    yield from (f"{edge} > {_name(last)}" for last in consumers.get(result, ()))


def _name(node: Node) -> str:
    return type(node.op).__name__


def _kind(stream: StreamType) -> str:
    return f"{element_kind(stream.dtype)} [{len(stream.shape)}]"


def element_kind(dtype: DType) -> str:
    """An element type without its dims."""
    return ", ".join(map(_component, components_of(dtype)))


def _component(element: Element) -> str:
    match element:
        case Buffer():
            return f"Buffer({len(element.dims)})"
        case Multihot():
            return "Multihot"
        case Scalar():
            return str(element)


def _operators(code: str) -> Iterator[str]:
    """Names of the attributes that a snippet calls, such as `exp` of `torch.exp(x)`, and of its operators."""
    try:
        tree = parse_python(textwrap.dedent(code))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr
        elif name := _OPERATORS.get(type(node.op) if isinstance(node, ast.BinOp | ast.AugAssign) else type(node)):
            yield name


def in_project_words(task: Any, program: str) -> tuple[Any, str]:
    """A stranger's task and program without a word of theirs; those of another language as they are."""
    return in_own_words(task, program) if isinstance(task, Task) else (task, program)


def language_domain(name: str | None, confirm: Callable[[Any, str], bool] | None = None) -> Domain:
    """Answers are grouped by the language's key, the shortest is preferred, and tasks are keyed by name.

    Demonstrations are tasks with their programs, for any number of turns that the agent took to write them. Tasks and
    programs are compared by the language's structures: of STeP, types, functions and references, and the primitives
    along edges.

    `confirm` verifies a task's program again before it represents the task; None: recorded verdicts are trusted.
    """
    language = registry.find(name)
    return Domain(
        confirm=None if confirm is None else lambda example, outputs: confirm(example.task, outputs["impl"]),
        grouping_key=lambda outputs: language.key(None, outputs["impl"]),
        length=lambda outputs: code_length(outputs["impl"]),
        task_key=lambda example: str(example.task.name),
        traced_demos=False,
        structures=lambda inputs, outputs: language.structures(
            inputs["task"], None if outputs is None else str(outputs["impl"])
        ),
        relevance=lambda inputs, shown, outputs: language.relevance(
            inputs["task"], shown["task"], str(outputs["impl"])
        ),
        closeness=lambda attempt: closeness(attempt, language.stages),
    )


def examples(tasks: Iterable[Any]) -> list[dspy.Example]:
    """Tasks as an agent's inputs."""
    return [dspy.Example(task=task).with_inputs("task") for task in tasks]


def code_length(text: str) -> tuple[int, int]:
    """Lines of code and their characters, without comments, empty lines and surrounding spaces."""
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return sum(map(bool, lines)), sum(map(len, lines))


# --- classes of STeP programs and of the benchmark's tasks (paper, Table 2) -------------------------------------------

ORACLES = DATA / "oracles"


def program_class(program: Program) -> str:
    """A for arithmetic only or S for shape-manipulating, then 1 for every stream used once or R for some reused.

    The program keeps the affine rule: it copies exactly the streams that it reuses.
    """
    shapes = any(node.op.reshapes for node in program.nodes)
    reuses = any(node.op.kind == "copy" for node in program.nodes)
    return ("S" if shapes else "A") + ("R" if reuses else "1")


@cache
def task_class(name: str) -> str | None:
    """A benchmark task's class, `A1`, `AR`, `S1` or `SR`, by its oracle; None for other tasks."""
    oracle = ORACLES / f"{name}.step"
    if not oracle.is_file():
        return None
    program, _ = parse(oracle.read_text(encoding="utf-8"), static_scope(read_task(TASKS / f"{name}.yaml")))
    return program_class(program)
