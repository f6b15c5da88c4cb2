"""DSPy's own optimizers by the command hold these.

- Same student, metric, tasks and record as `adaptive`: a parent run, a pass of samples, a program that loads and works.
- Tokens are those that the LM gave out, what the optimizer itself asked included, in the report as in the record.
- What an optimizer needs, or has no use for, is reported in one line before anything is asked.
- `bootstrap` and `random-search` run on the embedded LM; the others need one that writes instructions.
"""

import json
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import pytest
import yaml
from dspy import lm15
from mlflow import MlflowClient

from pipeline import compile as command
from pipeline import load_program
from pipeline.base.errors import run_command
from pipeline.record import store
from pipeline.reporting.runs import read_runs
from pipeline.reporting.tables import learning
from pipeline.running import job as job_module
from pipeline.verification.task_files import load_tasks
from step_runtime.verification.verify import verify
from tests.support import answering_lm as answering
from tests.support.answering_lm import shared_tasks
from tests.support.scripted_lm import respond

# DSPy's optimizers ask their own libraries for things that are on their way out.
pytestmark = [
    pytest.mark.usefixtures("unrendered"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

OPTIONS = ("--samples", "4", "--temperatures", "1.0", "--threads", "2")


class Engine(answering.Engine):
    """Writes a sentence into every field of a request that asks for no program.

    Of the first instructions, as many as `garbled` says can't be read.
    """

    garbled = 0

    def complete(self, request: lm15.Request) -> lm15.Response:
        user = request.messages[-1].text or ""
        if "[[ ## impl ## ]]" in user or "[[ ## impl ## ]]" in str(request.system):
            return super().complete(request)
        self.calls += 1
        fields = re.findall(r"`(?:\[\[ ## )?(\w+)(?: ## \]\])?`", user.rpartition("Respond with")[2])
        text = "\n\n".join(f"[[ ## {name} ## ]]\nDouble what is to be doubled." for name in dict.fromkeys(fields))
        if "JSON object" in user:
            text = json.dumps(dict.fromkeys(fields, "Double what is to be doubled."))
        if self.garbled and "proposed_instruction" in fields:
            text, self.garbled = "I would rather not.", self.garbled - 1
        return respond(request, text, answering.USAGE)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, store_folder: Path) -> Engine:
    engine = Engine()
    answering.use(engine, monkeypatch)
    return engine


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any], str]:
    """The command's exit code, its JSON object, and what it says itself on stderr."""
    capsys.readouterr()
    code = run_command(command.NAME, command.main, [*OPTIONS, *argv, "--json"])
    out, err = capsys.readouterr()
    own = [line for line in err.splitlines() if line.startswith(command.NAME)]
    return code, json.loads(out) if out else {}, "\n".join(own)


ALIKE = [pytest.param(name, marks=pytest.mark.slow) for name in ("random-search", "mipro", "simba")]


