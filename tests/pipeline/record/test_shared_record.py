"""A record shared by machines holds these, on real servers: PostgreSQL, an S3 server, MLflow's tracking server.

- A run of another machine is refused in one line, and taken over by force; it ends as one that nobody disturbed.
- A machine that died or was suspended, and lost its run meanwhile, writes no more of it.
- The tracking server or the database may be killed and started again in mid-run: nothing is lost.
- Where the artifact store is full, one line says so, the exit code is 3, and nothing is lost.
- The commands find what is on the server: the report, the UI's address, an experience, a program.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dspy
import pytest
from mlflow import MlflowClient

from pipeline import load_program, report, ui
from pipeline.record import resume, store
from pipeline.record.attempts import read_attempts
from pipeline.record.run_tree import nested_runs
from step_runtime.tasks.reader import loads_task
from tests.support.answering_lm import Engine, write_tasks
from tests.support.forked import Forked
from tests.support.run_digests import digests
from tests.support.scripted_runs import RIGHT, TASK
from tests.support.tracking_stack import PATIENCE, Stack, missing

pytestmark = [pytest.mark.slow, pytest.mark.skipif(missing() is not None, reason=missing() or "")]

OPTIONS = ("--optimizer", "adaptive", "--samples", "6", "--temperatures", "1.0,0.4", "--threads", "3", "--seed", "5")
MANY = 600
"""Retries that outlast any restart of a server."""


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack() as stack:
        yield stack


@pytest.fixture(autouse=True)
def on_the_server(stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", stack.uri)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(store, "MLRUNS", tmp_path / "mlruns of the test")


class Machine:
    """A machine of a person's."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name

    def start(self, *argv: str, calls: int = 0, retries: int = 3) -> Forked:
        words = (str(self.folder), str(calls), str(retries))
        return Forked("-m", "tests.support.machine_compile", *words, *argv, "--json")

    def run(self, *argv: str, retries: int = 3) -> tuple[int, dict[str, Any], str]:
        """The command's exit code, its JSON object, and what it says on stderr."""
        with self.start(*argv, retries=retries) as process:
            out, err = process.communicate()
        assert "Traceback" not in err
        return process.wait(), json.loads(out), err

    def wait(self, process: Forked) -> None:
        """Until the command waits for its LM."""
        until(lambda: (self.folder / "reached").exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()

    def let_go(self) -> None:
        (self.folder / "go").touch()

    @property
    def asked(self) -> Counter[str]:
        """How often each seed was asked for."""
        return Counter((self.folder / "requests").read_text().split())


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def client() -> MlflowClient:
    return MlflowClient(tracking_uri=store.store_uri())


def running() -> str:
    """The id of the one run that is running, nested ones aside."""
    found = client().search_experiments()
    ids = [each.experiment_id for each in found if each.name == store.EXPERIMENT]
    runs = [run for run in client().search_runs(ids) if run.info.status == "RUNNING"]
    (run_id,) = (run.info.run_id for run in runs if "mlflow.parentRunId" not in run.data.tags)
    return str(run_id)


def on_record(run_id: str) -> int:
    return sum(attempt.scored for attempt in read_attempts(client(), run_id))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tasks(tmp_path_factory.mktemp("tasks") / "mine"))


