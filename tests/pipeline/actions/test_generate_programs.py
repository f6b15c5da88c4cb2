"""Generate in stages: the result says which of them found a program."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import generate, verify
from pipeline.base.errors import run_command
from pipeline.rewriting.simplification import code_lines
from step_runtime import verify as verdict_on
from step_runtime.tasks.task import Task, dump_task
from step_runtime.verification.loading import load_task
from tests.support.small_tasks import of_scalars
from tests.support.task_texts import LOG_SUM_EXP

EASY = of_scalars({"double": ("2 * input[0]", 1)}, "input_data['E0'] * 2")
NEVER = of_scalars({"double": ("2 * input[0]", 1)}, "input_data['E0'] ** 3")


def run(folder: Path, tasks: dict[str, Task], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    for name, task in tasks.items():
        (folder / f"{name}.yaml").write_text(f"# by hand\n{dump_task(task)}")
    names = [str(folder / f"{name}.yaml") for name in tasks]
    argv = [
        *names,
        "-o",
        str(folder / "out"),
        "--samples",
        "1",
        "--temperatures",
        "0.4",
        "--max-minutes",
        "5",
        "--json",
    ]
    code = run_command(generate.NAME, generate.main, argv)
    return code, json.loads(capsys.readouterr().out)


def test_each_task_says_what_found_it_and_each_failure_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a program, a proposer or a key; what is written verifies and keeps the file's comments."""
    code, result = run(tmp_path, {"easy": EASY, "never": NEVER}, capsys)
    assert (code, result["solved"], result["unsolved"]) == (1, ["easy"], ["never"])
    easy, never = result["tasks"]["easy"], result["tasks"]["never"]
    assert easy["found_by"] in ("embedded", "search")
    assert code_lines(easy["impl"]) <= code_lines(easy["draft"])
    written = (tmp_path / "out" / "easy.yaml").read_text()
    assert written.startswith("# by hand\n")
    assert verdict_on(load_task(tmp_path / "out" / "easy.yaml")).passed
    assert (never["found_by"], never["search"]["reason"]) == (None, "exhausted")
    assert never["advice"]["hints"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*N is 3 at every set of sizes")
@pytest.mark.parametrize(
    "options", [[], ["--program", "none", "--samples", "2"], ["--proposer", "search", "--max-minutes", "0.3"]], ids=str
)
def test_every_path_that_offers_a_program_warns_as_verify_does(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the task and of the program, in the text and in JSON; `verify` gives the same codes."""
    path = tmp_path / "lse.yaml"
    path.write_text(LOG_SUM_EXP)
    assert run_command(generate.NAME, generate.main, [str(path), "-o", str(tmp_path / "out"), *options]) == 0
    shown = capsys.readouterr().out
    assert run_command(generate.NAME, generate.main, [str(path), *options, "--json"]) == 0
    warned = json.loads(capsys.readouterr().out)["warnings"]["lse"]
    assert run_command(verify.NAME, verify.main, [str(tmp_path / "out" / "lse.yaml"), "--json"]) == 0
    codes = [each["code"] for each in json.loads(capsys.readouterr().out)["warnings"]]
    assert codes == ["fixed-dim", "stress-overflow"]
    assert [each["code"] for each in warned] == codes and all(code in shown for code in codes)
