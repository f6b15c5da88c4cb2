"""Samples that have read nothing of their task are timed in this checkout and beside another one."""

from __future__ import annotations

import importlib
import json
import re

import pytest

from tests.support.paths import PROJECT

cold_samples = importlib.import_module("benchmarks.cold_samples")

TASK = str(PROJECT / "data" / "tasks" / "gemm" / "0.yaml")


def test_each_task_has_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    """One sample of each is measured, in a process of its own."""
    assert cold_samples.main([TASK, TASK, "--seed", "1"]) == 0
    seconds = json.loads(capsys.readouterr().out)
    assert len(seconds) == 2 and min(seconds) > 0.0


def test_two_checkouts_are_compared(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The average and the largest time of each, and the ratio of the averages."""
    given = {cold_samples._ROOT: [0.1, 0.3], PROJECT / "tests": [0.4, 0.4]}
    monkeypatch.setattr(cold_samples, "_measured_in", lambda checkout, *_: given[checkout])
    assert cold_samples.main([TASK, TASK, "--samples", "3", "--beside", str(PROJECT / "tests")]) == 0
    assert re.findall(r"\d\.\d\d", capsys.readouterr().out) == ["0.20", "0.30", "0.40", "0.40", "0.50"]
