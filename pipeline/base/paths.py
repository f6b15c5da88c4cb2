"""Where the project's files lie: a checkout's own folders, or the current directory's where there is no checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGES = Path(__file__).resolve().parents[2]

PROJECT = _PACKAGES if (_PACKAGES / "pyproject.toml").is_file() else Path.cwd()
TASKS = PROJECT / "data" / "tasks"
MLRUNS = PROJECT / "mlruns"


def shown(path: Path) -> str:
    """The path as a person would type it: relative to the current directory where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
