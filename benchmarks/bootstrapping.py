"""DSPy's bootstrap on the agent, with its samples counted: the first four solutions found become demonstrations."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.lm15 import Request, Response

from benchmarks.proposing import Judge
from pipeline.agent.agent import Agent
from pipeline.lms.embedded import EmbeddedEngine
from step_runtime.tasks.task import Task

_ANY = 1_000_000
"""Failures that DSPy ignores; to DSPy, an answer that cannot be parsed is one."""


@dataclass(frozen=True)
class Bootstrapped:
    """The solved tasks with their answers and the tries of each; samples and prompt tokens spent."""

    solved: tuple[tuple[Task, str, int], ...]
    samples: int
    prompt_tokens: int


class _Counted(EmbeddedEngine):
    """Gives each request its seed, as DSPy sets none, and counts."""

    def __init__(self, engine: EmbeddedEngine, seed: int) -> None:
        self._engine, self._seed = engine, seed
        self.samples = self.prompt_tokens = 0

    def complete(self, request: Request) -> Response:
        """The engine's answer under the next seed."""
        digest = hashlib.sha256(f"bootstrap/{self._seed}/{self.samples}".encode()).digest()
        config = dataclasses.replace(request.config, seed=int.from_bytes(digest[:4], "big"))
        response = self._engine.complete(dataclasses.replace(request, config=config))
        self.samples += 1
        self.prompt_tokens += response.usage.input_tokens
        return response


def bootstrap(
    engine: EmbeddedEngine, tasks: Sequence[Task], judge: Judge, seed: int, rounds: int, temperature: float
) -> Bootstrapped:
    """What `dspy.BootstrapFewShot` finds in so many attempts per task; each seed orders the tasks differently."""
    counted = _Counted(engine, seed)
    tries: dict[str, int] = {}

    def right(example: dspy.Example, prediction: dspy.Prediction, trace: Any = None) -> bool:
        tries[example.task.name] = tries.get(example.task.name, 0) + 1
        return judge.passes(example.task, prediction.impl)

    ordered = random.Random(seed).sample(list(tasks), len(tasks))
    examples = [dspy.Example(task=task).with_inputs("task") for task in ordered]
    optimizer = dspy.BootstrapFewShot(metric=right, max_labeled_demos=0, max_rounds=rounds, max_errors=_ANY)
    lm = dspy.LM(engine.model, engine=counted, cache=False, temperature=temperature)
    with dspy.context(lm=lm), contextlib.redirect_stdout(sys.stderr):
        compiled = optimizer.compile(Agent("none"), trainset=examples)
    demos = compiled.proposer.predict.demos
    solved = tuple((demo.task, str(demo.impl), tries[demo.task.name]) for demo in demos)
    return Bootstrapped(solved, counted.samples, counted.prompt_tokens)
