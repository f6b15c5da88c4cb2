"""Tests mirror the packages: what a package `a/b` holds is tested in the folder `tests/a/b`."""

import ast
import re

import pytest

from tests.support.paths import PROJECT

PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime", "ttlang")


def folders(package: str) -> list[str]:
    """The folders of a package, itself included, that hold modules besides `__init__.py`."""
    modules = (path for path in (PROJECT / package).rglob("*.py") if path.name != "__init__.py")
    return sorted({path.parent.relative_to(PROJECT).as_posix() for path in modules})


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_folder_of_tests(package: str) -> None:
    """A new package comes with its tests, and one that is moved takes them along."""
    without = [folder for folder in folders(package) if not [*(PROJECT / "tests" / folder).glob("test_*.py")]]
    assert not without, "no tests/FOLDER/test_*.py for:\n" + "\n".join(without)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_tests_has_its_package(package: str) -> None:
    """Tests of a package that was removed or moved do not stay behind."""
    tests = PROJECT / "tests"
    tested = {path.parent.relative_to(tests).as_posix() for path in (tests / package).rglob("test_*.py")}
    assert not tested - {*folders(package)}


def test_nothing_is_imported_from_benchmarks() -> None:
    """But by their own tests: what others share with them is in `tests/support`."""
    for path in {*(PROJECT / "tests").rglob("*.py")} - {*(PROJECT / "tests" / "benchmarks").glob("*.py")}:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        assert not [name for name in imported if name.split(".")[0] == "benchmarks"], path


def test_every_helper_has_a_line_in_the_index() -> None:
    """`tests/support/README.md` names each module of its folder, and no other."""
    support = PROJECT / "tests" / "support"
    names = re.findall(r"^- `(\w+)`: ", (support / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    modules = {path.stem for path in support.glob("*.py")} | {path.parent.name for path in support.glob("*/*.py")}
    assert sorted(names) == sorted(modules - {"__init__"})
