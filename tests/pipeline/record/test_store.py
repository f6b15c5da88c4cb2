"""The store holds these.

- It is created completely or not at all: a first command that is killed, or finds the disk full, leaves no part of it.
- Commands in several processes at the same time do not disturb each other, also when they create the store or end.
- The files of a killed run are uploaded by one of them, once.
- If it cannot be opened, one line says so, without the password in its address.
"""

import json
import re
import signal
import textwrap
import threading
from pathlib import Path

import pytest
from mlflow import MlflowClient
from sqlalchemy.exc import OperationalError

from pipeline.base.errors import RecordError, UsageError
from pipeline.record import store
from pipeline.record.attempts import read_attempts
from tests.support.answering_lm import write_tasks
from tests.support.forked import Forked


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a store that is not there yet."""
    folder = tmp_path / "fresh"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
    return folder


def begin(code: str) -> Forked:
    """A Python process that runs `code`."""
    return Forked("-c", textwrap.dedent(code))


def test_two_commands_at_the_same_time_create_a_store_and_end_as_if_alone(fresh: Path, tmp_path: Path) -> None:
    """Each run is whole, and has its own attempts."""
    tasks = str(write_tasks(tmp_path / "mine") / "double.yaml")
    options = ["--optimizer", "adaptive", "--samples", "2", "--temperatures", "1.0", "--tasks", tasks, "--json"]
    words = ["-m", "tests.support.dying_compile", str(tmp_path / "log"), "0", "0", *options]
    results = []
    for process in [Forked(*words) for _ in range(2)]:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert "Traceback" not in err
        results.append(json.loads(out))
    client = MlflowClient(tracking_uri=store.store_uri())
    (experiment,) = (each for each in client.search_experiments() if each.name == store.EXPERIMENT)
    found = client.search_runs([experiment.experiment_id])
    assert {run.info.status for run in found} == {"FINISHED"}
    alike = [{k: v for k, v in each.items() if k not in ("run_id", "program", "seconds")} for each in results]
    assert len({each["run_id"] for each in results}) == 2 and alike == [alike[0]] * 2
    sampled = [[a.seed for a in read_attempts(client, each["run_id"])] for each in results]
    assert sampled[0] and all(sorted(seeds) == sorted(sampled[0]) for seeds in sampled)
    assert sorted(path.name for path in fresh.iterdir() if path.is_file()) == ["mlflow.db", "store.lock"]


def test_a_first_command_that_is_killed_leaves_no_store_half_made(fresh: Path) -> None:
    """Killed while MLflow makes its tables; the next command makes them all."""
    process = begin(
        """
        import time
        from sqlalchemy import event
        from sqlalchemy.engine import Engine
        from pipeline.record import store

        made = []

        @event.listens_for(Engine, "after_cursor_execute")
        def stop(connection, cursor, statement, *_):
            made.extend(["table"] * ("CREATE TABLE" in statement))
            if len(made) == 5:
                print("half", flush=True)
                time.sleep(600)

        store.open_store()
        """
    )
    assert process.stdout.readline() == "half\n"
    assert list(fresh.glob("mlflow.db.*"))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert [path.name for path in fresh.glob("mlflow.db*") if path.name == "mlflow.db"] == []
    client, experiment = store.open_store()
    assert client.get_experiment(experiment).name == store.EXPERIMENT
    assert [path.name for path in fresh.glob("mlflow.db*")] == ["mlflow.db"]


def test_a_full_disk_is_reported_in_one_line(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SQLAlchemy raises it, through MLflow; nothing of the store stays."""
    from mlflow.store.db import utils

    def full(engine: object) -> None:
        (fresh / "mlflow.db.1.partial-journal").write_text("half")
        raise OperationalError("CREATE TABLE", {}, Exception("database or disk is full"))

    monkeypatch.setattr(utils, "_initialize_tables", full)
    with pytest.raises(UsageError, match=r"cannot open the record of the runs at sqlite:.*disk is full$") as caught:
        store.open_store()
    assert "\n" not in str(caught.value)
    assert [path.name for path in fresh.iterdir()] == ["store.lock"]


def test_a_read_only_folder_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here there is a file in its place, which holds for root, too."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/file/store/mlflow.db")
    with pytest.raises(UsageError, match=r"cannot open the record of the runs at .*Not a directory") as caught:
        store.open_store()
    assert "\n" not in str(caught.value)


def test_a_server_s_runs_are_kept_apart_and_its_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that wait for an unreachable server are not uploaded to another store."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:1")
    assert store.folder() == store.MLRUNS / "servers" / "127.0.0.1-1"
    monkeypatch.setattr(store, "MLRUNS", Path("/proc/nowhere"))
    with pytest.raises(
        UsageError, match=re.escape("cannot open the record of the runs at http://127.0.0.1:1: ")
    ) as caught:
        store.open_store()
    assert "secret" not in str(caught.value)


def test_what_a_killed_run_left_is_uploaded_by_one_of_two_commands(store_folder: Path, tmp_path: Path) -> None:
    """Both open the store at the same time."""
    client, experiment = store.open_store()
    run_id = client.create_run(experiment).info.run_id
    left = store_folder / "running" / run_id
    left.mkdir(parents=True)
    (left / "overhead.json").write_text("{}")
    log = tmp_path / "uploads"
    code = f"""
        import time
        from mlflow import MlflowClient
        from pipeline.record import store
        original = MlflowClient.log_artifacts

        def log_artifacts(*args, **kwargs):
            with open({str(log)!r}, "a") as file:
                file.write("upload\\n")
            time.sleep(1)
            return original(*args, **kwargs)

        MlflowClient.log_artifacts = log_artifacts
        store.open_store()
    """
    both = [begin(code), begin(code)]
    errors = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], errors
    assert log.read_text() == "upload\n"
    assert client.get_run(run_id).info.status == "FAILED"
    assert not left.exists()


def test_a_run_that_ends_is_not_found_half_removed(store_folder: Path) -> None:
    """Its folder goes only when no command is looking through the folders."""
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with store.locked_run_folder("1a2b"):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    with store.store_lock():
        leave.set()
        thread.join(0.2)
        assert thread.is_alive()
        assert (store_folder / "running" / "1a2b" / ".lock").exists()
    thread.join()
    assert list((store_folder / "running").iterdir()) == []


def test_after_a_store_has_failed_for_good_nothing_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("pipeline.record.store.time.sleep", waited.append)

    class Away:
        def log_text(self) -> None:
            raise ConnectionError("x" * 1000)

    client = store.RetryingClient(Away())  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(RecordError, match=r"cannot write the record of the run: log_text: x+ … x+$"):
            client.log_text()
    assert waited == list(store.RETRY_SECONDS)


def test_the_environment_has_the_last_word_on_mlflow_s_settings(
    store_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of MLflow's goes to stdout, a command's own; what a person has set stays."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "7")
    code = "import os; from pipeline.record import store; store.open_store(); print(os.environ['{}'])"
    out, err = begin(code.format("MLFLOW_HTTP_REQUEST_TIMEOUT")).communicate()
    assert out == "7\n", err
