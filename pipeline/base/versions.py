"""The versions of code and libraries that a run is recorded with."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata

from pipeline.base.paths import CHECKOUT

PACKAGES = ("dspy", "mlflow", "torch")


def code_version() -> str:
    """The package's version and, in a checkout, git's name for the commit, marked `-dirty` if files differ from it."""
    try:
        version = metadata.version("adaptive-step")
    except metadata.PackageNotFoundError:
        version = "not installed"
    if CHECKOUT is None:
        return version
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--tags"],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return version
    return f"{version} ({described.stdout.strip()})"


def versions() -> dict[str, str]:
    """The versions of Python and of the libraries that results may depend on."""
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in PACKAGES}
