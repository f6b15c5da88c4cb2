"""Programs of any language judged in worker processes, by functions that find the language by its name.

A language's fault is an unknown verdict with the code `internal`, never a wrong answer.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.languages import registry
from pipeline.languages.language import Language
from pipeline.verification.checking import (
    Checked,
    CheckRequest,
    described,
    unusable,
)
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.worker import end_if_out_of_memory
from step_runtime.base.errors import Diagnostic, TaskError, describe_error, out_of_memory
from step_runtime.tasks.reader import task_name, task_text
from step_runtime.verification.verify import Verdict


def call_of(language: Language, what: str) -> tuple[Callable[..., Any], tuple[str, ...]] | None:
    """What a worker calls to `judge`, `stress` or `hold_out` a program, and the arguments behind these calls' own.

    None for what the language lacks. Where the language has a function of its own, that is called by itself, so that
    no code of a task can have put another in its place: see `isolation.integrity`.
    """
    if hasattr(language, "calls"):
        own = language.calls.get(what)
        return None if own is None else (own, ())
    return (judge, (language.name,)) if what == "judge" else None


def judging_of(language: Language) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """As `call_of`, to judge.

    Raises:
        ValueError: The language runs its own calls, and has none for this.
    """
    found = call_of(language, "judge")
    if found is None:
        raise ValueError(f"language {language.name}: `calls` lacks `judge`")
    return found


# --- what runs in a worker --------------------------------------------------------------------------------------------


def judge(name: str, content: str, text: str, language: str) -> Verdict:
    """The verdict on a program of any language, for a task given by its name and its statement.

    Raises:
        TaskError: The task cannot be used, or its reference failed.
        MemoryError: The worker exceeded the memory limit, and may hold too much to continue.
    """
    return judged(registry.find(language), _task(name, content, language), text, None)


def check(request: CheckRequest) -> Checked:
    """Reads the task's file, and judges the program, in the language that the request names.

    Raises:
        MemoryError: The worker exceeded the memory limit, and may hold too much to continue.
    """
    language = registry.find(str(request.language))
    if hasattr(language, "calls") and "check" in language.calls:
        found: Checked = language.calls["check"](request)
        return found
    start, path = time.process_time(), Path(request.path)
    try:
        source = task_text(path)
        task = language.task(source, task_name(path), request.path)
        text = request.text if request.text is not None else task.impl
        if text is None:
            message = "this task has no `impl`; name a file with the program, or - for stdin"
            return unusable(request, task.name, f"{request.path}: {message}")
        verdict = judged(language, task.without_impl(), text, request.limits)
    except TaskError as error:
        end_if_out_of_memory(error)
        return unusable(request, path.stem, str(error))
    checked = described(request, task.name, source, text, verdict, "")
    seconds = round(time.process_time() - start, 3)
    return dataclasses.replace(checked, verdict=checked.verdict.model_copy(update={"seconds": seconds}))


def judged(language: Language, task: Any, text: str, limits: ProgramLimits | None) -> Verdict:
    """The verdict of a language, whose faults are unknown verdicts.

    Raises:
        TaskError: The task cannot be used, or its reference failed.
        MemoryError: The worker exceeded the memory limit, and may hold too much to continue.
    """
    most = limits.limit_characters if limits else None
    if most is not None and len(text) > most:
        stage, message = language.stages[0], f"expected at most {most:,} characters, found {len(text):,}"
        return Verdict(False, stage, (Diagnostic(stage, "length", message),))
    try:
        verdict = language.judge(task, text, limits)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"`judge` gave {verdict!r:.80}, expected a Verdict")
        if verdict.stage not in ((None,) if verdict.passed else language.stages):
            raise ValueError(f"`judge` gave the stage {verdict.stage!r}, expected one of {', '.join(language.stages)}")
        if not all(isinstance(each, Diagnostic) for each in verdict.diagnostics):
            raise TypeError(f"`judge` gave the diagnostics {verdict.diagnostics!r:.80}, expected `Diagnostic`s")
        if not (verdict.passed or verdict.diagnostics):
            raise ValueError("`judge` gave no diagnostic with a failure, expected one or more")
    except (TaskError, MemoryError) as error:
        if isinstance(error, TaskError):
            end_if_out_of_memory(error)
        raise
    except Exception as error:
        if out_of_memory(error):
            raise MemoryError(str(error)) from None
        stage, message = (
            registry.lost_stage(language.stages),
            f"the language {language.name} failed: {describe_error(error)}",
        )
        verdict = Verdict(False, stage, (Diagnostic(stage, "internal", message),))
    return verdict


@functools.lru_cache(maxsize=256)
def _task(name: str, content: str, language: str) -> Any:
    return registry.find(language).task(content, name, name)
