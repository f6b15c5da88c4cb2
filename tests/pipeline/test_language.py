"""A language of one's own: the skeleton works, the example keeps what it must, and faults are named."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline import language, verify
from pipeline.base.errors import run_command
from pipeline.languages import registry
from tests.support.languages import declare
from tests.support.paths import PROJECT


@pytest.fixture(autouse=True)
def forgetting() -> None:
    registry.find.cache_clear()


def run(*argv: str) -> int:
    return run_command(language.NAME, language.main, argv)


def skeleton(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, *options: str) -> Path:
    """The skeleton of a language of a name, installed; the folder of its module."""
    assert run("new", name, "-o", str(folder), *options) == 0
    module = f"{name.replace('-', '_')}_language"
    declare(folder, monkeypatch, name, f"{module}:LANGUAGE")
    return folder / module


def check(name: str, folder: Path, *options: str, tests: str = "test") -> subprocess.CompletedProcess[str]:
    """The kit, or some of its tests, in a process of its own, where the folder's packages are installed."""
    paths = os.pathsep.join([str(folder), str(PROJECT)])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTEST_ADDOPTS": f"-k {tests}"}
    argv = [sys.executable, "-m", language.NAME, "check", name, "--seconds", "1", *options]
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_skeleton_is_written_and_keeps_all_that_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own task is verified. What pip compiles of the template is left out."""
    templates = shutil.copytree(language.TEMPLATES, tmp_path / "templates")
    (templates / "texts/MODULE/__pycache__").mkdir()
    (templates / "texts/MODULE/__pycache__/__init__.cpython-311.pyc").write_bytes(b"\xa7\r")
    monkeypatch.setattr(language, "TEMPLATES", templates)
    folder = skeleton(tmp_path / "new", monkeypatch, "my-own").parent
    assert "python -m pipeline.language check my-own" in capsys.readouterr().out
    done = check("my-own", folder, "--junit", str(tmp_path / "report.xml"))
    assert done.returncode == 0, done.stdout
    suite = ElementTree.fromstring((tmp_path / "report.xml").read_text())[0]
    assert int(str(suite.get("tests"))) > 50 and suite.get("failures") == "0"

    program = tmp_path / "p.txt"
    program.write_text("add 1\nadd 2\n")
    assert run_command(verify.NAME, verify.main, ["three", str(program), "--language", "my-own"]) == 0


@pytest.mark.slow
def test_a_skeleton_of_a_language_of_tensors_keeps_all_that_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = check("rows", skeleton(tmp_path, monkeypatch, "rows", "--tensors").parent)
    assert done.returncode == 0, done.stdout


def test_programs_run_on_a_device_where_the_user_names_it_and_unconfined_there_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stand-in for a device's driver: a file, which a cell can't open."""
    module = skeleton(tmp_path / "new", monkeypatch, "rows", "--tensors")
    (tmp_path / "driver").touch()
    for name, old, new in (
        ("__init__.py", "    suffix =", '    devices = ("cpu", "cuda")\n    suffix ='),
        ("running.py", "        exec(", f"        open({str(tmp_path / 'driver')!r}).close()\n        exec("),
    ):
        text = (module / name).read_text()
        assert old in text
        (module / name).write_text(text.replace(old, new))
    argv = ["softmax", str(module / "oracles/softmax.tile"), "--language", "rows"]
    assert run_command(verify.NAME, verify.main, argv) == 1
    assert "Permission denied" in capsys.readouterr().out
    paths = os.pathsep.join([str(module.parent), str(PROJECT)])
    environment = {**os.environ, "PYTHONPATH": paths, "ADAPTIVE_STEP_DEVICE": "cuda"}
    subprocess.run([sys.executable, "-m", verify.NAME, *argv], env=environment, check=True)


