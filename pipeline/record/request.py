"""A run's request: its artifact `request.json`, from which it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import ValidationError

from optimizers import Experience
from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError
from pipeline.base.settings import first_error
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task, dump_task

VERSION = 1


@dataclass(frozen=True)
class Request:
    """Everything that a run's answers depend on.

    Attributes:
        config: The settings.
        lm: The LM's name, including its version.
        tasks: The training set.
        validation: The tasks on which programs are chosen; empty for the optimizer's default.
        experience: What an earlier run learned, if this one starts from it.
        ablation: The ablation that the run belongs to, as JSON.
    """

    config: RunConfig
    lm: str
    tasks: Sequence[Task]
    validation: Sequence[Task] = ()
    experience: Experience | None = None
    ablation: Mapping[str, Any] | None = None

    def to_json(self) -> str:
        """The content of `request.json`."""
        ablation = {"ablation": dict(self.ablation)} if self.ablation else {}
        content = {
            "version": VERSION,
            "options": self.config.recorded() | ablation,
            "lm": self.lm,
            "tasks": [[task.name, dump_task(task)] for task in self.tasks],
            "validation": [[task.name, dump_task(task)] for task in self.validation],
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
        content = json.loads(text)
        if content["version"] != VERSION:
            raise UsageError(f"the run's request is of version {content['version']}; this code reads version {VERSION}")
        options = dict(content["options"])
        ablation = options.pop("ablation", None)
        try:
            config = RunConfig.model_validate(options)
        except ValidationError as error:
            raise ValueError(f"options.{first_error(error)}") from None
        return cls(
            config=config,
            lm=content["lm"],
            tasks=[loads_task(text, name) for name, text in content["tasks"]],
            validation=[loads_task(text, name) for name, text in content["validation"]],
            experience=read_experience(content["experience"]) if content["experience"] else None,
            ablation=ablation,
        )


def read_experience(content: Mapping[str, Any]) -> Experience:
    """An experience read from JSON, with each entry's fields made a task again."""
    experience = Experience.from_dict(content)
    entries = [
        replace(entry, inputs={"task": Task.model_validate(entry.inputs["task"]).named(entry.task_key)})
        for entry in experience.entries
    ]
    return replace(experience, entries=tuple(entries))
