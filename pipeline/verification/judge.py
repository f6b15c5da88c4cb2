"""One program judged, from a request to a verdict.

`judge` runs in a cell, where a task's own code may hang, crash, or take all memory; its verdict travels unchanged to
whoever asked. What asks imports neither torch nor a language: `verdict_of` gives a cell's verdict, or what the loss of
the cell means. STeP is judged by its verifier itself, so that no code of a task can have put another in its place.

What one call was lost at is not run again: a program that comes to the same primitive with the same input gets a
verdict at once, which says so (code `lost-before`). All that leads to that primitive is in the key by which it is
known, so that programs which merely use the same function are run.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.settings import ORIGINAL, sizes_of
from pipeline.languages import registry
from pipeline.verification.isolation.warden import lost_at, say, snippet
from pipeline.verification.limits import ProgramLimits, lost_at_message
from pipeline.verification.pool import WorkerLost
from step_runtime.base.errors import (
    UNKNOWN,
    Diagnostic,
    RunError,
    Span,
    TaskError,
    TaskWarning,
    describe_error,
    out_of_memory,
)
from step_runtime.verification.verdict import ExactVerdict, Verdict

if TYPE_CHECKING:
    from step_runtime.execution.invocation import BeforeRun
    from step_runtime.tasks.scope import Scope
    from step_runtime.tasks.task import Task
    from step_runtime.verification.held_out import HeldOutTask
    from step_runtime.verification.verify import Verifier

LOST_BEFORE = "lost-before"
_LOADING = "loading"
"""Marks the notes of code that runs before the program is looked at."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A program to judge, and how.

    Attributes:
        task: The task's name; until its file is read, the file's.
        statement: The task's text; empty for that of the file.
        path: The task's file; None for a task that has none.
        text: The program; None for the `impl` of the task's file.
        program: The program's file as the user named it; None for standard input or `impl`.
        language: Of the program; None for the default.
        dtype: The floating type to compute in.
        run: Whether to run the program, and not only to check what needs no run.
        stress: Whether a program that passes is run on stress inputs too.
        explain: Whether to describe every stream.
        values: Whether to say where wrong values part from the reference's.
        exact: Whether a program that passes is compared with the reference in exact arithmetic too.
        ir: Whether the graph of a program that passes is given as JSON, too.
        sizes: Larger sizes, such as `N=1024,D=128` or `original`, at which a program that passes is compared too.
    """

    task: str = ""
    statement: str = ""
    path: str | None = None
    text: str | None = None
    program: str | None = None
    language: str | None = None
    dtype: str = "float64"
    run: bool = True
    stress: bool = False
    explain: bool = False
    values: bool = False
    exact: bool = False
    sizes: str | None = None
    ir: bool = False
    limits: ProgramLimits | None = None

    def unusable(self, message: str, seconds: float = 0.0) -> Verdict:
        """The verdict where the task or the program can't be used, found in so many seconds of processor time."""
        return Verdict(passed=False, error=message, feedback=message, seconds=round(seconds, 6), **self.names)

    @property
    def names(self) -> dict[str, Any]:
        """Those of the task, of its file and of the program, as a verdict has them."""
        return {"task": self.task, "task_file": self.path or "", "program": self.program}


def verdict_of(request: Request, future: Future[Any]) -> Verdict:
    """A cell's verdict, or the meaning of its loss; it is unusable if something else killed the process, twice.

    Raises:
        MemoryError: The request needs more memory than this machine has.
    """
    error = future.exception()  # never raised here: each time, it would keep the frames that it passed
    if error is None:
        found: Verdict = future.result()
        return found
    if not isinstance(error, WorkerLost):
        raise error.with_traceback(None)
    if error.at.startswith(_LOADING) and request.path is not None:
        return request.unusable(lost_at_message(Path(request.path), error), error.spent)
    if error.code == "killed":
        return request.unusable(f"verification {error}, twice: the verdict is unknown")
    what, stressed = snippet(error.at), " stress: " in error.at
    doing = f"it had come to {what}{' on stress inputs' if stressed else ''}"
    spent = f", {error.seconds:.1f} s before, after {error.spent - error.seconds:.1f} s"
    details = (f"{doing}{spent if error.code == 'time-limit' else ''}",) if what else ()
    hint = "code of the task must leave Python, torch and the verifier as they are"
    if error.code != "tampered":
        suspect = f"`judge` of the language `{request.language}`" if request.language else "a function of the task"
        runs = request.language is not None and registry.find(request.language).executes
        why = "the program may never end" if runs else f"{suspect} may be at fault, and not the program"
        hint = "; ".join([why, *_options(request, error, stressed)])
    message = f"verification {error}"
    stage = "run" if request.language is None else registry.lost_stage(registry.find(request.language).stages)
    found = Verdict(
        passed=False,
        stage=stage,
        diagnostics=(Diagnostic(stage, error.code, message, None, details, hint),),
        seconds=round(error.spent, 6),
        **request.names,
    )
    return found.model_copy(update={"feedback": found.render("", request.program or request.task)})


