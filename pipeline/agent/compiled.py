"""A compiled program as one readable JSON file: its instructions, its demonstrations, and its origin.

The file holds all instructions and demonstrations, so a program behaves as when it was compiled even if `data/prompts`
has changed since. It works with any LM. Loading runs no code from the file and validates all of its content.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

import dspy
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from optimizers import Entry, TokenCount
from optimizers.strategies import DemoPool
from pipeline.agent.agent import Agent, demonstrated_predictors
from pipeline.base.errors import UsageError
from pipeline.base.files import file_errors, read_bytes, write_text
from pipeline.base.settings import MOST_REPAIRS, GuardianMode, PromptKind, ProposerKind
from pipeline.base.text import unique, visible_json
from pipeline.languages import registry
from signatures import ANSWERS, digest
from step_runtime.base.errors import TaskError, describe_error, describe_value
from step_runtime.base.mistakes import mistake
from step_runtime.tasks.task import Task

OPTIONAL = {"reasoning", "trajectory"}
"""Fields that a demonstration may lack."""

LONGEST = 2**28
"""Bytes of a file."""

MAX_MESSAGES = 20
"""Problems in a file that are reported."""

_MOST = 10**12
"""Of any count, so that a quotient is a float."""

Lines = list[str]
"""A text of several lines, which JSON would write on one line."""


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SavedDemonstration(_Saved):
    """A solved example: the task as YAML, and the other fields of the predictor's signature."""

    name: str
    task: Lines
    fields: dict[str, Any]  # of lines, which is checked once the names of the fields are known


class SavedSolution(SavedDemonstration):
    """A solved task that may be shown, with the number of the LM's right answers."""

    successes: int = Field(ge=0, le=_MOST)
    samples: int = Field(ge=1, le=_MOST)

    @model_validator(mode="after")
    def _is_possible(self) -> SavedSolution:
        if self.successes > self.samples:
            raise ValueError(f"expected at most {self.samples} successes, as many as samples, got {self.successes}")
        return self


class SavedPool(_Saved):
    """The solved tasks of which each task is shown those that suit it, in `tokens` at most: see `DemoPool`."""

    tokens: int | None = Field(default=None, ge=1, le=_MOST)
    relevant: bool = False
    solutions: list[SavedSolution]


class SavedPredictor(_Saved):
    """The instructions and demonstrations of one predictor; `prompt` is the digest of the instructions."""

    prompt: str
    demonstrations: list[SavedDemonstration]
    instructions: Lines


class SavedProgram(_Saved):
    """The content of the file.

    `lm` is the model that the program was compiled with; `language` and its version then are those of programs that
    are not in the default.
    """

    format: Literal["adaptive-step"] = "adaptive-step"
    version: Literal[1] = 1
    lm: str | None
    guardian: GuardianMode
    proposer: ProposerKind = "predict"
    refine: int = Field(default=0, ge=0, le=MOST_REPAIRS)
    ir: bool = True
    prompt: PromptKind = "full"
    language: str | None = None
    language_version: str | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    pool: SavedPool | None = None
    predictors: dict[str, SavedPredictor]


