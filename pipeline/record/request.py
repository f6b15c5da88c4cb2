"""What a run was asked to do: its artifact `request.json`, from which it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import UsageError

if TYPE_CHECKING:
    from optimizers import Experience
    from step_runtime.tasks.task import Task

VERSION = 1


@dataclass(frozen=True)
class Request:
    """What a run was asked to do: all that its answers depend on.

    Attributes:
        options: by name, those that decide the run's answers and its budget.
        lm: the LM's name, its version included.
        tasks: the training set.
        validation: the tasks that choose among programs; none: as the optimizer does without.
        experience: what an earlier run had learned, if this one goes on from it.
    """

    options: Mapping[str, Any]
    lm: str
    tasks: Sequence[Task]
    validation: Sequence[Task] = ()
    experience: Experience | None = None

    def to_json(self) -> str:
        """The content of `request.json`."""
        from step_runtime.tasks.task import dump_task

        content = {
            "version": VERSION,
            "options": dict(self.options),
            "lm": self.lm,
            "tasks": [[task.name, dump_task(task)] for task in self.tasks],
            "validation": [[task.name, dump_task(task)] for task in self.validation],
            "experience": self.experience and self.experience.to_dict(attempts=False),
        }
        return json.dumps(content, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request that `to_json` wrote."""
        from step_runtime.tasks.reader import loads_task

        content = json.loads(text)
        if content["version"] != VERSION:
            raise UsageError(f"the run's request is of version {content['version']}; this code reads {VERSION}")
        return cls(
            options=content["options"],
            lm=content["lm"],
            tasks=[loads_task(text, name) for name, text in content["tasks"]],
            validation=[loads_task(text, name) for name, text in content["validation"]],
            experience=read_experience(content["experience"]) if content["experience"] else None,
        )


def read_experience(content: Mapping[str, Any]) -> Experience:
    """A record whose entries hold tasks again, where JSON has their fields."""
    from optimizers import Experience
    from step_runtime.tasks.task import Task

    experience = Experience.from_dict(content)
    entries = [
        replace(entry, inputs={"task": Task.model_validate(entry.inputs["task"]).named(entry.task_key)})
        for entry in experience.entries
    ]
    return replace(experience, entries=tuple(entries))
