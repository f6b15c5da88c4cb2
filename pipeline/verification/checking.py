"""One program checked from its files to its findings, in a worker process: the caller imports neither torch nor sympy.

What a call returns are the models of `pipeline.base.outputs`, and the same as text for people.
"""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.outputs import (
    ExactFinding,
    Finding,
    MutationFigures,
    ProgramVerdict,
    Severity,
    SurvivingMutant,
)
from pipeline.languages import registry
from pipeline.verification import notes
from pipeline.verification.limits import MEMORY, SECONDS, ProgramLimits, proving_settings, verification_pool
from pipeline.verification.pool import WorkerLost, WorkerPool
from pipeline.verification.task_files import lost_at_message

if TYPE_CHECKING:
    from step_runtime import Diagnostic, Task, TaskWarning, Verdict
    from step_runtime.verification.exact.proof import ExactVerdict
    from step_runtime.verification.mutation import MutationScore

_MUTANTS = 15
"""How many times as long as a verdict those on mutants may take, all together."""
_LOADING = "loading"
"""Marks the notes of code that runs before the program is looked at."""


@dataclass(frozen=True, kw_only=True)
class Checks:
    """How programs are checked.

    Attributes:
        dtype: The floating type to compute in.
        explain: Whether to describe every stream.
        run: Whether to run the program, and not only to check what needs no run.
        stress: Whether a program that passes is run on stress inputs too.
        values: Whether to say where wrong values part from the reference's.
        exact: Whether a program that passes is compared with the reference in exact arithmetic too.
        mutants: Whether the mutants of a program that passes are judged too.
        limits: Of the program.
        language: Of the program; None for the default.
    """

    dtype: str = "float64"
    explain: bool = False
    run: bool = True
    values: bool = False
    exact: bool = False
    mutants: bool = False
    stress: bool = True
    limits: ProgramLimits | None = None
    language: str | None = None


@dataclass(frozen=True)
class CheckRequest(Checks):
    """A program to check.

    Attributes:
        path: The task's file.
        text: The program; None for the task's own `impl`.
        name: The program's file as the user named it; None for standard input or `impl`.
    """

    path: str
    text: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Checked:
    """A verdict, its findings as text for people, and a table of the streams where it was asked for."""

    verdict: ProgramVerdict
    text: str
    table: str = ""


def checking_pool(
    workers: int, limits: ProgramLimits, language: str | None = None, *, exact: bool = False, mutants: bool = False
) -> WorkerPool:
    """Processes for `check` in a language, with room for runs that use up their limits; with `exact` they prove.

    With `mutants` they prove, too, and a call takes minutes. A language without calls of its own leaves the limits of
    time and memory to the processes.
    """
    room: dict[str, Any] = {}
    own = language is None or hasattr(registry.find(language), "calls")
    if limits.limit_seconds is not None:
        room["seconds"] = max(SECONDS, 2 * limits.limit_seconds) if own else limits.limit_seconds
    if limits.limit_bytes is not None:
        room["memory"] = max(MEMORY, 4 * limits.limit_bytes) if own else limits.limit_bytes
    if exact or mutants:
        room["seconds"] = room.get("seconds", SECONDS) + SECONDS * (_MUTANTS if mutants else 1)
        return proving_settings(language=language, **room).start(workers)
    return verification_pool(workers, language=language, **room)


def outcome(request: CheckRequest, name: str, future: Future[Checked]) -> Checked:
    """A worker's verdict, or the meaning of its loss; `name` is the task's until its file is read."""
    try:
        return future.result()
    except WorkerLost as error:
        if error.at.startswith(_LOADING):
            return unusable(request, name, lost_at_message(Path(request.path), error), error.spent)
        if error.code == "killed":
            return unusable(request, name, f"verification {error}, twice: the verdict is unknown")
        details, hint = _place_and_advice(error, request.language)
        message = f"verification {error}"
        found = {"code": error.code, "message": message, "details": details, "hint": hint}
        stage = "run" if request.language is None else registry.lost_stage(registry.find(request.language).stages)
        finding = Finding(severity="error", stage=stage, file=request.name, **found)
        text = "\n".join([f"{request.name or name}: {error.code}: {message}", *details, f"hint: {hint}"])
        unknown = error.code != "tampered"
        seconds = round(error.spent, 3)
        verdict = _failed(request, name, unknown=unknown, stage=stage, diagnostics=(finding,), seconds=seconds)
        return Checked(verdict, text.replace("\n", "\n  "))


