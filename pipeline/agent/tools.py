"""The tools of `--proposer react`: types and shapes of a program, and verification on solved examples.

They cannot reach the task's own reference: its program is checked without being run. Only examples that are in the
prompt with their solutions are verified, and of these only the package's own and the user's tasks: a demonstration in a
compiled program from elsewhere is text, and its code never runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pipeline.agent.refiner import without_reference_values
from pipeline.agent.verifier import ProgramVerifier
from signatures import extract_program, render_task
from step_runtime.base.errors import TaskError
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import check_affine, check_outputs, infer_types
from step_runtime.verification.explain import explain


@dataclass(frozen=True)
class ToolContext:
    """The data that the tools use.

    Attributes:
        examples: Solved examples by name, which are shown.
        runnable: Names of the examples whose code may run: those that come with this package, and the user's own
            tasks. A program from elsewhere contributes text only.
    """

    task: Task
    examples: Mapping[str, SolvedTask]
    verifier: ProgramVerifier
    runnable: frozenset[str] = frozenset()


_CONTEXT: ContextVar[ToolContext] = ContextVar("tool_context")


@contextmanager
def tool_context(context: ToolContext) -> Iterator[None]:
    """Makes the tools use a context in this thread."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def check(program: str) -> str:
    """Check a program for the task: the dtype and dims of every stream, and what breaks a rule. Computes nothing."""
    context, text = _CONTEXT.get(), extract_program(program)
    scope = static_scope(context.task)
    graph, diagnostics = parse(text, scope)
    types, typed = infer_types(graph, scope)
    diagnostics = [*diagnostics, *typed, *check_affine(graph)] or check_outputs(graph, types, scope)
    rules = "\n".join(diagnostic.render(text) for diagnostic in diagnostics)
    return f"{explain(text, scope).table()}\n\n{rules or 'No rule is broken; whether it computes the outputs is open.'}"


def list_examples() -> str:
    """List the names of the solved examples."""
    return ", ".join(_CONTEXT.get().examples) or "There is none."


def show_example(name: str) -> str:
    """Show a solved example: its task and its program."""
    example = _CONTEXT.get().examples.get(name)
    return _unknown(name) if example is None else f"{render_task(example.task)}\n\n{example.program.strip()}"


def verify_on_example(name: str, program: str) -> str:
    """Run a program on a solved example's task, and say whether it computes that example's outputs."""
    context, text = _CONTEXT.get(), extract_program(program)
    example = context.examples.get(name)
    if example is None:
        return _unknown(name)
    if name not in context.runnable:
        return "This example can't be run: its task is not among this run's tasks."
    try:
        verdict = context.verifier(example.task.named(name), text)
    except TaskError as error:
        return f"This example can't be run: {error}"
    return "It passes." if verdict else without_reference_values(verdict.stage, verdict.feedback)


def _unknown(name: str) -> str:
    return f"There is no example {name!r}; there are: {list_examples()}"


TOOLS: tuple[Callable[..., str], ...] = (check, list_examples, show_example, verify_on_example)