def verdict_in(stages: Sequence[str], request: Request, future: Future[Verdict]) -> Verdict:
    """A cell's verdict, at one of these stages where the program fails.

    Raises:
        TaskError: The task cannot be used, or its reference failed.
        WorkerLost: Something else killed the process that it ran in, twice: nothing is known.
    """
    verdict = verdict_of(request, future)
    if verdict.error is not None:
        raise WorkerLost("killed", verdict.error) if future.exception() else TaskError(verdict.error)
    if verdict.stage not in ((None,) if verdict.passed else stages):
        forged: Future[Verdict] = Future()
        forged.set_exception(WorkerLost("crashed", "answered with something else than a verdict"))
        return verdict_of(request, forged)
    return verdict


def _options(request: Request, error: WorkerLost, stressed: bool) -> list[str]:
    """What a user of the command line may do."""
    if request.path is None:
        return []
    if error.code == "time-limit":
        return ["--limit-seconds raises the limit of time", *(["--no-stress leaves these out"] if stressed else [])]
    return ["--limit-bytes raises the limit of memory"] if error.code == "memory-limit" else []


# --- what runs in a cell ----------------------------------------------------------------------------------------------


def judge(request: Request) -> Verdict:
    """The verdict on a program; on a task that can't be used, it says why.

    Raises:
        MemoryError: The cell exceeded the memory limit, and may hold too much to continue.
    """
    start = time.process_time()
    try:
        found = _in_step(request) if request.language is None else _in_language(request, request.language)
    except TaskError as error:
        _end_if_out_of_memory(error)
        found = request.unusable(str(error))
    return found.model_copy(update={"seconds": round(time.process_time() - start, 6)})


def _in_step(request: Request) -> Verdict:
    """By the verifier of STeP."""
    from step_runtime.tasks.reader import task_text

    name, statement, text, source = request.task, request.statement, request.text, ""
    doubts: tuple[TaskWarning, ...] = ()
    if request.path is not None:
        # the task in a file, and the warnings about it; a file that has not changed is read once
        from step_runtime.tasks.reader import read_task_file

        task, doubts = _loaded_text(request.path, read_task_file(Path(request.path)).inlined)
        name, statement = task.name, task.statement
        text = task.impl if text is None else text
        source = task_text(Path(request.path))
    if text is None:
        return _without_program(request, name)
    about = dataclasses.replace(request, task=name, statement=statement)
    try:
        found = _verified(about, source, text)
    except RunError as error:
        wrong = Diagnostic.of("run", error, None)
        found = _described(about, source, text, Verdict(passed=False, stage="run", diagnostics=(wrong,)))
    # the verdict with what is doubtful about its task, first
    from step_runtime.verification.doubts import UNSTRESSED

    kept = [each for each in doubts if request.stress or each.code != UNSTRESSED]
    return found.model_copy(update={"warnings": (*map(_doubt, kept), *found.warnings)}) if kept else found


def _verified(request: Request, source: str, text: str) -> Verdict:
    """The verdict of the verifier, with all that the request asks of a program that passes, or does not."""
    from step_runtime.verification.explain import explain

    name, statement = request.task, request.statement
    verifier = _verifier(name, statement, request.dtype, request.limits)
    verdict = verifier.verify(text) if request.run else verifier.check(text)
    if any(each.code == "memory-limit" for each in verdict.diagnostics):
        raise MemoryError(verdict.diagnostics[0].message)
    further = verdict.passed and request.run
    wide = verifier if request.dtype == "float64" else _verifier(name, statement, "float64", request.limits)
    if further and request.stress:
        verdict = verdict.model_copy(update={"warnings": tuple(_stressed(wide, text))})
    table = explain(text, verifier.scopes[0]).table() if request.explain else ""
    found = _described(request, source, text, verdict, table)
    if further and request.exact:
        found = _with_exact(found, _proved(wide, text))
    if further and request.sizes:
        found = _at_sizes(request, found, text)
    if further and request.ir:
        from step_runtime.verification.ir import ir_of
        from step_runtime.verification.task_costs import TaskCosts

        found = found.model_copy(update={"ir": ir_of(wide.task, TaskCosts(wide.task).price(text))})
    if request.values and verdict.stage == "value" and (values := verifier.explain_values(text)) is not None:
        found = found.model_copy(update={"values": values, "feedback": f"{found.feedback}\n\n{values}"})
    return found


