"""A run's pictures are drawn from its iterations alone, one or several."""

from __future__ import annotations

from pathlib import Path

from pipeline.record import pictures
from tests.pipeline.conftest import Recorded


def test_both_pictures_are_there_after_any_iteration(recorded_run: Recorded, tmp_path: Path) -> None:
    iterations = recorded_run.experience.iterations
    for number in (1, len(iterations)):
        (folder := tmp_path / str(number)).mkdir()
        pictures.draw(iterations[:number], 3, 2, folder)
        assert {path.name for path in folder.iterdir()} == {"learning_curve.png", "pass_at_k.png"}
        assert all(path.read_bytes().startswith(b"\x89PNG") for path in folder.iterdir())
