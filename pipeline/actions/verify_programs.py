"""`pipeline.verify`: programs checked in worker processes, reported as text, JSON and JUnit XML.

Neither torch nor the language is imported here; one verification imports both once, in the workers' server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.base.errors import Exit, UsageError, require
from pipeline.base.files import write_text
from pipeline.base.outputs import BatchOutput, BatchSummary
from pipeline.base.paths import shown
from pipeline.base.text import counted
from pipeline.cli.junit import junit_text
from pipeline.cli.program_arguments import Item, names_many, resolve
from pipeline.languages import registry
from pipeline.verification.judge import Request, judge, verdict_of
from pipeline.verification.limits import ProgramLimits, checking_pool
from pipeline.verification.pool import WorkerPool, cores
from step_runtime.verification.verdict import Verdict

__all__ = ["Batch", "Item", "names_many", "resolve", "run_single"]

_NEEDED = ("torch", "sympy", "numpy", "yaml")


@dataclass(frozen=True)
class Batch:
    """How programs are checked and reported.

    Attributes:
        asked: What is asked of each program, with limits.
        strict: Whether warnings fail a program.
    """

    asked: Request
    strict: bool = False
    junit: str | None = None

    @property
    def tasks(self) -> Path:
        """The folder of the language's own tasks."""
        return registry.tasks_folder(self.asked.language)

    def pool(self, programs: int) -> WorkerPool:
        """Worker processes for so many programs, one a core at most; they start meanwhile.

        Raises:
            ModuleNotFoundError: A package that they need is not installed.
        """
        require(*_NEEDED)
        long = self.asked.exact or self.asked.sizes is not None
        limits = self.asked.limits or ProgramLimits()
        return checking_pool(min(programs, cores()), limits, self.asked.language, exact=long)

    def check(self, items: Sequence[Item], pool: WorkerPool) -> Iterator[Verdict]:
        """The verdicts in the items' order, each as soon as it and all before it are known."""
        started = [self._submit(item, pool) for item in items]
        yield from (self._judged(finish()) for finish in started)

    def _submit(self, item: Item, pool: WorkerPool) -> Callable[[], Verdict]:
        """Starts the check of one item; the function returned waits for its outcome."""
        name = None if item.program == "-" else item.program
        request = replace(self.asked, task=item.task.stem, path=shown(item.task), program=name)
        unread = None
        try:
            request = replace(request, text=item.text)
        except UsageError as error:
            request, unread = replace(request, text=""), str(error)
        future = pool.submit(judge, request)

        def finish() -> Verdict:
            found = verdict_of(request, future)
            # What is wrong with the task comes first.
            return found if unread is None or found.error else replace(request, task=found.task).unusable(unread)

        return finish

    def _judged(self, verdict: Verdict) -> Verdict:
        """The verdict with warnings as failures, where these are strict."""
        if not (self.strict and verdict.passed and verdict.warnings):
            return verdict
        stage = "stress" if any(finding.stage == "stress" for finding in verdict.warnings) else "warnings"
        label = verdict.feedback.removesuffix(": passed")
        text = f"{label}: failed: {stage}, as warnings are strict"
        return verdict.model_copy(update={"passed": False, "stage": stage, "feedback": text})

    def write(self, verdicts: Sequence[Verdict]) -> None:
        """Writes the files that were asked for."""
        if self.junit is not None:
            write_text(Path(self.junit), junit_text(verdicts))


def run_single(settings: Batch, item: Item) -> Verdict:
    """Checks one program.

    Raises:
        UsageError: The task or the program can't be used, or a file can't be written.
    """
    with settings.pool(1) as pool:
        result = next(settings.check([item], pool))
    if result.error is not None:
        raise UsageError(result.error)
    settings.write([result])
    return result


