"""The engine that DSPy's LM class calls: it turns a request's text into an answer's text."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from dspy.lm15 import Message, Request, Response, Usage, response_to_events

from pipeline.lms.embedded.prompt.parsing import (
    Examples,
    Question,
    SolvedExample,
    demonstration,
    question,
    solved_examples,
)
from pipeline.lms.embedded.strong.strong_proposer import StrongProposer
from pipeline.lms.embedded.task_view import TaskView, view_of
from step_runtime.language.equivalence import canonical_key
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_affine, insert_copies

DEFAULT_TEMPERATURE = 0.7
CHARACTERS_PER_TOKEN = 4
OTHERWISE = 4
"""How often a new program is sampled if the last equals the rejected one."""


class OfflineProposer(Protocol):
    """What finds programs. `name` changes whenever a request may get another answer under the same seed."""

    name: str
    how: str
    """One sentence on how it finds a program, for requests that ask for reasoning."""

    def propose(self, view: TaskView, read: Examples, seed: int, temperature: float) -> str | None:
        """A program for the task, given the examples; None if none is found. Safe to call from several threads."""


class EmbeddedEngine:
    """The offline proposer and guardian as an engine for `dspy.LM(engine.model, engine=engine)`.

    A request with a seed always gets the same answer. A request without a seed gets the next of a fixed sequence of
    answers, so that several completions of one request differ. Safe to call from several threads.
    """

    supports_function_calling = False
    supports_reasoning = False
    supports_response_schema = False

    def __init__(self, proposer: OfflineProposer | None = None) -> None:
        self._proposer = proposer or StrongProposer()
        self._row = itertools.count()

    @property
    def model(self) -> str:
        """The LM's name, with its version: DSPy's cache knows models apart, but not engines."""
        return f"embedded/{self._proposer.name}"

    def complete(self, request: Request) -> Response:
        """Answers one request; if it cannot interpret the request, the answer says so instead of raising."""
        messages = [(message.role, message.text or "") for message in request.messages]
        system = _text(request.system)
        answer = self._answer(system, messages, request.config.seed, request.config.temperature)
        sent = len(system) + sum(len(text) for _, text in messages)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(answer),
            finish_reason="stop",
            usage=Usage(input_tokens=estimate_tokens(sent), output_tokens=estimate_tokens(len(answer))),
            provider_data={"usage": f"estimated: one token for every {CHARACTERS_PER_TOKEN} characters, rounded up"},
        )

    def stream(self, request: Request) -> Iterator[Any]:
        """The same answer as events."""
        yield from response_to_events(self.complete(request))

    def close(self) -> None:
        """Nothing is held."""

    def __deepcopy__(self, memo: dict[int, Any]) -> EmbeddedEngine:
        """Copies of an LM share the engine, and with it its caches."""
        return self

    def _answer(self, system: str, messages: Sequence[tuple[str, str]], seed: int | None, heat: float | None) -> str:
        query = question(messages[-1][1])
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
        read = (solved_examples(system), _demonstrations(messages[:-1]))
        own = next(self._row) if seed is None else seed
        mixed = _mixed(own, messages[-1][1])
        program = self._proposed(view, read, mixed, DEFAULT_TEMPERATURE if heat is None else heat, query.program)
        if program is None:
            return "I found no well-typed program that applies every function of this task and gives its outputs."
        return _formatted(query, program, self._proposer.how)

    def _proposed(self, view: TaskView, read: Examples, seed: int, heat: float, rejected: str | None) -> str | None:
        """A program, if possible another than the rejected one."""
        program = self._proposer.propose(view, read, seed, heat)
        for turn in range(OTHERWISE if rejected else 0):
            if program is not None and canonical_key(program) != canonical_key(rejected or ""):
                break
            program = self._proposer.propose(view, read, _mixed(seed, f"another, {turn}"), heat)
        return program


def repair(task: Task, text: str, always: bool = True) -> str | None:
    """The program with missing Copies inserted; None if it cannot be parsed, or lacks none and `always` is not set."""
    program, wrong = parse(text, static_scope(task))
    return None if wrong or not (always or check_affine(program)) else print_program(insert_copies(program))


def estimate_tokens(characters: int) -> int:
    """The estimated number of tokens: there is no tokenizer."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def _text(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    return "\n".join(getattr(part, "text", "") for part in system)


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
