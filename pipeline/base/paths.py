"""Where the project's files are: in a checkout its own folders; where it is installed, data inside the package.

An installed project keeps its record in the current directory.
"""

from __future__ import annotations

from pathlib import Path

_PIPELINE = Path(__file__).resolve().parents[1]

CHECKOUT = _PIPELINE.parent if (_PIPELINE.parent / "pyproject.toml").is_file() else None
"""The folder of the checkout that this code is run from; None where it is installed."""

DATA = CHECKOUT / "data" if CHECKOUT else _PIPELINE / "data"
DOCS = CHECKOUT / "docs" if CHECKOUT else _PIPELINE / "docs"
"""The documentation; an installed project has the pages that its MCP server shows."""
TASKS = DATA / "tasks"
MLRUNS = (CHECKOUT or Path.cwd()) / "mlruns"


def shown(path: Path) -> str:
    """The path as a person would type it: relative to the current directory where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
