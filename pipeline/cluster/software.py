"""The versions that determine a verdict, which must be equal on the client and on every node."""

from __future__ import annotations

import functools
import hashlib
import platform
from dataclasses import dataclass, fields
from importlib import metadata
from pathlib import Path

PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime")


@dataclass(frozen=True)
class Software:
    """The versions of one process; `code` is a digest of the sources of `PACKAGES`."""

    code: str
    python: str
    torch: str
    numpy: str

    def differences(self, other: Software) -> str:
        """What differs, with both values: `torch 2.13.0 here, 2.12.1 there`; empty if nothing does."""
        return ", ".join(
            f"{field.name} {mine} here, {theirs} there"
            for field in fields(self)
            if (mine := getattr(self, field.name)) != (theirs := getattr(other, field.name))
        )


@functools.cache
def installed() -> Software:
    """The versions of this process."""
    return Software(_digest(Path(__file__).parents[2]), platform.python_version(), _version("torch"), _version("numpy"))


def _digest(root: Path) -> str:
    """A digest of all source files of the packages below a folder."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\n{len(data)}\n".encode() + data)
    return digest.hexdigest()[:12]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
