"""Findings as SARIF 2.1.0, which editors and code hosts show beside the source (OASIS, Static Analysis Results)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pipeline.base.outputs import Finding, ProgramVerdict
from pipeline.base.text import visible
from pipeline.cli.rule_texts import UNUSABLE, rule_text

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_text(verdicts: Sequence[ProgramVerdict]) -> str:
    """One run with a result for every error and warning; files are relative to the current folder."""
    found = [each for verdict in verdicts for each in _findings(verdict)]
    texts = {finding.code: rule_text(finding.code, finding.stage) for finding in found}
    rules = sorted(texts)
    described = [{"id": code, "shortDescription": {"text": texts[code]}} for code in rules]
    driver: dict[str, Any] = {"name": "pipeline.verify", "rules": described}
    if number := _version():
        driver["version"] = number
    results = [_result(finding, rules.index(finding.code)) for finding in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _version() -> str | None:
    try:
        return version("adaptive-step")
    except PackageNotFoundError:
        return None


def _findings(verdict: ProgramVerdict) -> Iterator[Finding]:
    yield from verdict.diagnostics
    yield from verdict.warnings
    if verdict.error is not None:
        for message in verdict.error.splitlines():
            placed = re.match(r"(?P<file>.+?):(?P<line>\d+):(\d+:)? ", message)
            file = placed["file"] if placed else verdict.program or verdict.task_file
            line = int(placed["line"]) if placed else None
            yield Finding(severity="error", stage="task", code=UNUSABLE, message=message, file=file, line=line)


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    parts = [finding.message, *finding.details, *([f"hint: {finding.hint}"] if finding.hint else [])]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": visible("\n".join(parts))},
    }
    if finding.file is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.file)}}
        region = {
            "startLine": finding.line,
            "startColumn": finding.column,
            "endLine": finding.end_line,
            "endColumn": finding.end_column,
        }
        if finding.line is not None:
            place["region"] = {key: value for key, value in region.items() if value is not None}
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(file: str) -> str:
    """A relative reference where the file lies below the current folder, else a file URI."""
    path = Path(file).absolute()
    return quote(path.relative_to(Path.cwd()).as_posix()) if path.is_relative_to(Path.cwd()) else path.as_uri()