def _in_language(request: Request, name: str) -> Verdict:
    """By another language, whose faults are unknown verdicts."""
    from step_runtime.tasks.reader import task_name, task_text

    language, source = registry.find(name), request.statement
    if request.path is None:
        task = _task(request.task, source, name)
    else:
        source = task_text(Path(request.path))
        task = language.task(source, task_name(Path(request.path)), request.path)
    text = task.impl if request.text is None else request.text
    if text is None:
        return _without_program(request, task.name)
    if request.run:
        verdict = _judged(language, task.without_impl(), text, request.limits)
    else:
        found = tuple(language.check(task.without_impl(), text))
        verdict = Verdict(passed=not found, stage=found[0].stage if found else None, diagnostics=found)
    if verdict.passed and request.run and request.stress:
        verdict = verdict.model_copy(update={"warnings": tuple(language.stress(task.without_impl(), text))})
    return _described(dataclasses.replace(request, task=task.name), source, text, verdict)


def _judged(language: Any, task: Any, text: str, limits: ProgramLimits | None) -> Verdict:
    try:
        verdict = language.judge(task, text, limits)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"`judge` gave {verdict!r:.80}, expected a Verdict")
        if verdict.stage not in ((None,) if verdict.passed else language.stages):
            raise ValueError(f"`judge` gave the stage {verdict.stage!r}, expected one of {', '.join(language.stages)}")
        if not (verdict.passed or verdict.diagnostics):
            raise ValueError("`judge` gave no diagnostic with a failure, expected one or more")
    except (TaskError, MemoryError):
        raise
    except Exception as error:
        if out_of_memory(error):
            raise MemoryError(str(error)) from None
        message = f"the language {language.name} failed: {describe_error(error)}"
        stage = registry.lost_stage(language.stages)
        verdict = Verdict(passed=False, stage=stage, diagnostics=(Diagnostic(stage, "internal", message),))
    return verdict


def _without_program(request: Request, name: str) -> Verdict:
    message = f"{request.path}: this task has no `impl`; name a file with the program, or - for stdin"
    return dataclasses.replace(request, task=name).unusable(message)


def _described(request: Request, source: str, text: str, verdict: Verdict, table: str = "") -> Verdict:
    """The verdict with its places: those of an `impl` are the task file's own, whose text is `source`."""
    from step_runtime.tasks.reader import impl_place

    names, shown = request.names, request.program or request.task
    if request.text is None:
        names["program"], text, shown = request.path, source, request.task if verdict.passed else str(request.path)
        own = {name: [impl_place(source, e) for e in getattr(verdict, name)] for name in ("diagnostics", "warnings")}
        verdict = verdict.model_copy(update={name: tuple(found) for name, found in own.items()})
    return verdict.model_copy(update={"feedback": verdict.render(text, shown), "streams": table, **names})


def _doubt(warning: TaskWarning) -> Diagnostic:
    line = warning.line
    return Diagnostic("task", warning.code, warning.message, Span(line, 1, line, 1) if line else None)


def _stressed(verifier: Verifier, text: str) -> Sequence[Diagnostic]:
    try:
        return verifier.stress(text)
    except RunError:
        return ()


def _proved(verifier: Verifier, text: str) -> ExactVerdict | None:
    try:
        return verifier.exact(text)
    except RunError as error:
        return ExactVerdict("unknown", f"not followed: {error}")


def _with_exact(found: Verdict, proof: ExactVerdict | None) -> Verdict:
    """The verdict with the answer of exact arithmetic; a difference is a warning, as the inputs hide it."""
    if proof is None:
        return found
    warned = found.warnings
    if proof.answer == "different":
        message = f"differs from the reference in exact arithmetic at {'; '.join(proof.sizes)}: {proof.reason}"
        warned = (*warned, Diagnostic("value", "exact-different", message))
    return found.model_copy(
        update={"exact": proof, "warnings": warned, "feedback": f"{found.feedback}\n{proof.render()}"}
    )


