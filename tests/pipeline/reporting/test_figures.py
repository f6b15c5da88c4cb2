"""Runs that differ in granularity alone share a picture."""

from dataclasses import replace
from pathlib import Path

from pipeline.reporting import figures, page
from pipeline.reporting.runs import RecordedRun
from tests.pipeline.conftest import Recorded


def test_runs_that_differ_in_granularity_alone_are_compared(
    run_read: RecordedRun, unrendered: None, tmp_path: Path
) -> None:
    """One picture of m = 1 to 4, the last of equals; a run with another seed stands apart."""

    def made(m: int, seed: int, run_id: str) -> RecordedRun:
        params = {"optimizer": "adaptive", "granularity": str(m), "seed": str(seed)}
        return replace(run_read, params=params, run_id=run_id, label=f"m = {m}, seed {seed}")

    runs = [made(m, 0, f"old{m}") for m in (1, 2, 3, 4)] + [made(2, 0, "new2"), made(3, 1, "other")]
    (alike,) = figures.granularity_sets(runs)
    assert [run.run_id for run in alike] == ["old1", "new2", "old3", "old4"]
    files = page.write(runs, tmp_path)
    assert {"granularity.svg", "learning_curves.png", "learning_curve_6.svg"} <= set(files)
    assert "Granularity</h2>" in (tmp_path / "index.html").read_text()


def test_pass_at_k_after_an_iteration_counts_what_was_solved_by_then(
    run_read: RecordedRun, recorded_run: Recorded
) -> None:
    """It starts at the recorded pass@1 over all temperatures, and ends at pass@n; the last curve is the run's."""
    for it, said in zip(run_read.iterations, recorded_run.experience.iterations, strict=True):
        curve = figures.pass_at_k_at(run_read, it)
        assert (curve[0], curve[-1]) == (said.pass_at_1_pooled, it.score.pass_at_n)