@pytest.fixture(scope="module")
def whole(stack: Stack, tasks: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digests of a run that nobody disturbed; its id is `run`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", stack.uri)
        code, result, err = Machine(tmp_path_factory.mktemp("whole"), "calm").run(*OPTIONS, "--tasks", tasks)
        assert code == 0, err
        return {"run": result["run_id"], **digests(result["run_id"])}


def assert_equal(run_id: str, whole: dict[str, str]) -> None:
    """The run ended like the undisturbed one, and each of its iterations is there once."""
    assert {"run": whole["run"], **digests(run_id)} == whole
    info = client().get_run(run_id).info
    assert info.status == "FINISHED"
    nested = nested_runs(client(), info.experiment_id, run_id)
    found = client().search_runs([info.experiment_id], f"tags.`mlflow.parentRunId` = '{run_id}'")
    assert len(found) == len(nested) > 1
    assert {run.info.status for run in found} == {"FINISHED"}


def test_a_run_whose_machine_dies_is_taken_over_by_force(tasks: str, whole: dict[str, str], tmp_path: Path) -> None:
    """From its last whole iteration; the first machine, back again, changes nothing."""
    first, second = Machine(tmp_path, "first"), Machine(tmp_path, "second")
    with first.start(*OPTIONS, "--tasks", tasks, calls=50) as process:
        first.wait(process)
        run_id = running()
        process.kill()
    assert on_record(run_id) == 48, "the answers of whole iterations"
    code, result, err = second.run("--resume", run_id)
    assert (code, result["error"]["kind"]) == (2, "usage")
    assert f"run {run_id[:8]} is still running: process {process.pid} on " in err and "--force" in err
    code, result, err = second.run("--resume", run_id, "--force")
    assert (code, result["run_id"]) == (0, run_id), err
    assert "resumes with 48 recorded answers" in err
    assert_equal(run_id, whole)
    _, again, err = first.run("--resume", run_id)
    assert "was killed here, was taken over; its files were moved to" in err
    assert again["run_id"] == run_id
    assert_equal(run_id, whole)


def test_a_suspended_machine_has_lost_its_run(tasks: str, whole: dict[str, str], tmp_path: Path) -> None:
    """It wakes up, and stops in one line."""
    first, second = Machine(tmp_path, "first"), Machine(tmp_path, "second")
    with first.start(*OPTIONS, "--tasks", tasks, calls=20) as process:
        first.wait(process)
        run_id = running()
        os.kill(process.pid, signal.SIGSTOP)
        code, result, err = second.run("--resume", run_id, "--force")
        assert (code, result["run_id"]) == (0, run_id), err
        assert_equal(run_id, whole)
        first.let_go()
        os.kill(process.pid, signal.SIGCONT)
        out, err = process.communicate()
    assert process.returncode == 3
    assert json.loads(out)["error"]["kind"] == "record"
    assert err.splitlines()[-1].startswith(f"pipeline.compile: run {run_id[:8]} was taken over by process ")
    assert "Traceback" not in err
    assert_equal(run_id, whole)


@pytest.mark.parametrize("which", ["server", "database"])
def test_a_server_that_is_killed_and_started_again_costs_nothing(
    which: str, stack: Stack, tasks: str, whole: dict[str, str], tmp_path: Path
) -> None:
    """In the first iteration, whose end finds it away."""
    machine = Machine(tmp_path, "only")
    with machine.start(*OPTIONS, "--tasks", tasks, calls=20, retries=MANY) as process:
        machine.wait(process)
        run_id = running()
        getattr(stack, which).kill()
        machine.let_go()
        # The first iteration has 36 answers; its end needs the store.
        until(lambda: machine.asked.total() >= 36)
        getattr(stack, which).start()
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out)["run_id"] == run_id
    assert_equal(run_id, whole)


def test_a_full_artifact_store_ends_the_run_in_one_line(
    stack: Stack, tasks: str, whole: dict[str, str], tmp_path: Path
) -> None:
    """Exit code 3; once there is room, the run is resumed without a repeated request."""
    machine = Machine(tmp_path, "only")
    with machine.start(*OPTIONS, "--tasks", tasks, calls=20, retries=0) as process:
        machine.wait(process)
        run_id = running()
        stack.fill_up()
        machine.let_go()
        out, err = process.communicate()
    message = err.splitlines()[-1]
    assert (process.returncode, json.loads(out)["error"]["kind"]) == (3, "record")
    assert message.startswith("pipeline.compile: cannot write the record of the run: log_artifact: ")
    assert message.endswith(f"Then resume: python -m pipeline.compile --resume {run_id[:8]}")
    stack.make_room()
    code, result, err = machine.run("--resume", run_id)
    assert (code, result["run_id"]) == (0, run_id), err
    assert set(machine.asked.values()) == {1}
    assert_equal(run_id, whole)


def test_the_commands_find_what_is_on_the_server(
    stack: Stack, whole: dict[str, str], tasks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Report, UI, experience, and the program as an address of the run or the model."""
    uri, run_id = stack.uri, whole["run"]
    assert report.main([run_id, "-o", str(tmp_path / "report")]) == 0
    assert (tmp_path / "report" / "index.html").stat().st_size > 10_000
    capsys.readouterr()
    assert ui.main([]) == 0
    assert f"{uri}/#/experiments/" in capsys.readouterr().out
    experience = resume.load_experience(run_id, [])
    assert experience.solved == ("double", "triple")
    experiment = client().get_run(run_id).info.experiment_id
    (model,) = client().search_logged_models([experiment], filter_string=f"source_run_id = '{run_id}'")
    for address in (f"runs:/{run_id}/program", f"models:/{model.model_id}"):
        program = load_program(address, lm=dspy.LM("scripted", engine=Engine(), cache=False))
        assert program(task=loads_task(TASK, "double")).impl == RIGHT
