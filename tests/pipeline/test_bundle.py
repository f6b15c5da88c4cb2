"""A bundle says what verification finds, and its check finds what has changed since."""

import json
import shutil
from pathlib import Path

import pytest

from pipeline import bundle
from pipeline import compile as compiling
from pipeline.base.errors import run_command
from pipeline.base.files import read_bytes
from pipeline.record import store
from tests.support.answering_lm import Engine
from tests.support.languages import install_counter
from tests.support.scripted_runs import RIGHT, TASK

pytestmark = pytest.mark.usefixtures("unrendered")
FILES = ["README.md", "bundle.json", "program.step", "task.yaml", "test_program.py"]


def run(*argv: str) -> int:
    return run_command(bundle.NAME, bundle.main, argv)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundle of a right program."""
    scratch = tmp_path_factory.mktemp("right")
    (scratch / "double.yaml").write_text(TASK + "license: Apache-2.0\n")
    (scratch / "program.step").write_text(RIGHT)
    files = [str(scratch / name) for name in ("double.yaml", "program.step")]
    assert run(*files, "-o", str(scratch / "bundle"), "--person", "A. Person", "--lm", "openai/x") == 0
    return scratch / "bundle"


@pytest.fixture
def made(original: Path, tmp_path: Path) -> Path:
    """A copy of it, elsewhere."""
    return Path(shutil.copytree(original, tmp_path / "bundle"))


def checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str], str]:
    """The exit code, what differs with both values, and the digest."""
    capsys.readouterr()
    code = run("--check", str(folder))
    *lines, verdict, digest = capsys.readouterr().out.splitlines()
    assert verdict == f"{folder}: {'not all of it holds' if code else 'all of it holds'}"
    found = (line.removeprefix("DIFFERS  ").partition(": ") for line in lines if line.startswith("DIFFERS"))
    return code, {place: what for place, _, what in found}, digest


def test_a_bundle_has_the_verdict_the_proof_the_cost_and_who_answers(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the folder is, all of it holds; each file is read once, so that what is compared is judged."""
    assert sorted(path.name for path in made.iterdir()) == FILES

    def read(path: Path, most: int) -> bytes:
        content = read_bytes(path, most)
        if path.name == "program.step":
            path.write_text("return E0\n")
        return content

    monkeypatch.setattr("pipeline.actions.bundle_program.read_bytes", read)
    assert checked(made, capsys)[:2] == (0, {})
    assert (made / "program.step").read_text() == "return E0\n"
    said = json.loads((made / "bundle.json").read_text())
    assert (said["origin"]["task"], said["license"]) == ("double", "Apache-2.0")
    assert (said["origin"]["person"], said["origin"]["lm"]) == ("A. Person", "openai/x")
    assert said["verdict"]["passed"] and said["verdict"]["exact"]["answer"] == "proved"
    assert said["held_out"]["answer"] == "passed" and said["cost"]["figures"]["memory"]["value"] >= 0
    page = (made / "README.md").read_text()
    assert "| verdict | passed |" in page and "| person who answers for it | A. Person |" in page
    assert str(made.parent) not in (made / "bundle.json").read_text()


def test_a_forged_field_is_found_whatever_it_is(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its place: what a reviewer reads first, what a new version added, and what the page repeats."""
    path = made / "bundle.json"
    digest = checked(made, capsys)[2]
    said = json.loads(path.read_text())
    said["license"] = "MIT"
    said["verdict"]["exact"] |= {"bits": 10_000, "reason": "by hand"}
    said["verdict"]["warnings"] = [{"code": "none-at-all"}]
    said["held_out"] |= {"reason": "best of its kind", "sizes": ["all"], "seed": 3}
    said["cost"]["figures"]["time"]["value"] = 1
    said["cost"]["reviewed"] = True
    said["reviewed"] = "twice"
    said["origin"]["person"] = "B. Person"
    said["files"]["README.md"] = "0" * 64
    path.write_text(json.dumps(said))
    code, differing, other = checked(made, capsys)
    forged = {
        "license", "verdict.exact.bits", "verdict.exact.reason", "verdict.warnings", "held_out.reason",
        "held_out.sizes", "held_out.seed", "cost.figures.time.value", "cost.reviewed", "reviewed", "files.README.md",
    }  # fmt: skip
    assert code == 1 and set(differing) == {*forged, "README.md"}, differing
    assert differing["license"] == 'stated "MIT", found "Apache-2.0"' and digest != other


def test_a_value_that_is_written_twice_is_found(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON readers take the last one, people the first."""
    path = made / "bundle.json"
    path.write_text(path.read_text().replace('"license": ', '"license": "MIT",\n  "license": ', 1))
    code, differing, _ = checked(made, capsys)
    assert code == 1 and differing == {"bundle.json": "its values hold, but it is written in another way"}


@pytest.mark.parametrize("skipped", ["held_out", "cost", "verdict"])
def test_no_gate_is_skipped(skipped: str, made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A bundle without a verdict is none."""
    path = made / "bundle.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), skipped: None}))
    assert run("--check", str(made)) == 2
    assert f"expected what pipeline.bundle writes: {skipped}" in capsys.readouterr().err


def test_a_changed_missing_or_added_file_is_found(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A comment in the program, the page, the tests, and what nobody has checked."""
    program = made / "program.step"
    program.write_text("# audited by C. Person\n" + program.read_text())
    (made / "README.md").unlink()
    (made / "test_program.py").write_text("def test_nothing() -> None: ...\n")
    for number in range(100):
        (made / f"more{number:02}.txt").touch()
    code, differing, _ = checked(made, capsys)
    assert code == 1
    assert differing.pop("more00.txt") == "added since; not checked" and "80 more files" in differing
    assert {place: what for place, what in differing.items() if not place.startswith("more")}.keys() == {
        "README.md", "program.step", "test_program.py", "80 more files"
    }  # fmt: skip


def test_a_program_that_is_wrong_now_is_named_with_its_verdict(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the bundle says of it."""
    (made / "program.step").write_text("return E0\n")
    assert run("--check", str(made)) == 1
    out = capsys.readouterr().out
    assert "DIFFERS  verdict: stated passed, found that the program does not pass" in out and "output S0 differs" in out


def test_a_folder_without_a_bundle_and_a_damaged_one_are_reported(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with exit code 2; so is a command without a task."""
    (made / "bundle.json").write_text('{"format": 1}')
    assert run("--check", str(made)) == 2
    assert "bundle.json: expected what pipeline.bundle writes: format" in capsys.readouterr().err
    (made / "bundle.json").unlink()
    assert run("--check", str(made)) == 2
    assert "expected a bundle: bundle.json: missing" in capsys.readouterr().err
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


def test_a_bundle_of_another_language_names_its_version_and_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no script, proof or cost."""
    install_counter(tmp_path, monkeypatch)
    (tmp_path / "two.txt").write_text("up\nup\n")
    made = tmp_path / "bundle"
    assert run("two", str(tmp_path / "two.txt"), "-o", str(made), "--language", "counter") == 0
    assert sorted(path.name for path in made.iterdir()) == ["README.md", "bundle.json", "program.counter", "task.yaml"]
    said = json.loads((made / "bundle.json").read_text())
    assert (said["language"], said["origin"]["made_by"]["counter"], said["cost"]) == ("counter", "1", {})
    assert checked(made, capsys)[:2] == (0, {})
    (made / "program.counter").write_text("up\n")
    assert run("--check", str(made)) == 1 and "expected 2, got 1" in capsys.readouterr().out


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
