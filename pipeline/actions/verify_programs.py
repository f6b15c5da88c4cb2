"""`pipeline.verify`: programs checked in worker processes, reported as text, JSON and JUnit XML.

Neither torch nor the language is imported here; one verification imports both once, in the workers' server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pipeline.base.errors import Exit, UsageError, require
from pipeline.base.files import shown
from pipeline.base.outputs import BatchOutput, BatchSummary
from pipeline.base.text import counted
from pipeline.cli.options import Item
from pipeline.verification.judge import Request, judge, verdict_of
from pipeline.verification.limits import ProgramLimits, checking_pool
from pipeline.verification.pool import WorkerPool, cores
from step_runtime.verification.verdict import Verdict


def verdicts(asked: Request, items: Sequence[Item]) -> Iterator[Verdict]:
    """What is asked of each program, in the items' order, each as soon as it and all before it are known.

    Raises:
        ModuleNotFoundError: A package that workers need is not installed.
    """
    require("torch", "sympy", "numpy", "yaml")
    long, limits = asked.exact or asked.sizes is not None, asked.limits or ProgramLimits()
    with checking_pool(min(len(items), cores()), limits, asked.language, exact=long) as pool:
        for finish in [_started(asked, item, pool) for item in items]:
            yield finish()


def _started(asked: Request, item: Item, pool: WorkerPool) -> Callable[[], Verdict]:
    """Starts the check of one item; the function returned waits for its outcome."""
    name = None if item.program == "-" else item.program
    request, unread = replace(asked, task=item.task.stem, path=shown(item.task), program=name), None
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


def verdict_on(asked: Request, item: Item) -> Verdict:
    """That on one program.

    Raises:
        UsageError: The task or the program can't be used.
    """
    [found] = verdicts(asked, [item])
    if found.error is not None:
        raise UsageError(found.error)
    return found


def strictly(verdict: Verdict) -> Verdict:
    """The verdict with warnings as failures."""
    if not (verdict.passed and verdict.warnings):
        return verdict
    stage = "stress" if any(finding.stage == "stress" for finding in verdict.warnings) else "warnings"
    label = verdict.feedback.removesuffix(": passed")
    text = f"{label}: failed: {stage}, as warnings are strict"
    return verdict.model_copy(update={"passed": False, "stage": stage, "feedback": text})


def exit_code(verdicts: Sequence[Verdict]) -> Exit:
    """1 if a program fails, otherwise 2 if a file can't be used, otherwise 4 if a verdict is unknown, otherwise 0."""
    if any(verdict.failed for verdict in verdicts):
        return Exit.NO
    if any(verdict.error is not None for verdict in verdicts):
        return Exit.USAGE
    return Exit.UNKNOWN if any(verdict.unknown for verdict in verdicts) else Exit.OK


def report(
    items: Sequence[Item], found: Iterator[Verdict], say: Callable[[str], None], *, as_json: bool
) -> list[Verdict]:
    """Reports the verdicts on many programs, each as soon as it is known.

    `say` takes each line or paragraph of the report, or the one JSON object.
    """
    start, results = time.monotonic(), list[Verdict]()
    for item, result in zip(items, found, strict=True):
        results.append(result)
        if not as_json:
            say(verdict_line(item.label, result))
    summary = summarize(results, time.monotonic() - start)
    if as_json:
        passed = all(verdict.passed for verdict in results)
        say(BatchOutput(passed=passed, programs=tuple(results), summary=summary).text())
        return results
    for paragraph in (each for result in results for each in findings(result)):
        say(f"\n{paragraph}")
    say(f"\n{summary_line(summary)}")
    return results


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
