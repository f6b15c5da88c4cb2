"""Loading tasks holds these:

- whatever a file's own code does (hang, crash, allocate or print without end), the command ends with one message: the
  file, the line, what happened and what was expected;
- it does so in another process, and what it prints is not seen;
- what the author should know is a warning.
"""

import functools
import os
from pathlib import Path

import pytest

from pipeline import optimize, verify
from pipeline.base.errors import Exit, UsageError, run_command
from pipeline.verification import limits
from pipeline.verification.task_files import find, load_task_named, load_tasks
from tests.support.processes import LIMIT
from tests.support.scripted_runs import RIGHT, TASK

BAD = {
    "while True: print('y' * 1000)": "its code took longer than {limit} s of processor time and was killed",
    "import os; os._exit(0)": "its code ended its process with exit code 0",
    "import sys; sys.exit(0)": "line 1 of the snippet raised SystemExit: 0",
    "import ctypes; ctypes.string_at(0)": "its code crashed: SIGSEGV",
    "x = [bytes(2**26) for _ in iter(int, 1)]": "its code exceeded the memory limit",
    "x = torch.ones(2**36)": "its code exceeded the memory limit",
    "x = 1\n  raise ValueError('on purpose')": "line 2 of the snippet raised ValueError: on purpose",
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are given little time and memory, and any time by the clock, as the machine may be busy."""
    monkeypatch.setattr("pipeline.verification.pool.PATIENCE", 100)
    impatient = functools.partial(limits.verification_pool, seconds=LIMIT, memory=2**29)
    monkeypatch.setattr(limits, "verification_pool", impatient)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "double.yaml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("code", BAD)
def test_a_global_that_can_not_be_run_is_reported(code: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one line."""
    path = written(tmp_path, f"{TASK}global: |\n  {code}\n")
    assert run_command(verify.NAME, verify.main, [path, "-"]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"pipeline.verify: {path}:5: global: {BAD[code].format(limit=LIMIT)}")
    assert err.count("\n") == 1


def test_a_reference_that_hangs_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """By its line, its place in the file, and the sizes: another one may do."""
    path = written(tmp_path, TASK.replace("""["input_data""", """["while True: pass\\ninput_data"""))
    assert run_command(optimize.NAME, optimize.main, [path, "-"]) == 2
    err = capfd.readouterr().err
    assert f"{path}:4: outputs[0].data_transform[0]: its code took longer" in err
    assert "was killed at M=5; " in err
    assert "expected code that comes to its end" in err


def test_a_function_that_always_hangs_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As it is tried when the file is loaded."""
    path = written(tmp_path, TASK.replace("return [input[0] * 2]", "while True: pass"))
    assert run_command(verify.NAME, verify.main, [path, "-"]) == 2
    assert f"{path}:3: fns[0].apply: its code took longer" in capfd.readouterr().err


def test_a_function_that_hangs_costs_the_verdict_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A function that does so for numbers of the inputs, and not for those that it is tried on."""
    hangs = "while input[0] < 0: pass\\nreturn [input[0] * 2]"
    path = written(tmp_path, TASK.replace("return [input[0] * 2]", hangs).replace("torch.rand", "torch.randn"))
    program = tmp_path / "program.txt"
    program.write_text(RIGHT)
    assert run_command(verify.NAME, verify.main, [path, str(program)]) == Exit.UNKNOWN
    out, err = capfd.readouterr()
    assert (
        f"time-limit: verification took longer than {LIMIT} s of processor time and was killed\n"
        "  it had come to step.Map(fn=fn)" in out
    )
    assert err == ""


def test_an_author_s_code_runs_in_another_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For loading, for the verdict, for the graph and for the script; it is not confined, as it writes a log."""
    monkeypatch.setenv("ADAPTIVE_STEP_SANDBOX", "off")
    log = tmp_path / "log"
    code = f"import os, pathlib; print('seen'); pathlib.Path({str(log)!r}).open('a').write(f'{{os.getpid()}}\\n')"
    path = written(tmp_path, f"{TASK}impl: |\n  {RIGHT.replace(chr(10), chr(10) + '  ')}\nglobal: |\n  {code}\n")
    script = tmp_path / "test_it.py"
    assert run_command(verify.NAME, verify.main, [path, "--explain", "--pytest", str(script)]) == 0
    load_tasks([path])
    assert script.read_text().count("print('seen')") == 2, "as code and in the task's text"
    processes = log.read_text().split()
    assert len(processes) >= 4
    assert str(os.getpid()) not in processes


def test_warnings_come_from_the_workers(tmp_path: Path) -> None:
    """A reference that any constant would match."""
    path = written(tmp_path, TASK.replace("input_data['E0'] * 2", "torch.ones(M_value)"))
    with pytest.warns(UserWarning, match="output S0 does not depend on the inputs"):
        assert load_task_named(path).name == "double"


def test_all_unusable_tasks_of_a_folder_are_reported_at_once(tmp_path: Path) -> None:
    """Those that can't be read and those whose code fails, in the order of the files."""
    (tmp_path / "1.yaml").write_text(TASK.replace("fp32", "fp33"))
    (tmp_path / "2.yaml").write_text(TASK)
    (tmp_path / "3.yaml").write_text(TASK.replace("input_data['E0'] * 2", "input_data['E9'] * 2"))
    (tmp_path / "4.yaml").write_text("inputs: 3")
    with pytest.raises(UsageError) as caught:
        load_tasks([str(tmp_path)])
    files = [Path(line.split(":")[0]).name for line in str(caught.value).splitlines()]
    assert list(dict.fromkeys(files)) == ["1.yaml", "3.yaml", "4.yaml"], str(caught.value)


def test_the_files_of_a_folder_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """`l3/2` comes before `l3/10`."""
    for number in (10, 2, 1):
        (tmp_path / f"{number}.yaml").write_text("")
    assert [path.stem for path in find(str(tmp_path))] == ["1", "2", "10"]
