"""The project as others install it: a wheel that works from any folder, and what its metadata says.

The wheel is unpacked, which is all that installing one of Python alone is, beside the dependencies of this environment;
what an empty environment gets is the same wheel.
"""

import email
import os
import re
import shutil
import subprocess
import sys
import tomllib
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from pipeline.__main__ import COMMANDS
from pipeline.base.errors import EXTRA_MODULES
from tests.support.paths import PROJECT

PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime", "ttlang")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel of the checkout was unpacked into."""
    folder, target = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(PROJECT)]
    subprocess.run(build, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, target, "zip")
    return target


BLOCKING = """
import importlib.abc, runpy, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
"""What makes an environment one in which some modules are not installed."""


def ran(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(installed), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_wheel_holds_code_tasks_and_prompts(installed: Path) -> None:
    """Every file of `data/` and of the packages that git tracks is in it."""
    tracked = subprocess.run(["git", "ls-files"], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    wanted = [
        name
        for name in tracked.split("\n")
        if re.match(r"(optimizers|pipeline|signatures|step_runtime|ttlang|data)/", name)
    ]
    places = [installed / ("pipeline" if name.startswith("data/") else "") / name for name in wanted]
    assert [str(place) for place in places if not place.is_file()] == []


def test_an_installed_command_finds_its_tasks_from_another_folder(installed: Path, tmp_path: Path) -> None:
    """A benchmark name and its packaged oracle, verified where no checkout is."""
    oracle = installed / "pipeline" / "data" / "oracles" / "gemm" / "1.step"
    done = ran(installed, tmp_path, "-m", "pipeline", "verify", "gemm/1", str(oracle))
    assert (done.returncode, done.stderr) == (0, "")
    where = ran(installed, tmp_path, "-c", "import pipeline.base.files as p; print(p.TASKS, p.MLRUNS, p.CHECKOUT)")
    assert where.stdout.split() == [str(installed / "pipeline/data/tasks"), str(tmp_path / "mlruns"), "None"]


def test_the_command_names_its_commands(installed: Path, tmp_path: Path) -> None:
    """Without a command, with an unknown one, and for every module that is one."""
    listed = ran(installed, tmp_path, "-m", "pipeline")
    assert listed.returncode == 0 and all(f"  {name} " in listed.stdout for name in COMMANDS)
    unknown = ran(installed, tmp_path, "-m", "pipeline", "comple")
    assert unknown.returncode == 2 and "there is no command 'comple'" in unknown.stderr
    modules = {path.stem for path in (PROJECT / "pipeline").glob("*.py") if "start(NAME, main)" in path.read_text()}
    assert modules == set(COMMANDS)


def metadata(installed: Path) -> Message:
    (folder,) = installed.glob("adaptive_step-*.dist-info")
    return email.message_from_string((folder / "METADATA").read_text())


def test_optimizers_can_be_installed_alone(installed: Path, tmp_path: Path) -> None:
    """The wheel's base dependencies are DSPy and what it depends on itself; nothing else is needed to optimize."""
    required = list(map(Requirement, metadata(installed).get_all("Requires-Dist", [])))
    assert {each.name for each in required if each.marker is None} == {"cloudpickle", "dspy-ai", "pydantic", "tqdm"}
    program = BLOCKING.format(modules=sorted(EXTRA_MODULES - {"numpy", "yaml"})) + ALONE  # DSPy needs these two
    done = ran(installed, tmp_path, "-c", program)
    assert (done.returncode, done.stdout) == (0, "solved ('a',)\n"), done.stderr


ALONE = """
import dspy, optimizers, pipeline
lm = dspy.utils.DummyLM([{"answer": "yes"}] * 9)
with dspy.context(lm=lm):
    task = dspy.Example(question="q").with_inputs("question")
    named = optimizers.Domain(task_key=lambda example: "a")
    optimizer = optimizers.AdaptiveFewShot(lambda example, prediction: prediction.answer == "yes", 2, domain=named)
    print("solved", optimizer.compile(dspy.Predict("question -> answer"), trainset=[task]).experience.solved)
"""


