"""Versions: equal for equal sources, different for any change of them, and named on both sides."""

from __future__ import annotations

import platform
import shutil
from dataclasses import replace
from pathlib import Path

import torch

from pipeline.cluster import software
from tests.support.paths import PROJECT


def test_the_versions_are_those_of_this_process() -> None:
    """Found without importing PyTorch, which a node's Dask process does not need."""
    here = software.installed()
    assert here.torch.partition("+")[0] == torch.__version__.partition("+")[0]
    assert here.python == platform.python_version()
    assert here.differences(here) == ""


def test_a_difference_is_named_with_both_versions() -> None:
    """All that differ, and no other."""
    here = software.installed()
    there = replace(here, torch="1.0", code="0" * 12)
    assert here.differences(there) == f"code {here.code} here, {'0' * 12} there, torch {here.torch} here, 1.0 there"


def test_any_change_of_the_sources_changes_the_digest(tmp_path: Path) -> None:
    """A line, a new file, a new name; files that are no sources do not."""
    shutil.copytree(PROJECT / "signatures", tmp_path / "signatures")
    digests = [software._digest(tmp_path)]
    (tmp_path / "signatures" / "notes.txt").write_text("x")
    assert software._digest(tmp_path) == digests[0]
    for name, text in (("added.py", ""), ("added.py", "x = 1\n"), ("other.py", "x = 1\n")):
        (tmp_path / "signatures" / "added.py").unlink(missing_ok=True)
        (tmp_path / "signatures" / name).write_text(text)
        digests.append(software._digest(tmp_path))
    assert len(set(digests)) == len(digests)
