"""A record that says its artifacts are at another place gets nothing: no command reads them, and no token is sent.

The control is MLflow's own client, which sends the token to whatever place a record names.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow import MlflowClient
from requests import HTTPError

from pipeline import load_program
from pipeline.base.errors import UsageError
from pipeline.record import store
from pipeline.record.artifacts import own_place
from pipeline.record.resume import load_experience, open_run
from pipeline.reporting.runs import read_runs
from tests.pipeline.conftest import empty_store, store_folder

__all__ = ["empty_store", "store_folder"]


class Thief(ThreadingHTTPServer):
    """Counts the requests, and those that come with a token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Listening)
        self.requests = self.tokens = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Listening(BaseHTTPRequestHandler):
    server: Thief

    def do_GET(self) -> None:
        self.server.requests += 1
        self.server.tokens += "Authorization" in self.headers
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def thief(monkeypatch: pytest.MonkeyPatch) -> Iterator[Thief]:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "the-token")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with Thief() as thief:
        threading.Thread(target=thief.serve_forever).start()
        yield thief
        thief.shutdown()


def set_place(folder: Path, table: str, column: str, place: str) -> None:
    """Writes to the store as whoever shares it can."""
    with sqlite3.connect(folder / "mlflow.db") as connection:
        connection.execute(f"UPDATE {table} SET {column} = ?", (place,))
    connection.close()


READERS: dict[str, Callable[[str], object]] = {
    "load_program": lambda run_id: load_program(f"runs:/{run_id}/program"),
    "--experience": lambda run_id: load_experience(run_id, []),
    "--resume": open_run,
    "report": lambda run_id: read_runs([run_id]),
}
PLACES = {
    "as found": "http://{thief}/api/2.0/mlflow-artifacts/artifacts/1",
    "with another's password": "http://me:word@{thief}/1",
    "through MLflow's scheme": "mlflow-artifacts://{thief}/1",
    "behind a backslash": "http://{thief}\\@own/1",
    "by TLS": "https://{thief}/1",
    "in a bucket": "s3://bucket/1",
    "by FTP": "ftp://{thief}/1",
    "another folder": "file:///etc",
    "a folder above": "{own}/../../../..",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("reader", READERS)
def test_no_reader_goes_to_another_place(reader: str, place: str, thief: Thief, store_folder: Path) -> None:
    client, experiment = store.open_store()
    run = client.create_run(experiment)
    text = PLACES[place].format(thief=thief.address, own=run.info.artifact_uri)
    set_place(store_folder, "runs", "artifact_uri", text)
    with pytest.raises(UsageError, match=r"which is no place of the store's own; nothing was read") as caught:
        READERS[reader](run.info.run_id)
    assert "word" not in str(caught.value).replace("password", "")
    assert (thief.requests, thief.tokens) == (0, 0)


def test_the_control_sends_the_token(thief: Thief, store_folder: Path) -> None:
    client, experiment = store.open_store()
    run_id = client.create_run(experiment).info.run_id
    set_place(store_folder, "runs", "artifact_uri", PLACES["as found"].format(thief=thief.address))
    with pytest.raises(HTTPError):
        client.list_artifacts(run_id)
    assert thief.tokens == 1


def test_no_model_is_read_at_another_place(thief: Thief, store_folder: Path) -> None:
    """Neither a version of the registry nor a logged model, by its own address or by its run's."""
    client, experiment = store.open_store()
    run_id = client.create_run(experiment).info.run_id
    client.create_registered_model("mine")
    client.create_model_version("mine", f"http://{thief.address}/1", run_id=run_id)
    model = client.create_logged_model(experiment, "program", source_run_id=run_id)
    set_place(store_folder, "logged_models", "artifact_location", f"http://{thief.address}/1")
    for address in ("models:/mine/1", "models:/mine/latest", f"models:/{model.model_id}", f"runs:/{run_id}/program"):
        with pytest.raises(UsageError, match=r"nothing was read$"):
            load_program(address)
    assert (thief.requests, thief.tokens) == (0, 0)


def test_nothing_is_written_to_another_place(thief: Thief, store_folder: Path) -> None:
    """Neither what a killed run left nor a new run, where somebody else has made the experiment."""
    client, experiment = store.open_store()
    run_id = client.create_run(experiment).info.run_id
    left = store_folder / "running" / run_id
    left.mkdir(parents=True)
    (left / "overhead.json").write_text("{}")
    set_place(store_folder, "runs", "artifact_uri", f"http://{thief.address}/1")
    with pytest.warns(UserWarning, match="cannot be recorded, and were moved to"):
        store.open_store()
    set_place(store_folder, "experiments", "artifact_location", f"http://{thief.address}/1")
    with pytest.raises(UsageError, match="no place of the store's own"):
        store.open_store()
    assert (thief.requests, thief.tokens) == (0, 0)


SERVER = "https://me:word@record.example:5000"


@pytest.mark.parametrize(
    "place", ["mlflow-artifacts:/1/a", "mlflow-artifacts://record.example:5000/1", "https://record.example:5000/1"]
)
def test_a_server_s_own_places_are_read(place: str) -> None:
    assert own_place(SERVER, place) == place


@pytest.mark.parametrize(
    "place",
    [
        "http://record.example:5000/1",
        "https://record.example:5001/1",
        "https://record.example:5000@evil.example/1",
        "https://record.example:5000.evil.example/1",
        "https://evil.example\\@record.example:5000/1",
        "https://me:word@record.example:5000/1",
        "https://record.exa\tmple:5000/1",
        "file:///srv/1\0",
        "mlflow-artifacts://evil.example/1",
        "s3://bucket/1",
        "/etc",
    ],
)
def test_a_server_s_record_names_no_other_place(place: str) -> None:
    with pytest.raises(UsageError, match="no place of the store's own") as caught:
        own_place(SERVER, place)
    assert "word" not in str(caught.value)


def test_the_library_s_own_store_is_one(store_folder: Path, tmp_path: Path) -> None:
    """An experiment that MLflow makes beside its database, as `MLflowObserver` has it made."""
    client = MlflowClient(f"sqlite:///{store_folder}/mlflow.db")
    experiment = client.get_experiment(client.create_experiment("any", str(store_folder / "any")))
    assert own_place(client.tracking_uri, experiment.artifact_location)
