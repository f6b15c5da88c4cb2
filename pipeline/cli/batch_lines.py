"""The verdicts on many programs as text: a line each, what failed in full, a summary."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.base.outputs import BatchSummary, Finding, ProgramVerdict
from pipeline.base.text import counted
from pipeline.verification.checking import Checked


def summarize(verdicts: Sequence[ProgramVerdict], seconds: float) -> BatchSummary:
    """Counts of the verdicts; `seconds` is wall time."""
    return BatchSummary(
        programs=len(verdicts),
        passed=sum(verdict.passed for verdict in verdicts),
        failed=sum(not verdict.passed and verdict.error is None for verdict in verdicts),
        unusable=sum(verdict.error is not None for verdict in verdicts),
        warnings=sum(len(verdict.warnings) for verdict in verdicts),
        seconds=round(seconds, 3),
    )


def line(label: str, verdict: ProgramVerdict) -> str:
    """A program's line: its verdict, its name, and what failed first."""
    if verdict.error is not None:
        return f"unusable  {label}"
    warned = f"  ({counted(len(verdict.warnings), 'warning')})" if verdict.warnings else ""
    if verdict.passed:
        return f"passed    {label}{warned}"
    codes = ", ".join(dict.fromkeys(finding.code for finding in verdict.diagnostics)) or "warnings"
    return f"failed    {label}: {verdict.stage}: {codes}{warned}"


def findings(result: Checked) -> list[str]:
    """All that there is to say of a program: errors, then warnings; nothing for one that passes without any."""
    verdict = result.verdict
    errors = [] if verdict.passed or not (verdict.diagnostics or verdict.error) else [result.text]
    return [*errors, *map(warning_line, verdict.warnings)]


def warning_line(finding: Finding) -> str:
    """A warning as one line, or several where it has details."""
    place = ":".join(str(part) for part in (finding.file, finding.line, finding.column) if part is not None)
    head = f"{place}: warning: {finding.code}: {finding.message}"
    return "\n".join([head, *(f"  {detail}" for detail in finding.details)])


def summary_line(summary: BatchSummary) -> str:
    """The counts, as the last line."""
    counts = [f"{summary.passed} passed", f"{summary.failed} failed"]
    counts += [f"{summary.unusable} unusable"] if summary.unusable else []
    counts += [counted(summary.warnings, "warning")] if summary.warnings else []
    return f"{counted(summary.programs, 'program')}: {', '.join(counts)} in {summary.seconds:.1f} s"
