"""From the text of a request to the text of its answer, without DSPy, so that a worker process starts fast."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from pipeline.lms.embedded.prompt.parsing import (
    Examples,
    Question,
    SolvedExample,
    demonstration,
    question,
    solved_examples,
)
from pipeline.lms.embedded.small.small_proposer import SmallProposer
from pipeline.lms.embedded.strong.strong_proposer import StrongProposer
from pipeline.lms.embedded.task_view import TaskView, view_of
from step_runtime.language.equivalence import canonical_key
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_affine, insert_copies

DEFAULT_TEMPERATURE = 0.7
OTHERWISE = 4
"""How often a new program is sampled if the last equals the rejected one."""
_MANY = 50_000
"""The number of new objects from which on a pass of the garbage collector over them takes milliseconds."""


class OfflineProposer(Protocol):
    """What finds programs. `name` changes whenever a request may get another answer under the same seed."""

    name: str
    how: str
    """One sentence on how it finds a program, for requests that ask for reasoning."""

    def propose(self, view: TaskView, read: Examples, seed: int, temperature: float) -> str | None:
        """A program for the task, given the examples; None if none is found. Safe to call from several threads."""


@dataclass(frozen=True)
class EmbeddedRequest:
    """The text of a request; a role and a text for each message, and None for the default temperature."""

    system: str
    messages: tuple[tuple[str, str], ...]
    seed: int
    temperature: float | None = None


def proposer_named(model: str) -> OfflineProposer:
    """The proposer of `embedded` or `embedded/small`, with or without a version suffix."""
    size = model.partition("/")[2].partition("-")[0]
    return SmallProposer() if size == "small" else StrongProposer()


def answer(proposer: OfflineProposer, asked: EmbeddedRequest) -> str:
    """The answer's text; if the request cannot be interpreted, the answer says so."""
    query = question(asked.messages[-1][1])
    if "next_tool_name" in query.fields:
        return "I call no tools: I can only write STeP programs at once."
    view = None if query.task is None else view_of(query.task)
    if view is None:
        return "I can only write STeP programs, and found no task (YAML with inputs and outputs) in this request."
    if query.program is not None:
        repaired = repair(view.task, query.program, query.diagnostics is None)
        if query.diagnostics is None or repaired is not None:
            # What cannot be parsed is returned unchanged: the checker's own message helps more than a guess.
            return _formatted(query, repaired or query.program, "every stream that is used again gets a Copy")
    read = (solved_examples(asked.system), _demonstrations(asked.messages[:-1]))
    mixed = _mixed(asked.seed, asked.messages[-1][1])
    heat = DEFAULT_TEMPERATURE if asked.temperature is None else asked.temperature
    with _without_collector():
        program = _proposed(proposer, view, read, (mixed, heat), query.program)
    if program is None:
        return "I found no well-typed program that applies every function of this task and gives its outputs."
    return _formatted(query, program, proposer.how)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Puts off the garbage collector: a pass over all that a process holds takes longer than a sample may.

    What a large sample leaves in caches is set aside, so that no later pass visits it. Garbage in cycles would be set
    aside with it: a sample leaves next to none.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if gc.get_count()[0] > _MANY:
                gc.freeze()
            gc.enable()


def _proposed(
    proposer: OfflineProposer, view: TaskView, read: Examples, settings: tuple[int, float], rejected: str | None
) -> str | None:
    """A program, if possible another than the rejected one; `settings` are seed and temperature."""
    seed, heat = settings
    program = proposer.propose(view, read, seed, heat)
    for turn in range(OTHERWISE if rejected else 0):
        if program is not None and canonical_key(program) != canonical_key(rejected or ""):
            break
        program = proposer.propose(view, read, _mixed(seed, f"another, {turn}"), heat)
    return program


def repair(task: Task, text: str, always: bool = True) -> str | None:
    """The program with missing Copies inserted; None if it cannot be parsed, or lacks none and `always` is not set."""
    program, wrong = parse(text, static_scope(task))
    return None if wrong or not (always or check_affine(program)) else print_program(insert_copies(program))


def _demonstrations(messages: Sequence[tuple[str, str]]) -> tuple[SolvedExample, ...]:
    pairs = [
        (user, assistant)
        for (role, user), (answerer, assistant) in itertools.pairwise(messages)
        if (role, answerer) == ("user", "assistant")
    ]
    found = (demonstration(*pair) for pair in pairs)
    return tuple(solved for solved in found if solved is not None)


def _mixed(seed: int, text: str) -> int:
    """A seed for this question: the same seed must not make the same choices in every task."""
    return int.from_bytes(hashlib.sha256(f"{seed}\n{text}".encode()).digest()[:8], "big")


def _formatted(query: Question, program: str, reason: str) -> str:
    """The answer under the markers that the request asks for; the program alone where it asks for none."""
    if not query.fields:
        return f"```python\n{program.rstrip()}\n```"
    *others, last = query.fields
    bodies = {**dict.fromkeys(others, reason), last: program.rstrip()}
    return "\n\n".join([*(f"[[ ## {name} ## ]]\n{body}" for name, body in bodies.items()), "[[ ## completed ## ]]"])