def _place_and_advice(error: WorkerLost, language: str | None) -> tuple[tuple[str, ...], str]:
    """What a verification was doing when it was lost, and for how long; and what to do about it."""
    what, stressed = notes.snippet(error.at), " stress: " in error.at
    doing = f"{what}{' on stress inputs' if stressed else ''}"
    before = f", {error.seconds:.1f} s before, after {error.spent - error.seconds:.1f} s"
    details = (f"it had come to {doing}{before if error.code == 'time-limit' else ''}",) if what else ()
    if error.code == "tampered":
        return details, "code of the task must leave Python, torch and the verifier as they are"
    suspect = "a function of the task" if language is None else f"`judge` of the language `{language}`"
    advice = [f"{suspect} may be at fault, and not the program"]
    if error.code == "time-limit":
        advice += ["--limit-seconds raises the limit of time", *(["--no-stress leaves these out"] if stressed else [])]
    if error.code == "memory-limit":
        advice += ["--limit-bytes raises the limit of memory"]
    return details, "; ".join(advice)


def _failed(request: CheckRequest, name: str, **fields: Any) -> ProgramVerdict:
    """The verdict on a program that does not pass."""
    return ProgramVerdict(task=name, task_file=request.path, program=request.name, passed=False, **fields)


def unusable(request: CheckRequest, name: str, message: str, seconds: float = 0.0) -> Checked:
    """The outcome for a task or a program that can't be used, found in so many seconds of processor time."""
    return Checked(_failed(request, name, stage=None, error=message, seconds=round(seconds, 3)), message)


# --- what runs in a worker --------------------------------------------------------------------------------------------


def check_in_language(request: CheckRequest) -> Checked:
    """As `check`, in the language that the request names.

    Raises:
        MemoryError: The worker exceeded the memory limit, and may hold too much to continue.
    """
    from pipeline.verification import judging

    return judging.check(request)


def check(request: CheckRequest) -> Checked:
    """Loads the task, runs its code, and verifies the program.

    Raises:
        MemoryError: The worker exceeded the memory limit, and may hold too much to continue.
    """
    from pipeline.verification import worker
    from step_runtime.base.errors import TaskError
    from step_runtime.verification.doubts import UNSTRESSED

    start = time.process_time()
    try:
        task, found = _loaded(request.path)
        if request.text is None and task.impl is None:
            message = "this task has no `impl`; name a file with the program, or - for stdin"
            return unusable(request, task.name, f"{request.path}: {message}")
        about = task.name, task.statement, _program(request, task)
        if request.run:
            verdict = worker.judge(*about, request.dtype, request.limits)
        else:
            verdict = worker.check(*about, request.limits)
    except TaskError as error:
        worker.end_if_out_of_memory(error)
        return unusable(request, Path(request.path).stem, str(error))
    stressed: tuple[Diagnostic, ...] = ()
    if verdict.passed and request.run and request.stress:
        stressed = worker.stress(*about, request.limits)
    checked = _described(request, task, dataclasses.replace(verdict, diagnostics=(*verdict.diagnostics, *stressed)))
    if verdict.passed and request.run and request.exact:
        checked = with_exact(checked, worker.exact(*about, request.limits))
    if verdict.passed and request.run and request.mutants:
        checked = with_mutants(checked, worker.mutation(*about, request.limits))
    if request.values and verdict.stage == "value":
        checked = with_values(checked, worker.explain_values(*about, request.dtype, request.limits))
    seconds = round(time.process_time() - start, 3)
    doubts = [
        Finding(
            severity="warning", stage="task", code=each.code, message=each.message, file=request.path, line=each.line
        )
        for each in found
        if request.stress or each.code != UNSTRESSED
    ]
    warned = (*doubts, *checked.verdict.warnings)
    return dataclasses.replace(
        checked, verdict=checked.verdict.model_copy(update={"warnings": warned, "seconds": seconds})
    )


def _program(request: CheckRequest, task: Task) -> str:
    return request.text if request.text is not None else task.impl or ""


