"""Tests mirror the modules: what a module `a/b.py` holds is in `tests/a/test_b.py`."""

from __future__ import annotations

import ast

import pytest

from tests.support.paths import PROJECT

PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime")
ELSEWHERE = {"pipeline/base/redaction.py": "test_secrets"}
"""Modules that only the attack tests hold so far; the set may become smaller, not larger."""


def modules(package: str) -> list[str]:
    """The paths of a package's modules inside the project, packages' own `__init__.py` aside."""
    return sorted(
        path.relative_to(PROJECT).as_posix() for path in (PROJECT / package).rglob("*.py") if path.name != "__init__.py"
    )


def mirror(module: str) -> str:
    folder, _, name = module.rpartition("/")
    return f"tests/{folder}/test_{name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_test_file_of_its_name(package: str) -> None:
    """A new module comes with its test file, and one that is renamed takes it along."""
    without = [
        module for module in modules(package) if not (PROJECT / mirror(module)).exists() and module not in ELSEWHERE
    ]
    assert not without, "without a test file:\n" + "\n".join(without)


def test_nothing_is_imported_from_benchmarks() -> None:
    """What tests and benchmarks share is in `tests/support`."""
    for path in (PROJECT / "tests").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not [name for name in imported if name.split(".")[0] == "benchmarks"], path