@pytest.mark.parametrize("name", ["bootstrap", "gepa", *ALIKE])
def test_an_optimizer_has_the_record_that_every_other_has(
    name: str, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Figures of the pass, tokens of all requests, a program that loads and answers, and one that can be resumed."""
    tasks = shared_tasks()
    if name == "mipro":
        pytest.importorskip("optuna")
    code, result, _ = run(capsys, "--optimizer", name, "--lm", "scripted/1", "--tasks", str(tasks))
    before = engine.calls
    assert (code, result["iterations"], result["solved"][0], result["unsolved"][0]) == (0, 1, "double", "halve")
    assert result["tokens"] == {"prompt": engine.calls * 4000, "completion": engine.calls * 20, "cached": 0}
    client = MlflowClient(tracking_uri=store.store_uri())
    parent = client.get_run(result["run_id"])
    assert parent.info.status == "FINISHED"
    assert parent.data.params["optimizer"] == name
    assert parent.data.metrics["pass_at_n"] == pytest.approx(result["pass_at_n"], rel=1e-5)
    assert result["pass_at_n"] == pytest.approx(len(result["solved"]) / 3)
    assert parent.data.metrics["samples"] == 3 * 4
    assert parent.data.metrics["total_tokens_prompt"] == engine.calls * 4000
    (reported,) = read_runs([result["run_id"]])
    assert (reported.tokens.prompt, reported.tokens.completion) == (engine.calls * 4000, engine.calls * 20)
    assert (
        pytest.approx(parent.data.metrics["tokens_prompt_per_task"], rel=1e-5)
        == reported.iterations[0].prompt_per_task
        == engine.calls * 4000 / 3
    )
    assert (reported.overhead.calls, reported.iterations[0].tokens.calls) == (engine.calls - 12, 12)
    program = load_program(result["program"], lm=dspy.LM("scripted", engine=engine, cache=False))
    task = load_tasks([str(tasks / "double.yaml")])[0]
    assert verify(task, program(task=task).impl).passed
    assert program.proposer.predict.demos or name != "bootstrap"
    _, again, reported = run(capsys, "--resume", result["run_id"], "-o", str(tmp_path / "again.json"))
    assert again == {**result, "program": str(tmp_path / "again.json")}
    assert (tmp_path / "again.json").read_text() == Path(result["program"]).read_text()
    assert reported.startswith(f"{command.NAME}: run {result['run_id']} is already complete; no requests made")
    assert engine.calls == before + 1, "neither the optimizer nor the pass asks again; one call was the program's"
    assert client.get_run(result["run_id"]).info.end_time == parent.info.end_time


def test_the_demonstrations_of_the_program_are_on_record(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How many, and of which tasks; the iteration is named by the optimizer, in the store as in the report."""
    tasks = shared_tasks()
    _, result, _ = run(capsys, "--optimizer", "bootstrap", "--lm", "scripted/1", "--tasks", str(tasks))
    saved = json.loads(Path(result["program"]).read_text())["predictors"]["proposer.predict"]["demonstrations"]
    names = [demo["name"] for demo in saved]
    client, experiment = store.open_store()
    (nested,) = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{result['run_id']}'")
    assert (nested.info.run_name, nested.data.params["demonstrations"]) == ("01 bootstrap", ", ".join(names))
    assert nested.data.metrics["demonstrations"] == len(names) > 0
    place = "iterations/01_bootstrap/demonstrations.yaml"
    shown = yaml.safe_load(Path(client.download_artifacts(result["run_id"], place, str(tmp_path))).read_text())
    assert shown["tasks"] == names
    (reported,) = read_runs([result["run_id"]])
    assert [*learning([reported])["label"]] == ["1: bootstrap"]


def test_an_optimizer_that_is_interrupted_leaves_a_run_that_can_be_resumed(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 and one line; what each attempt cost is recorded; a resumed run makes its requests again and ends."""
    pytest.importorskip("optuna")
    engine.garbled = 6
    tasks = shared_tasks()
    argv = ["--optimizer", "mipro", "--lm", "scripted/1", "--tasks", str(tasks)]
    client, _ = store.open_store()
    for left in (3, 0):
        code, result, reported = run(capsys, *argv)
        assert (code, engine.garbled, result["stopped"], result["iterations"]) == (3, left, "failed", 0)
        last = reported.splitlines()[-1]
        assert last.startswith(f"{command.NAME}: mipro failed: the LM's answers lack proposed_instruction")
        assert last.endswith(f"To resume: python -m pipeline.compile --resume {result['run_id'][:8]}")
        marked = client.get_run(result["run_id"])
        assert (marked.info.status, marked.data.tags["stopped"]) == ("FAILED", "failed")
        assert "Mipro failed" in marked.data.tags["mlflow.note.content"]
        assert marked.data.metrics["total_tokens_prompt"] == result["tokens"]["prompt"] == engine.calls * 4000
        argv = ["--resume", result["run_id"]]
    code, result, _ = run(capsys, *argv)
    assert (code, result["stopped"], result["tokens"]["prompt"]) == (0, "exhausted", engine.calls * 4000)


@pytest.mark.parametrize("name", ["bootstrap", pytest.param("random-search", marks=pytest.mark.slow)])
def test_an_optimizer_runs_on_the_embedded_lm(
    name: str, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A benchmark task, solved; every demonstration of the program is right, of `bootstrap` there is one."""
    code, result, _ = run(capsys, "--optimizer", name, "--tasks", "gemm/1", "--samples", "2")
    assert (code, result["solved"]) == (0, ["gemm/1"])
    saved = json.loads(Path(result["program"]).read_text())
    demos = saved["predictors"]["proposer.predict"]["demonstrations"]
    assert demos or name != "bootstrap"
    assert all(verify(load_tasks(["gemm/1"])[0], "\n".join(demo["fields"]["impl"])).passed for demo in demos)


def test_what_an_optimizer_needs_or_has_no_use_for_is_reported_in_one_line(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is asked or recorded."""
    tasks = str(shared_tasks())
    cases = [
        (("gepa",), "--reflection-lm: `gepa` needs an LM that writes instructions"),
        (("simba", "--reflection-lm", "embedded"), "--reflection-lm: `simba` needs an LM that writes instructions"),
        (("bootstrap", "--reflection-lm", "scripted/2"), "--reflection-lm: `bootstrap` does not reflect"),
        (("bootstrap", "--validation", tasks), "--validation: `bootstrap` does not use validation tasks"),
        (("gepa", "--lm", "scripted/1", "--experience", "x"), "--experience: `gepa` does not learn from it"),
    ]
    for argv, reported in cases:
        code, _, err = run(capsys, "--tasks", tasks, "--optimizer", *argv)
        assert (code, err.count("\n")) == (2, 0), err
        assert reported in err
    assert engine.calls == 0


def test_a_validation_set_chooses_and_is_kept_for_going_on(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    """`adaptive` tries the levels on it; a resumed run asks for none of it again."""
    tasks = shared_tasks()
    chosen = (
        "--tasks",
        str(tasks / "double.yaml"),
        str(tasks / "halve.yaml"),
        "--validation",
        str(tasks / "triple.yaml"),
    )
    _, result, _ = run(capsys, "--optimizer", "adaptive", "--lm", "scripted/1", *chosen)
    calls = engine.calls
    _, again, _ = run(capsys, "--resume", result["run_id"])
    assert (engine.calls, again["tokens"]) == (calls, result["tokens"])


@pytest.mark.parametrize(
    ("checkout", "git", "package", "version"),
    [
        (Path("here"), "abc123-dirty\n", "1.2", "1.2 (abc123-dirty)"),
        (Path("here"), None, "1.2", "1.2"),
        (None, "abc123\n", "1.2", "1.2"),
        (None, None, None, "not installed"),
    ],
)
def test_the_code_is_named_by_its_package_and_its_commit(
    checkout: Path | None, git: str | None, package: str | None, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git describes a checkout; without git, without one, or where nothing is installed, as far as it is known."""

    def described(command: Any, **options: Any) -> Any:
        assert (command[:2], options["cwd"]) == (["git", "describe"], checkout)
        if git is None:
            raise FileNotFoundError("git")
        return SimpleNamespace(stdout=git)

    def installed(name: str) -> str:
        if package is None:
            raise metadata.PackageNotFoundError(name)
        return package

    monkeypatch.setattr(job_module, "CHECKOUT", checkout)
    monkeypatch.setattr(subprocess, "run", described)
    monkeypatch.setattr(metadata, "version", installed)
    assert job_module.code_version() == version
    if package:
        versions = {"dspy": package, "mlflow": package, "torch": package}
        assert job_module.versions() == {"python": platform.python_version(), **versions}
