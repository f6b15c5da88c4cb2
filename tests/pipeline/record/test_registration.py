"""Compiled programs in MLflow's registry: by name, version and alias, from commands and observers."""

from pathlib import Path

import dspy
import mlflow
import pytest
from mlflow import MlflowClient

from pipeline import MLflowObserver, load_program
from pipeline import compile as command
from pipeline.base.config import registered_name
from pipeline.base.errors import run_command
from pipeline.record import store
from tests.support.answering_lm import Engine, shared_tasks, use
from tests.support.scripted_program import learn, shown_two

pytestmark = pytest.mark.usefixtures("unrendered")


@pytest.fixture
def client(store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts by default
    mlflow.tracing.reset()  # it remembers the store of an earlier test
    return MlflowClient(f"sqlite:///{store_folder}/mlflow.db")


def compiled(*argv: str) -> None:
    assert run_command(command.NAME, command.main, [*argv]) == 0


def test_an_alias_names_the_latest_program_of_the_command(
    client: MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A finished run is registered once more without a request."""
    engine = Engine()
    use(engine, monkeypatch)
    options = ["--optimizer", "adaptive", "--samples", "2", "--temperatures", "1.0"]
    compiled(*options, "--tasks", str(shared_tasks()), "--register-as", "doubler@best")
    client, _ = store.open_store()
    version = client.get_model_version_by_alias("doubler", "best")
    assert str(version.version) == "1"
    for address in ("models:/doubler@best", "models:/doubler/1", "models:/doubler/latest"):
        assert load_program(address, lm=dspy.LM("s", engine=Engine(), cache=False)).proposer.predict.demos
    asked = engine.calls
    compiled("--resume", version.run_id, "--register-as", "doubler@best")
    assert str(client.get_model_version_by_alias("doubler", "best").version) == "2"
    assert engine.calls == asked


def test_an_observer_registers_any_program(client: MlflowClient) -> None:
    """Without an alias, by its version alone."""
    learn("abcx", shown_two, observers=[MLflowObserver("any", client=client, register_as="mine")])
    (version,) = client.search_model_versions("name = 'mine'")
    assert version.aliases == [] and version.run_id


@pytest.mark.parametrize("name", ["", "a b", "a@", "a@latest", "a@V3", "a@b@c", "ä"])
def test_names_that_mlflow_does_not_take_are_refused(name: str) -> None:
    """Before a run starts."""
    with pytest.raises(ValueError, match="expected NAME or NAME@ALIAS"):
        registered_name(name)
    assert registered_name("my-model_1.0@best-1") == "my-model_1.0@best-1"
