"""A run's request: its artifact `request.json`, from which it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from optimizers import Entry, Experience
from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError
from pipeline.base.languages import DEFAULT
from pipeline.base.text import unique
from pipeline.languages import registry
from pipeline.languages.language import Task
from step_runtime.base.errors import Diagnostic, TaskError, describe_error
from step_runtime.base.mistakes import first_mistake
from step_runtime.tasks.task import Task as StepTask

VERSION = 1
LONGEST_EXPERIENCE = 2**28
"""Bytes of the experience of a run."""


@dataclass(frozen=True)
class Request:
    """Everything that a run's answers depend on.

    Attributes:
        lm: The LM's name, including its version.
        validation: The tasks on which programs are chosen; empty for the optimizer's default.
        experience: What an earlier run learned, if this one starts from it.
        doubts: What is to be warned of in the tasks, by name; this is not recorded.
    """

    config: RunConfig
    lm: str
    tasks: Sequence[Task]
    validation: Sequence[Task] = ()
    experience: Experience | None = None
    doubts: Mapping[str, Sequence[Diagnostic]] = field(default_factory=dict)

    def to_json(self) -> str:
        """The content of `request.json`."""
        content = {
            "version": VERSION,
            "options": self.config.recorded(),
            "lm": self.lm,
            "tasks": [[task.name, task.statement] for task in self.tasks],
            "validation": [[task.name, task.statement] for task in self.validation],
            "experience": self.experience and self.experience.to_dict(attempts=False),
        }
        return json.dumps(content, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request that `to_json` wrote.

        Raises:
            UsageError: The request is of another version.
            ValueError: It is malformed.
        """
        try:
            return cls._of(json.loads(text))
        except (AttributeError, LookupError, RecursionError, TypeError, TaskError) as error:
            raise ValueError(error if isinstance(error, TaskError) else describe_error(error)) from None

    @classmethod
    def _of(cls, content: Any) -> Request:
        if content["version"] != VERSION:
            raise UsageError(f"the run's request is of version {content['version']}; this code reads version {VERSION}")
        try:
            config = RunConfig.model_validate(content["options"])
        except ValidationError as error:
            raise ValueError(f"options.{first_mistake(error)}") from None
        language = registry.find(config.language)
        return cls(
            config=config,
            lm=content["lm"],
            tasks=[language.task(text, name, name) for name, text in content["tasks"]],
            validation=[language.task(text, name, name) for name, text in content["validation"]],
            experience=read_experience(content["experience"], config.language) if content["experience"] else None,
        )


def read_experience(content: Mapping[str, Any], language: str | None = None) -> Experience:
    """An experience read from JSON, with each entry's fields made a task again."""
    experience = Experience.from_dict(content)
    entries = [
        replace(entry, inputs={"task": _restored(entry.inputs["task"], entry.task_key, language)})
        for entry in experience.entries
    ]
    return replace(experience, entries=tuple(entries))


def _restored(content: Any, name: str, language: str | None) -> Any:
    """A task of an experience's JSON, in a language of a name."""
    if language in (None, DEFAULT):
        return StepTask.model_validate(content).named(name)
    return registry.find(language).task(content["statement"], name, name)


def parse_experience(text: str | bytes, source: str, language: str | None = None) -> Experience:
    """An experience from elsewhere: each entry has a program that parses and is well-typed, and possible counts.

    Whether a program is right is a claim; see `running.gate`.

    Raises:
        UsageError: It is not an experience; the message names the place.
    """
    if len(text) > LONGEST_EXPERIENCE:
        raise UsageError(f"{source}: {len(text):,} characters; the limit of an experience is {LONGEST_EXPERIENCE:,}")
    try:
        content = json.loads(text, object_pairs_hook=unique)
        json.dumps(content, ensure_ascii=False).encode()  # refuses lone surrogates, which JSON can write as escapes
        experience = read_experience(content, language)
        for index, entry in enumerate(experience.entries):
            _check_program(entry, f"entries.{index}", language)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, TaskError) as error:
        message = describe_error(error) if isinstance(error, LookupError | RecursionError) else error
        raise UsageError(f"{source}: expected the experience of a run in JSON: {message}") from None
    return experience


def _check_program(entry: Entry, place: str, language: str | None) -> None:
    """Raises ValueError if an entry's answer is not a program."""
    impl, task = entry.outputs.get("impl"), entry.inputs["task"]
    if not isinstance(impl, str):
        raise ValueError(f"{place}.outputs.impl: expected the text of a program, found {type(impl).__name__}")
    for finding in registry.find(language).check(task, impl):
        if finding.stage not in ("affine", "shape"):  # the gate leaves such a program out
            raise ValueError(finding.render(impl, f"{place}.outputs.impl"))
