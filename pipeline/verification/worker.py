"""What runs tasks' own code, in worker processes; it imports the language alone, and late, as they are to start fast.

- Nothing here is to be called but through a pool: an author's code may hang, crash, or take all memory.
- What one call was lost at is not run again: a program that comes to the same primitive with the same input gets a
  verdict at once, which says so (code `lost-before`). All that leads to that primitive is in the key by which it is
  known, so that programs which merely use the same function are run.
"""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from pipeline.base.settings import Config, Count, OptionGroup, Positive
from pipeline.verification import notes
from pipeline.verification.isolation import integrity
from pipeline.verification.pool import WorkerLost, WorkerPool
from pipeline.verification.workers import PoolSettings

if TYPE_CHECKING:
    from step_runtime.base.errors import Diagnostic, TaskError
    from step_runtime.program.limits import Limits
    from step_runtime.tasks.scope import Scope
    from step_runtime.verification.verify import Verdict, Verifier

SECONDS = 20.0
"""Processor time of one program, its task's compilation and references included: twice that of a run."""

MEMORY = 4 * 2**30
"""Bytes of private data a worker; Limits.bytes of streams and what functions make of them fit in well."""

LOST_BEFORE = "lost-before"

PRELOAD = "pipeline.verification.preload"
"""What a worker finds imported."""


class WorkerKilled(Exception):
    """Something else killed the processes that judged a program, twice: nothing is known of it."""


_GROUP = OptionGroup("limits of a program")


def _limit(text: str, metavar: str = "N") -> Any:
    """The field and the option of a limit; its default is that of `step_runtime.Limits`."""
    return _GROUP.option(None, text, metavar)


class ProgramLimits(Config):
    """Limits of a program, as `step_runtime.Limits` has them; None leaves the language's default."""

    limit_seconds: Positive | None = _limit("processor time of one run (default: 10)", "SECONDS")
    limit_bytes: Count | None = _limit("bytes that its streams hold at a time (default: 1073741824)")
    limit_numbers: Count | None = _limit("numbers that its streams carry, all together (default: 4294967296)")
    limit_primitives: Count | None = _limit("primitives, after unrolling (default: 1000)")
    limit_dims: Count | None = _limit("dims of one stream (default: 32)")
    limit_steps: Count | None = _limit("steps of unrolling it (default: 100000)")
    limit_characters: Count | None = _limit("characters of its source (default: 20000)")
    limit_depth: Count | None = _limit("levels of nesting (default: 80)")

    def of_language(self) -> Limits:
        """The limits of the language with these in the place of its defaults."""
        from step_runtime.program.limits import Limits

        own: dict[str, Any] = {name.removeprefix("limit_"): value for name, value in self.params().items()}
        return Limits(**own)


def verification_settings(seconds: float = SECONDS, memory: int = MEMORY) -> PoolSettings:
    """What workers that verify are started with, on whichever machine."""
    return PoolSettings(seconds, memory, _settle, (PRELOAD, __name__), task_of)


def verification_pool(workers: int, *, seconds: float = SECONDS, memory: int = MEMORY) -> WorkerPool:
    """Killable processes of this machine to verify in, none of which runs the code of two tasks."""
    return verification_settings(seconds, memory).start(workers)


def task_of(*args: Any, **_: Any) -> str:
    """Which task a call is about: a digest of its name and its YAML, or of the path in its request."""
    words = getattr(args[0], "path", "\0".join(map(str, args[:2]))) if args else ""
    return hashlib.sha256(str(words).encode("utf-8", "surrogatepass")).hexdigest()