@functools.lru_cache(maxsize=256)
def _loaded_text(path: str, text: str) -> tuple[Task, tuple[TaskWarning, ...]]:
    """The task in a file of this text, and the warnings about it."""
    from pipeline.verification import worker
    from step_runtime.base.errors import TaskWarning
    from step_runtime.verification.loading import load_task

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = load_task(path, before_run=functools.partial(worker.watch, f"{_LOADING} {path}"))
    return task, tuple(each.message for each in caught if isinstance(each.message, TaskWarning))


def _loaded(path: str) -> tuple[Task, tuple[TaskWarning, ...]]:
    """The task in a file, and the warnings about it; a file that has not changed is read once."""
    from step_runtime.tasks.reader import read_task_file

    return _loaded_text(path, read_task_file(Path(path)).inlined)


def _described(request: CheckRequest, task: Task, verdict: Verdict) -> Checked:
    """The verdict with its places and, on request, the table of the streams."""
    from pipeline.verification import worker
    from step_runtime.tasks.reader import task_text
    from step_runtime.verification.explain import explain

    text = _program(request, task)
    scope = worker.scopes(task.name, task.statement)[0] if request.explain else None
    table = explain(text, scope).table() if scope else ""
    source = task_text(Path(request.path)) if request.text is None else ""
    return described(request, task.name, source, text, verdict, table)


def described(request: CheckRequest, name: str, source: str, text: str, verdict: Verdict, table: str) -> Checked:
    """The verdict with its places: those of an `impl` are the task file's own, whose text is `source`."""
    from step_runtime.tasks.reader import impl_place

    file, shown, found = request.name, request.name or name, verdict.diagnostics
    if request.text is None:
        file, text, shown = request.path, source, name if verdict.passed else request.path
        found = tuple(impl_place(source, diagnostic) for diagnostic in found)
    outcome = ProgramVerdict(
        task=name,
        task_file=request.path,
        program=file,
        passed=verdict.passed,
        unknown=verdict.unknown,
        stage=verdict.stage,
        diagnostics=() if verdict.passed else tuple(finding(file, diagnostic) for diagnostic in found),
        warnings=tuple(finding(file, diagnostic, "warning") for diagnostic in found) if verdict.passed else (),
    )
    return Checked(outcome, dataclasses.replace(verdict, diagnostics=found).render(text, shown), table)


def with_mutants(checked: Checked, found: MutationScore) -> Checked:
    """The verdict with what became of the program's mutants."""
    survivors = tuple(SurvivingMutant(**dataclasses.asdict(each)) for each in found.survivors)
    counts = {name: getattr(found, name) for name in ("killed", "same", "unknown", "left", "score")}
    verdict = checked.verdict.model_copy(update={"mutants": MutationFigures(**counts, survivors=survivors)})
    return dataclasses.replace(checked, verdict=verdict, text=f"{checked.text}\n{found.render()}")


_HIDDEN = "exact-different"


def with_exact(checked: Checked, found: ExactVerdict | None) -> Checked:
    """The verdict with the answer of exact arithmetic; a difference is a warning, as the inputs hide it."""
    if found is None:
        return checked
    exact = ExactFinding(answer=found.answer, reason=found.reason, bits=found.bits, sizes=found.sizes)
    verdict = checked.verdict
    if found.answer == "different":
        message = f"differs from the reference in exact arithmetic at {'; '.join(found.sizes)}: {found.reason}"
        hidden = Finding(severity="warning", stage="value", code=_HIDDEN, message=message, file=verdict.program)
        verdict = verdict.model_copy(update={"warnings": (*verdict.warnings, hidden)})
    text = f"{checked.text}\n{found.render()}"
    return dataclasses.replace(checked, verdict=verdict.model_copy(update={"exact": exact}), text=text)


def with_values(checked: Checked, found: str | None) -> Checked:
    """The verdict with a table of the program's values against the reference's; None for no table."""
    if found is None:
        return checked
    verdict = checked.verdict.model_copy(update={"values": found})
    return dataclasses.replace(checked, verdict=verdict, text=f"{checked.text}\n\n{found}")


def finding(file: str | None, diagnostic: Diagnostic, severity: Severity = "error") -> Finding:
    """A diagnostic about a file."""
    found = {name: getattr(diagnostic, name) for name in ("stage", "code", "message", "details", "hint")}
    place = dataclasses.asdict(diagnostic.span) if diagnostic.span else {}
    return Finding(severity=severity, file=file, **found, **place)
