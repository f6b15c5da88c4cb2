"""Languages of packages that tests install for themselves: a module, and the metadata that declares it."""

from __future__ import annotations

from pathlib import Path

import pytest


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> None:
    """Installs a package with one module, `NAME_language`, whose `LANGUAGE` is the language of a name."""
    module = f"{name.replace('-', '_')}_language"
    (folder / f"{module}.py").write_text(code + "\n", encoding="utf-8")
    declare(folder, monkeypatch, name, f"{module}:LANGUAGE")


def declare(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Installs the metadata of a package in a folder, whose entry point names a language."""
    metadata = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    entry = f"[adaptive_step.languages]\n{name} = {value}\n"
    (metadata / "entry_points.txt").write_text(entry, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
