"""Whole runs spend equal samples on what is unsolved, and none is made twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import forked

COMMAND = ("-m", "benchmarks.whole_runs", "--levels", "1", "--per-level", "3", "2", "--iterations", "2", "--seeds", "1")


@pytest.mark.slow
def test_only_unsolved_tasks_are_sampled_again_and_no_run_is_made_twice(tmp_path: Path) -> None:
    """Arms share the first iteration; each spends what those before it left; the tables come from the file."""
    path = tmp_path / "runs.jsonl"
    command = (*COMMAND, "--samples", "1", "--fresh", "1", "--arms", "none", "similar", "-o", str(path))
    first = forked.run(*command)
    assert first.returncode == 0, first.stderr
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["arm"], line["seed"]) for line in lines] == [("none", 0), ("similar", 0)]
    for line in lines:
        (spent, solved), (total, at_last) = line["curve"]
        assert (spent, total) == (3, 3 + 3 - solved) and solved <= at_last == sum(line["solved"])
        assert len(line["fresh"]) == 2 and all(0 <= rate <= 1 for rate in line["fresh"])
    assert lines[0]["curve"][0] == lines[1]["curve"][0]
    again = forked.run(*command)
    assert (again.stdout, again.stderr) == (first.stdout, "")
    assert (
        "Seeds: 1; differences to `none`" in first.stdout
        and f"| similar | {lines[1]['curve'][-1][0]} |" in first.stdout
    )