def save_program(
    program: Agent,
    path: str | Path,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Writes a program to a file, atomically; an existing file is replaced.

    `metadata` is JSON data on how the program was made.

    Raises:
        UsageError: The file cannot be written.
    """
    lms = [predictor.lm or dspy.settings.lm for predictor in program.predictors()]
    saved = SavedProgram(
        lm=next((lm.model for lm in lms if lm is not None), None),
        guardian=program.guardian.mode,
        proposer=program.proposer.kind,
        refine=program.refine,
        ir=program.ir,
        prompt=program.prompt,
        language=program.language,
        language_version=program.language and registry.version(program.language),
        metadata=dict(metadata or {}),
        pool=program.pool and _saved_pool(program, program.pool),
        predictors={name: _saved(predictor) for name, predictor in program.named_predictors()},
    )
    content = saved.model_dump(
        exclude={name for name in ("language", "language_version", "pool") if getattr(saved, name) is None}
    )
    write_text(Path(path), visible_json(content, indent=1) + "\n")


def read_program(path: str | Path, source: str | None = None) -> SavedProgram:
    """The content of a program's file, called `source` in messages; `make_agent` validates its demonstrations.

    Raises:
        UsageError: The file cannot be read or is not a compiled program.
    """
    source = source or str(path)
    with file_errors(f"{source}: cannot read the program"):
        return parse_program(read_bytes(Path(path), LONGEST), source)


def parse_program(text: str | bytes, source: str) -> SavedProgram:
    """The content of a program's file from its text; `make_agent` validates its demonstrations.

    Raises:
        UsageError: It is not a compiled program.
    """
    try:
        content = json.loads(text, parse_constant=_no_number, object_pairs_hook=unique)
        json.dumps(content, ensure_ascii=False).encode()  # refuses lone surrogates, which JSON can write as escapes
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{source}: expected a compiled program in JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != "adaptive-step":
        raise UsageError(f'{source}: expected a compiled program, with "format": "adaptive-step"')
    if content.get("version") != 1:
        raise UsageError(f"{source}: the file is of version {content.get('version')!r}; this code reads version 1")
    try:
        return SavedProgram.model_validate(content)
    except ValidationError as error:
        found = error.errors()[:MAX_MESSAGES]
        problems = (f"{'.'.join(map(_key, item['loc']))}: {mistake(item)}" for item in found)
        raise UsageError("\n".join(f"{source}: {problem}" for problem in problems)) from None


def make_agent(saved: SavedProgram, source: str) -> Agent:
    """The agent that a file describes, without an LM.

    Raises:
        UsageError: The predictors differ from the agent's, or a demonstration is invalid.
    """
    agent = Agent(
        saved.guardian,
        proposer=saved.proposer,
        refine=saved.refine,
        ir=saved.ir,
        prompt=saved.prompt,
        prompts=dict.fromkeys(("proposer", "guardian", "refiner"), ""),
        language=saved.language,
    )
    expected = [name for name, _ in agent.named_predictors()]
    if sorted(saved.predictors) != sorted(expected):
        found = ", ".join(saved.predictors) or "none"
        raise UsageError(f"{source}: predictors: expected {' and '.join(expected)}, found {found}")
    for name, predictor in agent.named_predictors():
        known = saved.predictors[name]
        predictor.signature = predictor.signature.with_instructions("\n".join(known.instructions))
        place = f"{source}: predictors.{name}.demonstrations"
        predictor.demos = [
            _loaded(demo, f"{place}[{index}]", predictor.signature, agent.language)
            for index, demo in enumerate(known.demonstrations)
        ]
    if saved.pool is not None:
        agent.pool = _loaded_pool(saved.pool, f"{source}: pool.solutions", agent)
    return agent


def _key(key: object) -> str:
    """A key of a file for a message, with any characters escaped."""
    text = str(key)
    return text if text.isprintable() and len(text) <= 80 else ascii(text[:80])


def _no_number(word: str) -> NoReturn:
    """Refuses `NaN` and the like."""
    raise ValueError(f"{word} is not a number in JSON")


def _saved(predictor: dspy.Predict) -> SavedPredictor:
    signature = predictor.signature
    return SavedPredictor(
        prompt=digest(signature.instructions),
        demonstrations=[_saved_demonstration(demo, list(signature.fields)) for demo in predictor.demos],
        instructions=signature.instructions.split("\n"),
    )


def _saved_demonstration(demo: Mapping[str, Any], names: list[str]) -> SavedDemonstration:
    task = demo["task"]
    if isinstance(task, Mapping):
        # A dict, as DSPy's own `load` leaves it.
        task = Task.model_validate(task)
    fields = {name: str(demo[name]).split("\n") for name in names if name != "task" and name in demo}
    return SavedDemonstration(name=task.name, task=task.statement.split("\n"), fields=fields)


def _saved_pool(agent: Agent, pool: DemoPool) -> SavedPool:
    fields = _pool_predictor(agent).signature.fields
    solutions = [
        SavedSolution(
            **_saved_demonstration({**entry.inputs, **entry.outputs}, list(fields)).model_dump(),
            successes=entry.successes,
            samples=entry.samples,
        )
        for entry in pool.entries
    ]
    return SavedPool(tokens=pool.tokens, relevant=pool.relevant, solutions=solutions)


def _loaded_pool(saved: SavedPool, where: str, agent: Agent) -> DemoPool:
    entries, signature = [], _pool_predictor(agent).signature
    twice = [name for name, count in Counter(each.name for each in saved.solutions).items() if count > 1]
    if twice:
        raise UsageError(f"{where}: expected each task once, found {_key(twice[0])} again")
    for index, solution in enumerate(saved.solutions):
        fields = dict(_loaded(solution, f"{where}[{index}]", signature, agent.language))
        inputs, unsaid = {"task": fields.pop("task")}, (0.0, 0, 0.0, 0, TokenCount())
        entries.append(Entry(solution.name, inputs, fields, solution.successes, solution.samples, *unsaid))
    return DemoPool(tuple(entries), saved.tokens, saved.relevant)


def _pool_predictor(agent: Agent) -> dspy.Predict:
    (name,) = demonstrated_predictors(agent)
    return dict(agent.named_predictors())[name]


def _loaded(
    saved: SavedDemonstration, where: str, signature: type[dspy.Signature], language: str | None
) -> dspy.Example:
    """A saved demonstration as an example; raises `UsageError` if its answer breaks a rule, see `Language.check`."""
    wanted = [name for name in signature.fields if name != "task"]
    if not set(wanted) - OPTIONAL <= saved.fields.keys() <= set(wanted):
        raise UsageError(f"{where}: fields: expected {', '.join(wanted)}, found {', '.join(saved.fields) or 'none'}")
    for name, lines in saved.fields.items():
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise UsageError(f"{where}.fields.{name}: expected a list of lines, found {describe_value(lines)}")
    texts = {name: "\n".join(lines) for name, lines in saved.fields.items()}
    try:
        spoken = registry.find(language)
        task = spoken.task("\n".join(saved.task), saved.name, f"{where}.task")
        for name, text in texts.items():
            if name in ANSWERS and (found := spoken.check(task, text)):
                raise UsageError("\n".join(finding.render(text, f"{where}.fields.{name}") for finding in found))
    except TaskError as error:
        raise UsageError(str(error)) from None
    except (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise UsageError(f"{where}: expected a task and a program: {describe_error(error)}") from None
    return dspy.Example(task=task, **texts)
