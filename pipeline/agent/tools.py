"""The tools of `--proposer react`: types and shapes of a program, and verification on solved examples.

The task's own reference is out of their reach: its program is checked without being run. Only examples that stand in
the prompt with their solution are verified, and of these only the package's own and the user's tasks: a demonstration
in a compiled program from elsewhere is text, and its code never runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from pipeline.agent.refiner import Judge, told
from signatures import extract_program, render_task
from step_runtime.base.errors import TaskError
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import check_affine, check_outputs, infer_types
from step_runtime.verification.explain import explain


@dataclass(frozen=True)
class Bench:
    """What the tools work on.

    Attributes:
        task: The task at hand.
        examples: Solved examples by name, which are shown.
        judge: What verifies.
        runnable: Names of the examples whose code may run: those that come with this package, and the user's own tasks.
            A program from elsewhere brings text alone.
    """

    task: Task
    examples: Mapping[str, SolvedTask]
    judge: Judge
    runnable: frozenset[str] = frozenset()


_BENCH: ContextVar[Bench] = ContextVar("bench")


@contextmanager
def at_work(bench: Bench) -> Iterator[None]:
    """The tools work on `bench` within the context, in this thread."""
    token = _BENCH.set(bench)
    try:
        yield
    finally:
        _BENCH.reset(token)


def check(program: str) -> str:
    """Check a program for the task: the dtype and dims of every stream, and what breaks a rule. Computes nothing."""
    bench, text = _BENCH.get(), extract_program(program)
    scope = static_scope(bench.task)
    graph, found = parse(text, scope)
    types, typed = infer_types(graph, scope)
    found = [*found, *typed, *check_affine(graph)] or check_outputs(graph, types, scope)
    rules = "\n".join(diagnostic.render(text) for diagnostic in found)
    return f"{explain(text, scope).table()}\n\n{rules or 'No rule is broken; whether it computes the outputs is open.'}"


def list_examples() -> str:
    """List the names of the solved examples."""
    return ", ".join(_BENCH.get().examples) or "There is none."


def show_example(name: str) -> str:
    """Show a solved example: its task and its program."""
    example = _BENCH.get().examples.get(name)
    return _unknown(name) if example is None else f"{render_task(example.task)}\n\n{example.program.strip()}"


def verify_on_example(name: str, program: str) -> str:
    """Run a program on a solved example's task, and say whether it computes that example's outputs."""
    bench, text = _BENCH.get(), extract_program(program)
    example = bench.examples.get(name)
    if example is None:
        return _unknown(name)
    if name not in bench.runnable:
        return "This example can't be run: its task is not among this run's tasks."
    try:
        verdict = bench.judge(example.task.named(name), text)
    except TaskError as error:
        return f"This example can't be run: {error}"
    return "It passes." if verdict else told(verdict.stage, verdict.feedback)


def _unknown(name: str) -> str:
    return f"There is no example {name!r}; there are: {list_examples()}"


TOOLS: tuple[Callable[..., str], ...] = (check, list_examples, show_example, verify_on_example)
