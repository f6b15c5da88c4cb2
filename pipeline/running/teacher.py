"""What a teacher solves before an LM learns: its programs are demonstrations, and never count as the LM's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from optimizers import Entry, Experience, TokenCount
from pipeline.base.errors import UsageError
from pipeline.base.text import counted
from pipeline.languages.language import Task
from pipeline.record.request import Request
from pipeline.synthesis.parallel_search import search_all
from pipeline.synthesis.search_budget import SearchBudget
from pipeline.verification.pool import Workers
from step_runtime.base.errors import TaskError

_MINUTE = 60.0


def taught(request: Request, workers: Workers, tell: Callable[[str], None]) -> Request:
    """The request whose experience has what its teacher solves, too; as it is, if it has none.

    Raises:
        UsageError: A task's own code fails.
    """
    config, before = request.config, request.experience or Experience(tasks=())
    if config.teacher is None:
        return request
    known = {entry.task_key for entry in before.entries}
    tasks = [task for task in request.tasks if task.name not in known]
    tell(f"the teacher searches {counted(len(tasks), 'task')}, each for {config.teacher_minutes:g} min at most")
    budget, entries = SearchBudget(_MINUTE * config.teacher_minutes), []
    try:
        for task, outcome in search_all(tasks, budget, workers):  # type: ignore[arg-type] # of the language
            if outcome.impl is not None:
                entries.append(_entry(task, outcome.impl, config.teacher))
    except TaskError as error:
        raise UsageError(str(error)) from None
    tell(f"the teacher solved {len(entries)} of {len(tasks)}; the LM is asked for the rest")
    return replace(request, experience=replace(before, entries=(*before.entries, *entries)))


def _entry(task: Task, impl: str, teacher: str) -> Entry:
    """A task that a teacher solved; its single sample is none of the LM's successes."""
    return Entry(
        task_key=task.name, inputs={"task": task}, outputs={"impl": impl}, successes=0, samples=1, temperature=0.0,
        iteration=0, answer_temperature=0.0, answer_sample=0, tokens=TokenCount(), teacher=teacher,
    )  # fmt: skip
