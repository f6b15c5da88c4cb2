"""A package with broken metadata beside this one is named once, and ends no command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import PROJECT

CODE = """
import pipeline, pydantic, importlib_metadata, subprocess, sys
from pipeline.base.languages import declared
importlib_metadata.entry_points()
print("step" in declared())
subprocess.run([sys.executable, "-c", "import pipeline"], check=True)
"""


@pytest.mark.parametrize("entries", [b"[adaptive_step.languages]\nx = \xff\xfe\n", b"[broken\nx = y\n", b"\x00\xff"])
def test_an_unreadable_package_is_named_and_skipped(entries: bytes, tmp_path: Path) -> None:
    metadata = tmp_path / "bad-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_bytes(entries)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{PROJECT}"}
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    named = done.stderr.count(f"{metadata}: its entry_points.txt can't be read; this package is skipped")
    assert named == (b"\xff" in entries)