def batch(verdicts: Sequence[Verdict], seconds: float) -> BatchOutput:
    """The verdicts on many programs as the command's JSON object."""
    passed = all(verdict.passed for verdict in verdicts)
    return BatchOutput(passed=passed, programs=tuple(verdicts), summary=summarize(verdicts, seconds))


def exit_code(verdicts: Sequence[Verdict]) -> Exit:
    """1 if a program fails, otherwise 2 if a file can't be used, otherwise 4 if a verdict is unknown, otherwise 0."""
    if any(verdict.failed for verdict in verdicts):
        return Exit.NO
    if any(verdict.error is not None for verdict in verdicts):
        return Exit.USAGE
    return Exit.UNKNOWN if any(verdict.unknown for verdict in verdicts) else Exit.OK


def run_batch(settings: Batch, items: Sequence[Item], say: Callable[[str], None], *, as_json: bool) -> Exit:
    """Checks many programs once, and reports them; returns the exit code.

    `say` takes each line or paragraph of the report, or the one JSON object.

    Raises:
        UsageError: A file can't be written.
    """
    start, results = time.monotonic(), list[Verdict]()
    with settings.pool(len(items)) as pool:
        for item, result in zip(items, settings.check(items, pool), strict=True):
            results.append(result)
            if not as_json:
                say(verdict_line(item.label, result))
    output = batch(results, time.monotonic() - start)
    settings.write(results)
    if as_json:
        say(output.text())
        return exit_code(results)
    for paragraph in (each for result in results for each in findings(result)):
        say(f"\n{paragraph}")
    say(f"\n{summary_line(output.summary)}")
    return exit_code(results)


def summarize(verdicts: Sequence[Verdict], seconds: float) -> BatchSummary:
    """Counts of the verdicts; `seconds` is wall time."""
    exact = [verdict.exact for verdict in verdicts if verdict.exact is not None]
    return BatchSummary(
        programs=len(verdicts),
        passed=sum(verdict.passed for verdict in verdicts),
        failed=sum(verdict.failed for verdict in verdicts),
        unknown=sum(verdict.unknown for verdict in verdicts),
        proved=sum(one.answer == "proved" for one in exact) if exact else None,
        unusable=sum(verdict.error is not None for verdict in verdicts),
        warnings=sum(len(verdict.warnings) for verdict in verdicts),
        seconds=round(seconds, 3),
    )


def verdict_line(label: str, verdict: Verdict) -> str:
    """A program's line: its verdict, its name, and the first failure."""
    if verdict.error is not None:
        return f"unusable  {label}"
    warned = f"  ({counted(len(verdict.warnings), 'warning')})" if verdict.warnings else ""
    if verdict.passed:
        exact = f"  exact: {verdict.exact.answer}" if verdict.exact else ""
        return f"passed    {label}{exact}{warned}"
    # Of a program that passes but for strict warnings, these are the reason.
    reasons = verdict.diagnostics or verdict.warnings
    codes = ", ".join(dict.fromkeys(finding.code for finding in reasons))
    word = "unknown" if verdict.unknown else "failed"
    return f"{word:9} {label}: {verdict.stage}: {codes}{warned}"


def findings(verdict: Verdict) -> list[str]:
    """All that there is to say of a program: errors, then warnings; nothing for one that passes without any."""
    errors = [] if verdict.passed or not (verdict.diagnostics or verdict.error) else [verdict.feedback]
    return [*errors, *verdict.warned()]


def summary_line(summary: BatchSummary) -> str:
    """The counts, as the last line."""
    proved = "" if summary.proved is None else f" ({summary.proved} proved)"
    counts = [f"{summary.passed} passed{proved}", f"{summary.failed} failed"]
    counts += [f"{summary.unknown} unknown"] if summary.unknown else []
    counts += [f"{summary.unusable} unusable"] if summary.unusable else []
    counts += [counted(summary.warnings, "warning")] if summary.warnings else []
    return f"{counted(summary.programs, 'program')}: {', '.join(counts)} in {summary.seconds:.1f} s"