def _at_sizes(request: Request, found: Verdict, text: str) -> Verdict:
    """The verdict with the errors at larger sizes, or what is wrong with the program there."""
    from step_runtime.program.limits import Limits
    from step_runtime.tasks.reader import loads_task
    from step_runtime.verification.real_sizes import errors_at

    task, asked = loads_task(request.statement, request.task), str(request.sizes)
    sizes = task.original if asked == ORIGINAL else sizes_of(asked)
    if not sizes:
        raise TaskError(f"{task.name}: names no original sizes; expected `original: {{N: 1024}}`")
    limits = (request.limits and request.limits.of_language()) or Limits()
    errors, wrong = errors_at(task, text, sizes, limits, _watching(task.name, request.statement))
    fails = any(each.stage != "stress" for each in wrong)
    lines = [*(each.render(text, request.program or task.name) for each in wrong), *(each.render() for each in errors)]
    update: dict[str, Any] = {"sizes": tuple(dataclasses.asdict(each) for each in errors)}
    if fails:
        update |= {"passed": False, "unknown": wrong[0].code in UNKNOWN, "stage": wrong[0].stage}
        update["diagnostics"] = tuple(wrong)
        found = found.model_copy(update={"feedback": ""})
    else:
        update["warnings"] = (*found.warnings, *wrong)
    return found.model_copy(update={**update, "feedback": "\n".join([*filter(None, [found.feedback]), *lines])})


def hold_out(task: str, statement: str, text: str, seed: int, language: str | None = None) -> Verdict:
    """The verdict on a program at sizes and inputs that are drawn from a seed.

    Raises:
        TaskError: The task cannot be used.
        MemoryError: The cell exceeded the memory limit, and may hold too much to continue.
    """
    try:
        if language is not None:
            return registry.find(language).hold_out(_task(task, statement, language), text, seed)
        return _held_out_task(task, statement, seed).judge(text)
    except TaskError as error:
        _end_if_out_of_memory(error)
        raise


def scopes(task: str, statement: str) -> tuple[Scope, ...]:
    """The names that programs of a task may use at each set of sizes, as its `global` leaves them.

    Raises:
        TaskError: The task cannot be used.
    """
    return tuple(scope.without_code() for scope in _verifier(task, statement, "float64", None).scopes)


def try_task(path: str) -> list[Diagnostic]:
    """Runs a task file's own code, and gives the warnings.

    Raises:
        TaskError: The task cannot be used.
        MemoryError: The cell exceeded the memory limit.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _load(path, path)
        except TaskError as error:
            _end_if_out_of_memory(error)
            raise
    messages = [each.message for each in caught if issubclass(each.category, UserWarning)]
    return [_doubt(each if isinstance(each, TaskWarning) else TaskWarning("python", str(each))) for each in messages]


def _load(path: str, about: str) -> Task:
    from step_runtime.verification.loading import load_task

    return load_task(path, before_run=functools.partial(watch, about))


@functools.lru_cache(maxsize=256)
def _loaded_text(path: str, text: str) -> tuple[Task, tuple[TaskWarning, ...]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = _load(path, f"{_LOADING} {path}")
    return task, tuple(each.message for each in caught if isinstance(each.message, TaskWarning))


@functools.lru_cache(maxsize=256)
def _task(name: str, statement: str, language: str) -> Any:
    return registry.find(language).task(statement, name, name)


@functools.lru_cache(maxsize=256)
def _verifier(task: str, statement: str, dtype: str, limits: ProgramLimits | None) -> Verifier:
    """One verifier a task and process, as its functions are compiled and its references computed once."""
    import torch

    from step_runtime.tasks.reader import loads_task
    from step_runtime.verification.verify import Verifier

    bounds = limits.of_language() if limits else None
    before_run = _watching(task, statement)
    return Verifier(loads_task(statement, task), dtype=getattr(torch, dtype), limits=bounds, before_run=before_run)


@functools.lru_cache(maxsize=64)
def _held_out_task(task: str, statement: str, seed: int) -> HeldOutTask:
    from step_runtime.tasks.reader import loads_task
    from step_runtime.verification.held_out import HeldOutTask

    return HeldOutTask(loads_task(statement, task), seed, before_run=_watching(task, statement))


def _watching(task: str, statement: str) -> BeforeRun:
    digest = hashlib.sha256(f"{task}\n{statement}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return functools.partial(watch, digest)


def watch(task: str, what: str, key: str) -> None:
    """Notes what runs next, unless that was lost before.

    Raises:
        RunError: It was.
    """
    doing = f"{task} {key}\t{what}"
    if doing in lost_at():
        message = f"not run again: with {what} of the same input, verification {lost_at()[doing]} before"
        raise RunError(LOST_BEFORE, message, hint="a function of the task may be at fault, and not the program")
    say(doing)


def _end_if_out_of_memory(error: Exception) -> None:
    """Raises `MemoryError` where that is the cause of a task's error: the cell may hold too much to go on."""
    if out_of_memory(error.__cause__):
        raise MemoryError(str(error)) from None