@pytest.mark.slow
def test_the_example_of_five_instructions_keeps_all_that_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(PROJECT / "examples/stack/stack_language", tmp_path / "stack_language")
    declare(tmp_path, monkeypatch, "stack", "stack_language:STACK")
    done = check("stack", tmp_path)
    assert done.returncode == 0, done.stdout


FAULTS = {
    "a key that is always equal": (
        'return f"value {_value(text)}" if all(map(_LINE.fullmatch, text.splitlines())) else f"text {text}"',
        'return "one"',
        "test_keys_of_wrong_programs",
    ),
    "answers that are not unwrapped": (
        "    def check(",
        "    def extract(self, answer: str) -> str:\n        return answer.strip()\n\n    def check(",
        "test_answers",
    ),
    "answers that are read in quadratic time": (
        "    def check(",
        "    def extract(self, answer: str) -> str:\n"
        '        found = re.findall(r"```[^\\n]*\\n(.*?)```", answer, re.DOTALL)\n'
        '        return (found[-1] if found else answer).strip() + "\\n"\n\n    def check(',
        "test_long_answers_are_read_quickly",
    ),
    "verdicts by chance": (
        "if value == task.content",
        "import random\n        if random.random() < 0.3 or value == task.content",
        "test_near_misses_among_oracles",
    ),
    "verdicts that depend on earlier ones": (
        "        value = _value(text)",
        "        passed = self.__dict__.setdefault('passed', [])\n"
        "        value = passed[0] if passed else _value(text)\n"
        "        passed.append(value)",
        "test_near_misses_among_oracles",
    ),
    "results that begin as those expected": (
        "        value = _value(text)",
        '        value = _value(text) if text.strip() else task.content["want"]',
        "test_an_empty_program",
    ),
    "a judge that sleeps": (
        "        value = _value(text)", "        import time\n        time.sleep(1.2)\n        value = _value(text)",
        "test_warm_verdicts_are_quick",
    ),
    "code that runs in the caller": (
        '        """What the text shows to be wrong, with its place; runs nothing."""', "        exec('1')",
        "test_nothing_runs_here",
    ),
    "no attack of a language that executes": ("executes = False", "executes = True", "test_programs_are_shown"),
}  # fmt: skip


QUICK = ("a key that is always equal", "results that begin as those expected", "code that runs in the caller")


@pytest.mark.parametrize(
    "fault", [pytest.param(each, marks=[] if each in QUICK else pytest.mark.slow) for each in FAULTS]
)
def test_what_a_language_breaks_is_named(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the test of that property."""
    module = skeleton(tmp_path / "new", monkeypatch, "faulty") / "__init__.py"
    right, wrong, test = FAULTS[fault]
    text = module.read_text()
    assert right in text
    if "text.strip() else task" in wrong:  # an empty program is readable in a language with this fault
        text = text.replace("return found if text.strip() else", "return found if True else")
    module.write_text(text.replace(right, wrong))
    done = check("faulty", module.parent.parent, tests=test)
    assert done.returncode == 1 and f"::{test}" in "".join(
        line for line in done.stdout.splitlines() if line.startswith("FAILED")
    ), done.stdout


def test_files_that_no_task_has_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = skeleton(tmp_path / "new", monkeypatch, "faulty")
    (module / "near-misses/nowhere").mkdir()
    (module / "oracles/other.txt").write_text("add 1\n")
    done = check("faulty", module.parent, tests="test_files")
    assert done.returncode == 1
    assert "expected a stage (parse, value)" in done.stdout and "no task below tasks/ has this path" in done.stdout


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["new", "No_Name"], "is no name of a language"),
        (["new", "step"], "there is a language 'step' already"),
        (["check", "nothing"], "no language 'nothing'"),
    ],
)
def test_bad_names_are_refused(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2 and one line."""
    assert run(*argv) == 2
    assert message in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that holds something is refused."""
    (tmp_path / "mine.txt").write_text("mine")
    assert run("new", "mine", "-o", str(tmp_path)) == 2
    assert "is not empty" in capsys.readouterr().err
