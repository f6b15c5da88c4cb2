"""Asks the embedded proposer as DSPy would, and judges its answers: for experiments with many samples.

The messages are those that the agent's predictor and adapter write, demonstrations included, and go straight to the
engine. DSPy's bookkeeping around a call is left out, and so is the gated guardian, which has nothing to do: an
embedded proposal never breaks the affine rule. Verdicts are cached by program text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dspy.lm15 import Config, Message, Request

from pipeline.agent.agent import Agent
from pipeline.base.settings import PromptKind
from pipeline.lms.embedded import EmbeddedEngine
from pipeline.verification.task_files import FUNCTIONS_SUFFIXES
from signatures import YAMLAdapter
from step_runtime.tasks.task import Task
from step_runtime.verification.loading import load_task
from step_runtime.verification.verify import Verifier

DATA = Path(__file__).parents[1] / "data"


@dataclass(frozen=True)
class Prompt:
    """A request without its seed and temperature."""

    system: str
    messages: tuple[Message, ...]


class Desk:
    """Writes prompts and asks one engine."""

    def __init__(self, engine: EmbeddedEngine, kind: PromptKind = "full") -> None:
        self._engine = engine
        self._signature = Agent("none", prompt=kind).proposer.predict.signature
        self._adapter = YAMLAdapter()

    def prompt(self, task: Task, demonstrations: Sequence[tuple[Task, str]] = ()) -> Prompt:
        """The messages for a task after solved ones, in order."""
        demos = [{"task": solved, "impl": impl} for solved, impl in demonstrations]
        system, *rest = self._adapter.format(self._signature, demos, {"task": task})
        roles = {"user": Message.user, "assistant": Message.assistant}
        return Prompt(str(system["content"]), tuple(roles[part["role"]](part["content"]) for part in rest))

    def sample(self, prompt: Prompt, seed: int, temperature: float) -> str | None:
        """The program that answers a prompt; None if the proposer found none."""
        config = Config(seed=seed, temperature=temperature)
        response = self._engine.complete(
            Request(model="embedded", system=prompt.system, messages=prompt.messages, config=config)
        )
        return self.program(response.message.text or "")

    def program(self, text: str) -> str | None:
        """The program in an answer's text; None if it has none."""
        return self._adapter.parse(self._signature, text)["impl"] if "[[ ##" in text else None


class Judge:
    """Verdicts on programs, computed once per text."""

    def __init__(self) -> None:
        self._verifiers: dict[str, Verifier] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def passes(self, task: Task, program: str | None) -> bool:
        """Whether a program implements the task; tasks are known by their names."""
        if program is None:
            return False
        key = (task.name or "", program)
        if key not in self._known:
            verifier = self._verifiers.setdefault(key[0], Verifier(task))
            self._known[key] = verifier.verify(program).passed
        return self._known[key]


@cache
def tasks_in(folder: str) -> tuple[Task, ...]:
    """The tasks below `data/FOLDER`, by name."""
    root = DATA / folder
    return tuple(
        load_task(path).named(path.relative_to(root).with_suffix("").as_posix())
        for path in sorted(root.rglob("*.yaml"))
        if not path.name.endswith(FUNCTIONS_SUFFIXES)
    )
