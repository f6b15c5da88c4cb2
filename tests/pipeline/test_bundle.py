"""A bundle says what verification finds, and its check finds what has changed since."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import bundle
from pipeline import compile as compiling
from pipeline.base.errors import run_command
from pipeline.base.files import read_bytes
from pipeline.record import store
from tests.support.answering_lm import Engine
from tests.support.scripted_runs import RIGHT, TASK

pytestmark = pytest.mark.usefixtures("unrendered")
FILES = ["README.md", "bundle.json", "program.step", "task.yaml", "test_program.py"]


def run(*argv: str) -> int:
    return run_command(bundle.NAME, bundle.main, argv)


@pytest.fixture
def made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The bundle of a right program."""
    (tmp_path / "double.yaml").write_text(TASK + "license: Apache-2.0\n")
    (tmp_path / "program.step").write_text(RIGHT)
    folder = tmp_path / "bundle"
    files = [str(tmp_path / name) for name in ("double.yaml", "program.step")]
    assert run(*files, "-o", str(folder), "--person", "A. Person", "--lm", "openai/x") == 0
    capsys.readouterr()
    return folder


def checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any], dict[str, str]]:
    """The exit code, the object, and what differs with the reasons."""
    code = run("--check", str(folder), "--json")
    output = json.loads(capsys.readouterr().out)
    return code, output, {each["what"]: each["message"] for each in output["checks"] if not each["holds"]}


def test_a_bundle_has_the_verdict_the_proof_the_cost_and_who_answers(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of it holds when it is checked, wherever the folder is; the page says it in words."""
    folder = made.rename(made.with_name("moved"))
    assert sorted(path.name for path in folder.iterdir()) == FILES
    code, output, differing = checked(folder, capsys)
    assert (code, output["passed"], differing) == (0, True, {})
    said = output["bundle"]
    assert (said["task"], said["license"]) == ("double", "Apache-2.0")
    assert (said["origin"]["person"], said["origin"]["lm"]) == ("A. Person", "openai/x")
    assert said["verdict"]["passed"] and said["verdict"]["exact"]["answer"] == "proved"
    assert said["held_out"]["answer"] == "passed" and said["cost"]["figures"]["memory"]["value"] >= 0
    page = (folder / "README.md").read_text()
    assert "| verdict | passed |" in page and "| person who answers for it | A. Person |" in page
    assert str(made.parent) not in (folder / "bundle.json").read_text()


def test_a_change_is_found(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program that is wrong now, a file that is gone, and another that came."""
    (made / "program.step").write_text("return E0\n")
    (made / "README.md").unlink()
    (made / "notes.txt").write_text("fine")
    code, _, differing = checked(made, capsys)
    assert code == 1
    assert differing["program.step"] == "changed since the bundle was made"
    assert differing["README.md"] == "cannot be read: No such file or directory"
    assert differing["notes.txt"] == "added since; not checked"
    for number in range(100):
        (made / f"more{number}.txt").touch()
    _, _, differing = checked(made, capsys)
    assert differing["81 more files"] == "added since"
    assert differing["verdict"] == "stated passed, found failed: value: value"


def test_what_is_compared_is_what_is_verified(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is read once: a program that is put in its place later is not looked at."""

    def read(path: Path, most: int) -> bytes:
        content = read_bytes(path, most)
        if path.name == "program.step":
            path.write_text("return E0\n")
        return content

    monkeypatch.setattr("pipeline.actions.bundle_program.read_bytes", read)
    code, _, differing = checked(made, capsys)
    assert (code, differing) == (0, {}) and (made / "program.step").read_text() == "return E0\n"


def test_a_claim_that_was_changed_is_found(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What can be found again is; the digest of the whole shows a change of what can't."""
    path = made / "bundle.json"
    before = checked(made, capsys)[1]["sha256"]
    said = json.loads(path.read_text())
    said["cost"]["figures"]["time"]["value"] = 1
    said["origin"]["person"] = "B. Person"
    path.write_text(json.dumps(said))
    code, output, differing = checked(made, capsys)
    assert code == 1 and set(differing) == {"cost", "page"}
    assert output["sha256"] != before


def test_a_folder_without_a_bundle_and_a_damaged_one_are_reported(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with exit code 2; so is a command without a task."""
    (made / "bundle.json").write_text('{"format": 1}')
    assert run("--check", str(made)) == 2
    assert "expected what pipeline.bundle writes: task: this key is missing" in capsys.readouterr().err
    (made / "bundle.json").unlink()
    assert run("--check", str(made)) == 2
    assert "cannot read the bundle: No such file" in capsys.readouterr().err
    assert run() == 2 and "expected a TASK to bundle, or --check DIR" in capsys.readouterr().err
    assert run("gemm/1") == 2 and "-o: expected the folder" in capsys.readouterr().err


def test_a_wrong_program_is_not_bundled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its verdict is printed, and nothing is written."""
    (tmp_path / "double.yaml").write_text(TASK)
    (tmp_path / "program.step").write_text("return E0\n")
    assert run(str(tmp_path / "double.yaml"), str(tmp_path / "program.step"), "-o", str(tmp_path / "b")) == 1
    err = capsys.readouterr().err
    assert "the program does not pass, and is not bundled" in err and "output S0 differs" in err
    assert not (tmp_path / "b").exists()


def test_the_run_that_wrote_a_program_is_named(
    engine: Engine, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """LM, seed, sample and prompt are those on record; another program's run is refused."""
    options = ["--optimizer", "none", "--tasks", str(folder), "--samples", "2", "--temperatures", "0.7", "--json"]
    assert run_command(compiling.NAME, compiling.main, [*options, "--lm", "scripted/1", "--seed", "5"]) == 0
    run_id = json.loads(capsys.readouterr().out)["run_id"]
    task, program = str(folder / "double.yaml"), tmp_path / "program.step"
    program.write_text(RIGHT)
    assert run(task, str(program), "-o", str(tmp_path / "b"), "--run", run_id[:8]) == 0
    origin = json.loads((tmp_path / "b" / "bundle.json").read_text())["origin"]
    assert (origin["run_id"], origin["seed"], origin["iteration"], origin["simplified"]) == (run_id, 5, 1, False)
    assert origin["temperature"] == 0.7 and len(origin["prompt_sha256"]) == 64 and origin["lm"]
    client, _ = store.open_store()
    assert client.get_run(run_id).data.params["lm"] == origin["lm"]
    program.write_text("E1 = step.Identity().apply(E0)\nE2 = step.Map(fn=fn).apply(E1)\nreturn E2\n")
    assert run(task, str(program), "-o", str(tmp_path / "c"), "--run", run_id[:8]) == 2
    assert "has solved this task with another program" in capsys.readouterr().err
