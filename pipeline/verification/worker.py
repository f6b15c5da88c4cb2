"""The calls that run tasks' own code, in worker processes; their server imports it before it forks them.

- Nothing here is to be called but through a pool: an author's code may hang, crash, or take all memory.
- What one call was lost at is not run again: a program that comes to the same primitive with the same input gets a
  verdict at once, which says so (code `lost-before`). All that leads to that primitive is in the key by which it is
  known, so that programs which merely use the same function are run.
"""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Sequence
from concurrent.futures import Future

from pipeline.languages import registry
from pipeline.verification import notes
from pipeline.verification.limits import ProgramLimits, verification_pool, verification_settings
from pipeline.verification.pool import WorkerLost

# With the module, in one thread: the pool's threads import what answers name, and imports in two threads of modules
# that need each other end in a module that is half there.
from step_runtime.base.errors import STAGES, Diagnostic, RunError, TaskError, TaskWarning, out_of_memory
from step_runtime.execution.invocation import BeforeRun
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import Scope
from step_runtime.verification.exact.proof import ExactVerdict
from step_runtime.verification.held_out import HeldOut, HeldOutTask
from step_runtime.verification.loading import load_task
from step_runtime.verification.mutation import MutationScore, mutation_score
from step_runtime.verification.verify import Verdict, Verifier

__all__ = [
    "LOST_BEFORE",
    "WorkerKilled",
    "check",
    "end_if_out_of_memory",
    "exact",
    "explain_values",
    "hold_out",
    "judge",
    "mutation",
    "scopes",
    "stress",
    "try_task",
    "verdict_of",
    "verification_pool",
    "verification_settings",
    "watch",
]

LOST_BEFORE = "lost-before"


class WorkerKilled(Exception):
    """Something else killed the processes that judged a program, twice: nothing is known of it."""


def verdict_of(future: Future[Verdict], stages: Sequence[str] = STAGES) -> Verdict:
    """A worker's verdict, or the verdict on a program that the worker did not survive.

    Args:
        future: Of a call that gives a verdict.
        stages: Those of the language; a lost worker counts as `run`, or as the last where there is no such stage.

    Raises:
        TaskError: As `judge`.
        WorkerKilled: Something else killed the process that it ran in, twice.
    """
    error = future.exception()  # never raised here: each time, it would keep the frames that it passed
    if error is None:
        found = future.result()
        if isinstance(found, Verdict) and (found.stage is None if found.passed else found.stage in stages):
            return found
        error = WorkerLost("crashed", "answered with something else than a verdict")
    if not isinstance(error, WorkerLost):
        raise error.with_traceback(None)
    if error.code == "killed":
        raise WorkerKilled(f"verification {error}, twice: the verdict is unknown")
    where = (f"it had come to {notes.snippet(error.at)}",) if error.at else ()
    hint = "a function of the task may be at fault, and not the program"
    stage = registry.lost_stage(stages)
    return Verdict(False, stage, (Diagnostic(stage, error.code, f"verification {error}", None, where, hint),))


# --- what runs in a worker --------------------------------------------------------------------------------------------


def judge(name: str, content: str, text: str, dtype: str = "float64", limits: ProgramLimits | None = None) -> Verdict:
    """The verdict on a program text, for a task given by its name and its YAML; both sides compute in `dtype`.

    Raises:
        TaskError: The task cannot be used, or its reference failed.
        MemoryError: The worker exceeded the memory limit, and may hold too much to continue.
    """
    try:
        verdict = _verifier(name, content, dtype, limits).verify(text)
    except TaskError as error:
        end_if_out_of_memory(error)
        raise
    except RunError as error:
        return Verdict(False, "run", (Diagnostic.of("run", error, None),))
    if any(diagnostic.code == "memory-limit" for diagnostic in verdict.diagnostics):
        raise MemoryError(verdict.diagnostics[0].message)
    return verdict


def check(name: str, content: str, text: str, limits: ProgramLimits | None = None) -> Verdict:
    """The verdict of the checks that need no run of the program.

    Raises:
        TaskError: The task cannot be used.
    """
    return _verifier(name, content, "float64", limits).check(text)


