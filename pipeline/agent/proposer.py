"""The proposer: a program for a task, at once, after reasoning, or with tools at hand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Literal, get_args

import dspy
import yaml
from dspy.utils.exceptions import AdapterParseError
from pydantic import ValidationError

from pipeline.agent.refiner import Judge
from pipeline.agent.tools import TOOLS, Bench, at_work
from pipeline.base.paths import DATA
from signatures import Propose, ProposerPrompt, compose, extract_program, load_prompt, without_ir
from step_runtime.tasks.task import SolvedTask, Task

ProposerKind = Literal["predict", "cot", "react"]
TURNS = 8
"""Calls of tools before the program must be written."""

_TAUGHT = {"predict": "predict", "cot": "predict.predict", "react": "predict.extract.predict"}


class Proposer(dspy.Module):
    """Writes a candidate program for a task.

    Args:
        instructions: the base prompt, composed.
        kind: `predict`, at once; `cot`, with reasoning first; `react`, in turns with tools (`pipeline.agent.tools`).
        judge: what verifies for the tools.
        ir: whether the task is shown in the structural IR.

    Raises:
        ValueError: there is no such kind.
    """

    def __init__(
        self, instructions: str, kind: ProposerKind = "predict", judge: Judge | None = None, *, ir: bool = True
    ) -> None:
        super().__init__()
        if kind not in get_args(ProposerKind):
            raise ValueError(f"the proposer's kind is one of {', '.join(get_args(ProposerKind))}, not {kind!r}")
        self.kind = kind
        self.judge = judge or Judge()
        signature = (Propose if ir else without_ir(Propose)).with_instructions(instructions)
        if kind == "predict":
            self.predict = dspy.Predict(signature)
        elif kind == "cot":
            self.predict = dspy.ChainOfThought(signature)
        else:
            self.predict = dspy.ReAct(signature, list(TOOLS), max_iters=TURNS)

    @property
    def taught(self) -> tuple[str, ...]:
        """The names, within this module, of the predictors that demonstrations go to."""
        return (_TAUGHT[self.kind],)

    def forward(self, task: Task) -> dspy.Prediction:
        """A prediction with `impl`; with `cot` and `react` also `reasoning`, with `react` its `turns`."""
        try:
            if self.kind == "react":
                examples = dict(self._examples(task))
                runnable = frozenset(name for name, example in examples.items() if self._may_run(example))
                with at_work(Bench(task, examples, self.judge, runnable)):
                    answer = dict(self.predict(task=task).items())
                # Not under its own name, or demonstrations would show it whole.
                answer["turns"] = answer.pop("trajectory")
            else:
                answer = dict(self.predict(task=task).items())
            return dspy.Prediction(**answer)
        except AdapterParseError as error:
            # The LM wrote nothing at all, or not what a turn asks for: a program right away is an answer, too.
            return dspy.Prediction(impl=extract_program(error.lm_response))

    def _may_run(self, example: SolvedTask) -> bool:
        """Whether an example's code is the package's own or the user's."""
        return example.task in _shipped_tasks() or example.task in self.judge.tasks

    def _examples(self, task: Task) -> Iterator[tuple[str, SolvedTask]]:
        """The solved tasks in the prompt by name, demonstrations first; never the task itself."""
        predictor = self.predict.extract.predict
        for demo in predictor.demos:
            shown = Task.model_validate(demo["task"]) if isinstance(demo["task"], dict) else demo["task"]
            if shown.without_impl() != task:
                yield shown.name, SolvedTask(shown.without_impl(), demo["impl"])
        for name, example in _reference_examples(predictor.signature.instructions):
            if example.task != task:
                yield name, example


@cache
def _shipped_tasks() -> tuple[Task, ...]:
    """The tasks of the examples in the proposer's base prompt that comes with this package."""
    prompt = load_prompt(ProposerPrompt, DATA / "prompts" / "proposer.yaml")
    return tuple(example.task for _, example in _reference_examples(compose(prompt)))


@lru_cache(maxsize=8)
def _reference_examples(instructions: str) -> tuple[tuple[str, SolvedTask], ...]:
    """The solved examples in a base prompt, which is YAML as `signatures.compose` wrote it; none in another."""
    try:
        prompt = ProposerPrompt.model_validate(yaml.safe_load(f"{instructions}\n"))
    except (ValidationError, yaml.YAMLError):
        return ()
    return tuple(
        (f"{reference.name} {number}", example.solved())
        for reference in (*prompt.primitives, *prompt.patterns)
        for number, example in enumerate(reference.examples, start=1)
    )
