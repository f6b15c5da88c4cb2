"""The world of STeP tasks, read by an embedded proposer or by any LM.

`small` is `embedded/small`, `unread` the strong proposer with its reading of the reference switched off, `embedded` the
strong proposer; `@A` behind any is a limit of attention. Limits of steps per sample are lower than in the product,
which bounds the time of the slowest samples.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import dspy

from benchmarks.proposing import Desk
from benchmarks.selection.worlds import Answered, Asked, attended
from optimizers import Entry
from optimizers.filtering import choose_answer
from optimizers.sampling import TaskExample
from pipeline.agent.agent import Agent
from pipeline.agent.domain import code_length, structures
from pipeline.lms.embedded import EmbeddedEngine, SmallProposer, StrongProposer
from pipeline.lms.embedded.strong.strong_proposer import Effort
from pipeline.lms.factory import make_lm
from signatures import YAMLAdapter, extract_program
from signatures.prompts import Reference
from step_runtime.base.errors import STAGES
from step_runtime.language.equivalence import canonical_key
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verifier

TEMPERATURE = 0.7
STEPS = {"small": 60_000, "unread": 150_000}
CHARACTERS_PER_TOKEN = 4


class Reader(Protocol):
    """Writes a program for a task after solved ones; None if it wrote none."""

    def __call__(self, task: Task, demos: Sequence[tuple[Task, str]], seed: int) -> str | None:
        """The program."""


def embedded_reader(name: str, patterns: Sequence[Reference] = ()) -> Reader:
    """`small`, `unread`, or `embedded`; `patterns` are added to its base prompt."""
    if name == "embedded":
        engine = EmbeddedEngine(StrongProposer(Effort(steps=STEPS["unread"])))
    elif name == "small":
        engine = EmbeddedEngine(SmallProposer(STEPS[name]))
    else:
        engine = EmbeddedEngine(StrongProposer(Effort(following=0.0, steps=STEPS[name])))
    desk = Desk(engine, patterns)
    return lambda task, demos, seed: desk.sample(desk.prompt(task, demos), seed, TEMPERATURE).program


def lm_reader(model: str, api_base: str | None, max_tokens: int) -> Reader:
    """Any LM, asked once a sample; answers are cached on disk, so that a resumed run does not pay again."""
    lm = make_lm(model, api_base, max_tokens=max_tokens)
    signature, adapter = Agent("none").proposer.predict.signature, YAMLAdapter()

    def answer(task: Task, demos: Sequence[tuple[Task, str]], seed: int) -> str | None:
        shown = [{"task": solved, "impl": impl} for solved, impl in demos]
        messages = adapter.format(signature, shown, {"task": task})
        (text, *_) = lm(messages=messages, temperature=TEMPERATURE, seed=seed, rollout_id=seed)
        return extract_program(text if isinstance(text, str) else text.get("text", ""))

    return answer


class StepWorld:
    """See `World`.

    Args:
        name: Of the reader.
        reader: Writes programs.
        tasks: By key, named by their keys.
        groups: The group of each.
        attention: A: how many of the shown demonstrations the reader attends to; None for all.
        threads: Samples in flight.
    """

    def __init__(
        self,
        name: str,
        reader: Reader,
        tasks: Mapping[str, Task],
        groups: Mapping[str, str],
        attention: int | None = None,
        threads: int = 1,
    ) -> None:
        self.name, self.groups = name, groups
        self.tasks = {
            key: TaskExample(number, key, dspy.Example(task=task).with_inputs("task"))
            for number, (key, task) in enumerate(tasks.items())
        }
        self._tasks, self._reader, self._attention, self._threads = tasks, reader, attention, threads
        self._verifiers: dict[str, Verifier] = {}
        self._verdicts: dict[tuple[str, str], Answered] = {}
        self._structures: dict[tuple[str, str | None], frozenset[Hashable]] = {}

    def answers(self, asked: Sequence[Asked]) -> list[Answered]:
        """See `World.answers`; programs are judged in this thread."""
        if self._threads == 1:
            programs = [self._answer(one) for one in asked]
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                programs = list(pool.map(self._answer, asked))
        return [self._judged(one.key, program) for one, program in zip(asked, programs, strict=True)]

    def structures(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> frozenset[Hashable]:
        """See `World.structures`: those of the product."""
        name = (str(inputs["task"].name), None if outputs is None else str(outputs["impl"]))
        if name not in self._structures:
            self._structures[name] = frozenset[Hashable](structures(inputs, outputs))
        return self._structures[name]

    def demo_tokens(self, entry: Entry) -> int:
        """See `World.demo_tokens`: a token for every four characters, as the embedded LM counts."""
        characters = len(entry.inputs["task"].statement) + len(entry.outputs["impl"])
        return -(-characters // CHARACTERS_PER_TOKEN)

    def choose(self, correct: Sequence[Mapping[str, Any]], rng: random.Random) -> Mapping[str, Any]:
        """See `World.choose`: the filter function sigma."""
        programs = [str(outputs["impl"]) for outputs in correct]
        return {"impl": choose_answer(programs, canonical_key, code_length, rng)}

    def _answer(self, asked: Asked) -> str | None:
        demos = attended(asked.shown, self._attention, asked.seed, asked.key)
        pairs = [(entry.inputs["task"], str(entry.outputs["impl"])) for entry in demos]
        return self._reader(self._tasks[asked.key], pairs, asked.seed)

    def _judged(self, key: str, program: str | None) -> Answered:
        if program is None:
            return Answered(False, 0.0, None)
        if (key, program) not in self._verdicts:
            verdict = self._verifiers.setdefault(key, Verifier(self._tasks[key])).verify(program)
            closeness = STAGES.index(verdict.stage) / len(STAGES) if verdict.stage in STAGES else float(verdict.passed)
            self._verdicts[key, program] = Answered(verdict.passed, closeness, {"impl": program})
        return self._verdicts[key, program]
