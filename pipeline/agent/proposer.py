"""The proposer: a program for a task, directly, after reasoning, with tools, or line by line.

The tools cannot reach the task's own reference: its program is checked without being run. Only examples that are in the
prompt with their solutions are verified, and of these only the package's own and the user's tasks: a demonstration in a
compiled program from elsewhere is text, and its code never runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import dspy
import yaml
from dspy.utils.exceptions import AdapterParseError
from pydantic import ValidationError

from pipeline.agent.lessons import LineLessons
from pipeline.agent.refiner import ProgramVerifier, without_reference_values
from pipeline.agent.speaking import signature_in
from pipeline.base.choices import ProposerKind
from pipeline.base.languages import step_only
from pipeline.base.paths import DATA
from pipeline.languages import registry
from signatures import LineAdapter, Propose, ProposerPrompt, compose, extract_program, load_prompt, render_task
from signatures.extract import MAX_CHARACTERS
from step_runtime.base.errors import TaskError
from step_runtime.language.canonical import shown_program
from step_runtime.language.parser import read
from step_runtime.program.limits import Limits
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import check_program
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


_ITEMSIZE = 8
"""Bytes of a number when a program is verified."""

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
    context = _CONTEXT.get()
    text = extract_program(program)
    scope = static_scope(context.task)
    found = check_program(read(text), scope, Limits(), _ITEMSIZE).found
    rules = "\n".join(diagnostic.render(text) for diagnostic in found)
    verdict = rules or "No rule is broken; whether it computes the outputs is open."
    return f"{explain(text, scope).table()}\n\n{verdict}"


def list_examples() -> str:
    """List the names of the solved examples."""
    return ", ".join(_CONTEXT.get().examples) or "There is none."


def show_example(name: str) -> str:
    """Show a solved example: its task and its program."""
    example = _CONTEXT.get().examples.get(name)
    if example is None:
        return _unknown(name)
    return f"{render_task(example.task)}\n\n{shown_program(example.program, example.task.statement).strip()}"


def verify_on_example(name: str, program: str) -> str:
    """Run a program on a solved example's task, and say whether it computes that example's outputs."""
    context, example = _CONTEXT.get(), _CONTEXT.get().examples.get(name)
    if example is None:
        return _unknown(name)
    text = extract_program(program)
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


TURNS = 8
"""Tool calls before the program must be written."""

DEMONSTRATED = {
    "predict": "predict", "cot": "predict.predict", "react": "predict.extract.predict", "typed": "predict",
}  # fmt: skip
"""The name, within the proposer of a kind, of the predictor that gets demonstrations."""


class Proposer(dspy.Module):
    """Writes a candidate program for a task.

    Args:
        kind: `predict`, directly; `cot`, with reasoning first; `react`, in turns with tools (`TOOLS` below);
            `typed`, line by line, each chosen among those that the language lists.

    Attributes:
        lessons: What a run teaches the typed proposer; None: nothing.
    """

    def __init__(
        self,
        instructions: str,
        kind: ProposerKind = "predict",
        verifier: ProgramVerifier | None = None,
        *,
        ir: bool = True,
        language: str | None = None,
    ) -> None:
        super().__init__()
        self.language = language
        self.kind = kind
        self.lessons: LineLessons | None = None
        self.verifier = verifier or ProgramVerifier()
        signature = signature_in(language, Propose, ir).with_instructions(instructions)
        if kind in ("predict", "typed"):
            self.predict = dspy.Predict(signature)
        elif kind == "cot":
            self.predict = dspy.ChainOfThought(signature)
        else:
            step_only(language, "--proposer react")
            self.predict = dspy.ReAct(signature, list(TOOLS), max_iters=TURNS)

    def forward(self, task: Task) -> dspy.Prediction:
        """A prediction with `impl`; with `cot` and `react` also `reasoning`, with `react` its `turns`."""
        try:
            if self.kind == "react":
                examples = dict(self._examples(task))
                runnable = frozenset(name for name, example in examples.items() if self._may_run(example))
                with tool_context(ToolContext(task, examples, self.verifier, runnable)):
                    answer = dict(self.predict(task=task).items())
                # Renamed, as demonstrations would otherwise show all of it.
                answer["turns"] = answer.pop("trajectory")
            elif self.kind == "typed":
                answer = self._by_lines(task)
            else:
                answer = dict(self.predict(task=task).items())
            return dspy.Prediction(**answer)
        except AdapterParseError as error:
            # The answer is empty, or not what a turn asks for; it may still hold a program.
            return dspy.Prediction(impl=registry.find(self.language).extract(error.lm_response[-MAX_CHARACTERS:]))

    def _by_lines(self, task: Task) -> dict[str, Any]:
        """An answer made of lines that may follow each other, with what the language's own pass adds to them."""
        language = registry.find(self.language)
        with dspy.context(adapter=LineAdapter(language.next_lines, language.as_lines, self.lessons)):
            answer = dict(self.predict(task=task).items())
        repaired = language.repaired(task, answer["impl"])
        return answer if repaired is None else answer | {"impl": repaired}

    def _may_run(self, example: SolvedTask) -> bool:
        """Whether an example's code is the package's own or the user's."""
        return (
            any(example.task == shipped.task for _, shipped in shipped_examples())
            or example.task in self.verifier.tasks
        )

    def _examples(self, task: Task) -> Iterator[tuple[str, SolvedTask]]:
        """The solved tasks in the prompt by name, demonstrations first, without the task itself."""
        predictor = self.predict.extract.predict
        for number, demo in enumerate(predictor.demos, 1):
            shown = Task.model_validate(demo["task"]) if isinstance(demo["task"], dict) else demo["task"]
            if shown.without_impl() != task:
                yield f"demonstration {number}", SolvedTask(shown.without_impl(), demo["impl"])
        for name, example in _reference_examples(predictor.signature.instructions):
            if example.task != task:
                yield name, example


@cache
def packaged_prompt() -> ProposerPrompt:
    """The proposer's base prompt that comes with this package."""
    return load_prompt(ProposerPrompt, DATA / "prompts" / "proposer.yaml")


@cache
def shipped_examples() -> tuple[tuple[str, SolvedTask], ...]:
    """The examples in `packaged_prompt`, each with its name."""
    return _reference_examples(compose(packaged_prompt()))


@lru_cache(maxsize=8)
def _reference_examples(instructions: str) -> tuple[tuple[str, SolvedTask], ...]:
    """The solved examples in a base prompt that `signatures.compose` wrote; none for other instructions."""
    try:
        prompt = ProposerPrompt.model_validate(yaml.safe_load(f"{instructions}\n"))
    except (ValidationError, yaml.YAMLError):
        return ()
    return tuple(
        (f"{reference.name} {number}", example)
        for reference in (*prompt.primitives, *prompt.patterns)
        for number, example in enumerate(reference.solved, start=1)
    )
