"""An LM that plays a language's own programs, to try a run without a model: `--lm scripted/LANGUAGE`.

It knows an oracle and a wrong program of each task. In the order of their names, tasks need 0 to 3 demonstrations in
the request to be answered rightly, and then every other answer is right. A token is counted as four characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import dspy
from dspy import lm15

from pipeline.languages import registry
from pipeline.verification.shown_programs import read_shown
from signatures import render_task
from step_runtime.tasks.task import Task

PREFIX = "scripted/"
Row = tuple[frozenset[str], str, str, int]
"""The lines of a task, a right and a wrong program, and the demonstrations that it needs."""


def scripted_lm(model: str) -> dspy.LM:
    """The LM of such a name.

    Raises:
        UsageError: There is no such language.
    """
    shown = read_shown(registry.find(model.removeprefix(PREFIX)))
    right, wrong = ({each.task.name: each.text for each in found} for found in (shown.oracles, shown.near_misses))
    table = [
        (_lines(task), right.get(task.name, "none"), wrong.get(task.name, "wrong"), place * 4 // len(shown.tasks))
        for place, task in enumerate(shown.tasks.values())
    ]
    engine = SimpleNamespace(complete=partial(_complete, table))
    return dspy.LM(model, engine=engine, cache=False, num_retries=0)


def _complete(table: Sequence[Row], request: lm15.Request) -> lm15.Response:
    """A right answer where enough is shown and the request's seed is even."""
    *shown, asked = [message.text or "" for message in request.messages]
    lines = {*map(str.strip, asked.splitlines())}
    known = [row for row in table if row[0] <= lines]
    _, right, wrong, needed = max(known, key=lambda row: len(row[0]), default=(frozenset(), "none", "none", 0))
    knows = len(shown) // 2 >= needed and (request.config.seed or 0) % 2 == 0
    answer = f"[[ ## impl ## ]]\n```\n{right if knows else wrong}\n```\n"
    prompt = len(str(request.system)) + sum(map(len, [*shown, asked]))
    usage = lm15.Usage(input_tokens=prompt // 4, output_tokens=len(answer) // 4)
    message = lm15.Message.assistant(answer)
    return lm15.Response(id="1", model=request.model, message=message, finish_reason="stop", usage=usage)


def _lines(task: Any) -> frozenset[str]:
    """The lines of a task as a request shows it."""
    text = render_task(task) if isinstance(task, Task) else task.statement
    return frozenset(map(str.strip, text.strip().splitlines()))
