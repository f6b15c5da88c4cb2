"""The project as others install it: a wheel that works from any folder, and what its metadata says.

The wheel is installed without its dependencies, beside those of this environment, which is quick; what an empty
environment gets is the same wheel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pipeline.__main__ import COMMANDS
from tests.support.paths import PROJECT


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel of the checkout was installed into."""
    folder, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(PROJECT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(target), str(wheel)], check=True, capture_output=True)
    return target


def ran(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_wheel_holds_code_tasks_and_prompts(installed: Path) -> None:
    """Every file of `data/` and of the packages that git tracks is in it."""
    tracked = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    wanted = [
        name for name in tracked.split("\n") if re.match(r"(optimizers|pipeline|signatures|step_runtime|data)/", name)
    ]
    places = [installed / ("pipeline" if name.startswith("data/") else "") / name for name in wanted]
    assert [str(place) for place in places if not place.is_file()] == []


def test_an_installed_command_finds_its_tasks_from_another_folder(installed: Path, tmp_path: Path) -> None:
    """A benchmark name and its packaged oracle, verified where no checkout is."""
    oracle = installed / "pipeline" / "data" / "oracles" / "gemm" / "1.step"
    done = ran(installed, tmp_path, "-m", "pipeline", "verify", "gemm/1", str(oracle))
    assert (done.returncode, done.stderr) == (0, "")
    where = ran(installed, tmp_path, "-c", "import pipeline.base.paths as p; print(p.TASKS, p.MLRUNS, p.CHECKOUT)")
    assert where.stdout.split() == [str(installed / "pipeline/data/tasks"), str(tmp_path / "mlruns"), "None"]


def test_the_command_names_its_commands(installed: Path, tmp_path: Path) -> None:
    """Without a command, with an unknown one, and for every module that is one."""
    listed = ran(installed, tmp_path, "-m", "pipeline")
    assert listed.returncode == 0 and all(f"  {name} " in listed.stdout for name in COMMANDS)
    unknown = ran(installed, tmp_path, "-m", "pipeline", "comple")
    assert unknown.returncode == 2 and "there is no command 'comple'" in unknown.stderr
    modules = {path.stem for path in (PROJECT / "pipeline").glob("*.py") if "start(NAME, main)" in path.read_text()}
    assert modules == set(COMMANDS)


def test_every_dependency_has_a_lower_bound() -> None:
    """What `scripts/test_lowest_versions.py` installs is stated for each, those of the extras included."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    for requirement in map(Requirement, texts):
        bounded = any(part.operator == ">=" for part in requirement.specifier)
        assert bounded or requirement.name == project["name"], requirement
