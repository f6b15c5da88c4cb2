"""Where the project's files are, and how a path is shown."""

from pathlib import Path

import pytest

from pipeline.base import paths
from tests.support.paths import PROJECT


def test_a_checkout_has_its_own_data_and_record() -> None:
    """Both lie in the folder of pyproject.toml."""
    assert PROJECT == paths.CHECKOUT
    assert (PROJECT / "data", PROJECT / "mlruns") == (paths.DATA, paths.MLRUNS)
    assert (paths.TASKS / "gemm" / "1.yaml").is_file()


def test_a_path_below_the_current_directory_is_shown_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other is shown whole."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert paths.shown(here / "runs" / "a.json") == "runs/a.json"
    assert paths.shown(tmp_path / "a.json") == str(tmp_path / "a.json")