RECORDED = """
import dspy, optimizers
from mlflow import MlflowClient
from pipeline import MLflowObserver
observer = MLflowObserver("mine", client=MlflowClient("sqlite:///mine.db"))
lm = dspy.utils.DummyLM([{"answer": "yes"}] * 9)
with dspy.context(lm=lm):
    task = dspy.Example(question="q").with_inputs("question")
    said_yes = lambda example, prediction: prediction.answer == "yes"
    optimizer = optimizers.AdaptiveFewShot(said_yes, 2, observers=[observer])
    optimizer.compile(dspy.Predict("question -> answer"), trainset=[task])
run = MlflowClient("sqlite:///mine.db").get_run(observer.run_id)
print(run.info.status, run.data.metrics["solved"])
"""


def test_the_extra_mlflow_is_all_that_a_record_takes(installed: Path, tmp_path: Path) -> None:
    """Without PyTorch, and what else only the language and the commands need."""
    program = BLOCKING.format(modules=["torch", "sympy", "rich"]) + RECORDED
    done = ran(installed, tmp_path, "-W", "ignore", "-c", program)
    assert (done.returncode, done.stdout) == (0, "FINISHED 1.0\n"), done.stderr


def test_the_extras_bring_every_module_that_the_commands_miss(installed: Path) -> None:
    """`pipeline` names all of them, and so does what a command says without them."""
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(metadata(installed).get_all("Provides-Extra", [])) == set(extras)

    def packages(extra: str) -> set[str]:
        found = set(map(Requirement, extras[extra]))
        own = {name for each in found if each.name == "adaptive-step" for name in each.extras}
        return {each.name for each in found} - {"adaptive-step"} | {name for each in own for name in packages(each)}

    assert {{"pyyaml": "yaml"}.get(name, name) for name in packages("pipeline")} == EXTRA_MODULES
    assert packages("pipeline") | {"distributed", "mcp", "optuna", "pygraphviz"} == packages("all") < packages("dev")


EACH_COMMAND = """
from pipeline.__main__ import COMMANDS, run
for command in COMMANDS:
    sys.argv = ["adaptive-step", command, *{words!r}.get(command, [])]
    try:
        run()
    except SystemExit as ended:
        print(command, ended.code)
"""


def test_a_command_without_its_packages_says_what_to_install(installed: Path, tmp_path: Path) -> None:
    """In one line, with the exit code of bad usage."""
    words = {"compile": ["--optimizer", "none"], "report": ["-o", "r"], "verify": ["gemm/1"]}
    words |= {"evaluate": ["--program", "none"], "generate": ["gemm/1", "--program", "none"], "cost": ["gemm/1"]}
    words |= {
        "optimize": ["gemm/1", "--objective", "memory"],
        "sweep": ["sweep.yaml"],
        "mcp": ["."],
        "language": ["check", "step"],
        "task": ["layers.py:block"],
        "bundle": ["gemm/1", "-o", "b"],
    }
    (tmp_path / "sweep.yaml").touch()
    program = BLOCKING.format(modules=sorted(EXTRA_MODULES - {"numpy"})) + EACH_COMMAND.format(words=words)
    done = ran(installed, tmp_path, "-c", program)
    assert done.stdout.splitlines() == [f"{command} 2" for command in COMMANDS], done.stderr
    advice = " is not installed; the commands need: pip install 'adaptive-step[pipeline]'"
    lines = done.stderr.splitlines()
    assert len(lines) == len(COMMANDS)
    assert [line for line in lines if not line.endswith(advice)] == []


def test_every_package_says_that_it_is_typed(installed: Path) -> None:
    """So that the types reach whoever installs the wheel."""
    assert [name for name in PACKAGES if not (installed / name / "py.typed").is_file()] == []


def test_every_dependency_has_a_lower_bound() -> None:
    """What `scripts/lowest_versions` installs is stated for each, those of the extras included."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    for requirement in map(Requirement, texts):
        bounded = any(part.operator == ">=" for part in requirement.specifier)
        assert bounded or requirement.name == project["name"], requirement
