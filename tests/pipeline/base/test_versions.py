"""Versions of code and libraries that a run is recorded with."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.base import versions


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 1.2 is installed."""
    monkeypatch.setattr(metadata, "version", lambda name: "1.2")


def test_a_checkout_names_its_commit(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As git describes it."""
    asked: list[Any] = []

    def describe(command: Any, **options: Any) -> Any:
        asked.append((command[:2], options["cwd"]))
        return SimpleNamespace(stdout="abc123-dirty\n")

    monkeypatch.setattr(versions, "CHECKOUT", Path("here"))
    monkeypatch.setattr(subprocess, "run", describe)
    assert versions.code_version() == "1.2 (abc123-dirty)"
    assert asked == [(["git", "describe"], Path("here"))]


def test_without_git_the_version_alone_is_named(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where there is no checkout."""

    def absent(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", absent)
    for checkout in (Path("here"), None):
        monkeypatch.setattr(versions, "CHECKOUT", checkout)
        assert versions.code_version() == "1.2"


def test_code_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout can be run from without installing it."""

    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    monkeypatch.setattr(versions, "CHECKOUT", None)
    assert versions.code_version() == "not installed"


def test_python_and_the_libraries_that_results_depend_on_are_named(installed: None) -> None:
    """Each with its version."""
    assert versions.versions() == {"python": platform.python_version(), "dspy": "1.2", "mlflow": "1.2", "torch": "1.2"}
