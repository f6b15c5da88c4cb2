"""Findings as SARIF 2.1.0: what the standard requires is there, and every place is kept."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.outputs import Finding, ProgramVerdict
from pipeline.cli.rule_texts import UNUSABLE, rule_text
from pipeline.cli.sarif import sarif_text


def log(*verdicts: ProgramVerdict) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(sarif_text(verdicts))
    return parsed


def verdict(**fields: Any) -> ProgramVerdict:
    return ProgramVerdict(
        **{"task": "t", "task_file": "t.yaml", "program": None, "passed": False, "stage": None, **fields}
    )


ERROR = Finding(severity="error", stage="type", code="zip-shape", message="differ", file="a b.step", line=2, column=6,
                end_line=2, end_column=9, details=("left; right",), hint="make them equal")  # fmt: skip
WARNING = Finding(severity="warning", stage="task", code="equal-dims", message="both 4", file="t.yaml", line=7)


def test_the_log_has_what_the_standard_requires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections 3.13, 3.14, 3.18, 3.27: version, runs, the driver's name, a message and a rule of every result."""
    monkeypatch.chdir(tmp_path)
    found = log(verdict(diagnostics=(ERROR,), warnings=(WARNING,)))
    assert found["version"] == "2.1.0" and "sarif-2.1.0" in found["$schema"]
    (run,) = found["runs"]
    assert run["tool"]["driver"]["name"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    texts = [rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"]]
    assert texts == [rule_text("equal-dims", "task"), rule_text("zip-shape", "type")]
    assert rules == ["equal-dims", "zip-shape"]
    for result in run["results"]:
        assert result["message"]["text"] and result["level"] in ("error", "warning")
        assert rules[result["ruleIndex"]] == result["ruleId"]


def test_places_are_file_line_and_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files below the current folder as relative references, percent-encoded."""
    monkeypatch.chdir(tmp_path)
    error, warning = log(verdict(diagnostics=(ERROR,), warnings=(WARNING,)))["runs"][0]["results"]
    place = error["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b.step"
    assert place["region"] == {"startLine": 2, "startColumn": 6, "endLine": 2, "endColumn": 9}
    assert error["message"]["text"] == "differ\nleft; right\nhint: make them equal"
    assert warning["locations"][0]["physicalLocation"]["region"] == {"startLine": 7}


def test_a_file_that_can_not_be_used_is_a_result_at_its_line() -> None:
    """One for each problem in it; standard input has no place."""
    results = log(verdict(error="/x/t.yaml:3: inputs[0]: odd\n/x/t.yaml:9: outputs: odd"))["runs"][0]["results"]
    assert {result["ruleId"] for result in results} == {UNUSABLE}
    regions = [result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in results]
    assert regions == [3, 9]
    assert results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///x/t.yaml"
    piped = ERROR.model_copy(update={"file": None})
    assert "locations" not in log(verdict(diagnostics=(piped,)))["runs"][0]["results"][0]


def test_programs_that_pass_leave_no_result() -> None:
    """And no rule."""
    assert log(verdict(passed=True))["runs"][0]["results"] == []


def test_every_code_of_a_warning_has_a_text_of_its_own() -> None:
    """A rule without a description tells a reader of the log nothing; another language's codes have their stage's."""
    sources = [path.read_text(encoding="utf-8") for path in Path("step_runtime/verification").rglob("*.py")]
    calls = (node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    warned = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "TaskWarning"]
    codes = {call.args[0].value for call in warned if isinstance(call.args[0], ast.Constant)}
    assert len(codes) > 10
    texts = [rule_text(str(code), "task") for code in codes]
    assert len({*texts, rule_text("of-another-language", "task")}) == len(codes) + 1