def verdict_of(future: Future[Verdict]) -> Verdict:
    """What a worker found, or the verdict on a program that the worker did not survive.

    Raises:
        TaskError: As `judge`.
        WorkerKilled: Something else killed the process that it ran in, twice.
    """
    from step_runtime.base.errors import Diagnostic
    from step_runtime.verification.verify import Verdict

    error = future.exception()  # never raised here: each time, it would keep the frames that it passed
    if error is None:
        found = future.result()
        if isinstance(found, Verdict) and found.passed == (found.stage is None):
            return found
        error = WorkerLost("crashed", "answered with something else than a verdict")
    if not isinstance(error, WorkerLost):
        raise error.with_traceback(None)
    if error.code == "killed":
        raise WorkerKilled(f"verification {error}, twice: nothing is known of the program")
    where = (f"it had come to {_what(error.at)}",) if error.at else ()
    hint = "a function of the task may be at fault, and not the program"
    return Verdict(False, "run", (Diagnostic("run", error.code, f"verification {error}", None, where, hint),))


def lost_snippet(error: WorkerLost) -> str:
    """The snippet that a call of `try_task` was lost at, and the sizes: `global at M=5`; empty for in none."""
    return _what(error.at)


# --- what runs in a worker --------------------------------------------------------------------------------------------


def judge(name: str, content: str, text: str, dtype: str = "float64", limits: ProgramLimits | None = None) -> Verdict:
    """The verdict on a program text, for a task given by its name and its YAML; both sides compute in `dtype`.

    Raises:
        TaskError: The task cannot be used, or its reference failed.
        MemoryError: The worker exceeded the memory limit, and may hold too much to continue.
    """
    from step_runtime.base.errors import Diagnostic, RunError, TaskError
    from step_runtime.verification.verify import Verdict

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


def try_task(path: str) -> list[str]:
    """Runs a task file's own code, and gives the warnings.

    Raises:
        TaskError: The task cannot be used.
        MemoryError: The worker exceeded the memory limit.
    """
    from step_runtime.base.errors import TaskError, TaskWarning
    from step_runtime.verification.loading import load_task

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
    """What goes wrong with a program that passes on stress inputs.

    Raises:
        TaskError: The task cannot be used.
    """
    from step_runtime.base.errors import RunError

    try:
        return tuple(_verifier(name, content, "float64", limits).stress(text))
    except RunError:
        return ()


def explain_values(name: str, content: str, text: str, dtype: str, limits: ProgramLimits | None) -> str | None:
    """Where a program's values part from the reference's; None for one that fails otherwise, or passes.

    Raises:
        TaskError: The task cannot be used, or its reference failed.
    """
    return _verifier(name, content, dtype, limits).explain_values(text)


@functools.lru_cache(maxsize=256)
def _verifier(name: str, content: str, dtype: str, limits: ProgramLimits | None) -> Verifier:
    """One verifier a task and process, as its functions are compiled and its references computed once."""
    import torch

    from step_runtime.tasks.reader import loads_task
    from step_runtime.verification.verify import Verifier

    digest = hashlib.sha256(f"{name}\n{content}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    task, bounds = loads_task(content, name), limits.of_language() if limits else None
    return Verifier(task, dtype=getattr(torch, dtype), limits=bounds, before_run=functools.partial(watch, digest))


def watch(task: str, what: str, key: str) -> None:
    """Notes what runs next, unless that was lost before.

    Raises:
        RunError: It was.
    """
    note = f"{task} {key}\t{what}"
    if note in notes.lost_at():
        from step_runtime.base.errors import RunError

        message = f"not run again: with {what} of the same input, verification {notes.lost_at()[note]} before"
        raise RunError(LOST_BEFORE, message, hint="a function of the task may be at fault, and not the program")
    notes.note(note)


def end_if_out_of_memory(error: TaskError) -> None:
    """Raises `MemoryError` where that is the cause of a task's error: the worker may hold too much to go on."""
    from step_runtime.base.errors import out_of_memory

    if out_of_memory(error.__cause__):
        raise MemoryError(str(error)) from None


def _what(note: str) -> str:
    return note.partition("\t")[2]


def _settle() -> Callable[[], bool]:
    """Prepares a process; the check whether what judges in it is what it was, which a task's code may have changed."""
    import torch

    # One process a core: more threads in each would only be in each other's way.
    torch.set_num_threads(1)
    return integrity.unchanged()