def exact(name: str, content: str, text: str, limits: ProgramLimits | None = None) -> ExactVerdict | None:
    """The answer of exact arithmetic for a passing program.

    Raises:
        TaskError: The task cannot be used.
    """
    try:
        return _verifier(name, content, "float64", limits).exact(text)
    except RunError as error:
        return ExactVerdict("unknown", f"not followed: {error}")


def hold_out(name: str, content: str, text: str, seed: int) -> HeldOut:
    """The verdict on a program at sizes and inputs that are drawn from a seed.

    Raises:
        TaskError: The task cannot be used.
        MemoryError: The worker exceeded the memory limit, and may hold too much to continue.
    """
    try:
        return _held_out_task(name, content, seed).judge(text)
    except TaskError as error:
        end_if_out_of_memory(error)
        raise


def mutation(name: str, content: str, text: str, limits: ProgramLimits | None = None) -> MutationScore:
    """What becomes of the mutants of a program that passes.

    Raises:
        TaskError: The task cannot be used.
    """
    verifier = _verifier(name, content, "float64", limits)
    return mutation_score(text, verifier, _held_out_task(name, content, 0))


def try_task(path: str) -> list[str]:
    """Runs a task file's own code, and gives the warnings.

    Raises:
        TaskError: The task cannot be used.
        MemoryError: The worker exceeded the memory limit.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            load_task(path, before_run=functools.partial(watch, path))
        except TaskError as error:
            end_if_out_of_memory(error)
            raise
    messages = [each.message for each in caught if issubclass(each.category, UserWarning)]
    return [
        f"{path}:{each.line}: warning: {each.code}: {each.message}"
        if isinstance(each, TaskWarning)
        else f"{path}: warning: {each}"
        for each in messages
    ]


def scopes(name: str, content: str) -> tuple[Scope, ...]:
    """The names that programs of a task may use at each set of sizes, as its `global` leaves them.

    Raises:
        TaskError: The task cannot be used.
    """
    return tuple(scope.without_code() for scope in _verifier(name, content, "float64", None).scopes)


def stress(name: str, content: str, text: str, limits: ProgramLimits | None = None) -> tuple[Diagnostic, ...]:
    """The failures of a passing program on stress inputs.

    Raises:
        TaskError: The task cannot be used.
    """
    try:
        return tuple(_verifier(name, content, "float64", limits).stress(text))
    except RunError:
        return ()


def explain_values(name: str, content: str, text: str, dtype: str, limits: ProgramLimits | None) -> str | None:
    """The first difference between a program's values and the reference's; None if it passes or fails otherwise.

    Raises:
        TaskError: The task cannot be used, or its reference failed.
    """
    return _verifier(name, content, dtype, limits).explain_values(text)


@functools.lru_cache(maxsize=256)
def _verifier(name: str, content: str, dtype: str, limits: ProgramLimits | None) -> Verifier:
    """One verifier a task and process, as its functions are compiled and its references computed once."""
    import torch

    task, bounds = loads_task(content, name), limits.of_language() if limits else None
    return Verifier(task, dtype=getattr(torch, dtype), limits=bounds, before_run=_watching(name, content))


@functools.lru_cache(maxsize=64)
def _held_out_task(name: str, content: str, seed: int) -> HeldOutTask:
    return HeldOutTask(loads_task(content, name), seed, before_run=_watching(name, content))


def _watching(name: str, content: str) -> BeforeRun:
    digest = hashlib.sha256(f"{name}\n{content}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return functools.partial(watch, digest)


def watch(task: str, what: str, key: str) -> None:
    """Notes what runs next, unless that was lost before.

    Raises:
        RunError: It was.
    """
    note = f"{task} {key}\t{what}"
    if note in notes.lost_at():
        message = f"not run again: with {what} of the same input, verification {notes.lost_at()[note]} before"
        raise RunError(LOST_BEFORE, message, hint="a function of the task may be at fault, and not the program")
    notes.note(note)


def end_if_out_of_memory(error: TaskError) -> None:
    """Raises `MemoryError` where that is the cause of a task's error: the worker may hold too much to go on."""
    if out_of_memory(error.__cause__):
        raise MemoryError(str(error)) from None
