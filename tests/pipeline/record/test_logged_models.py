"""A program's model can be loaded where only DSPy is installed, and holds no secret."""

import json
import subprocess
import sys
from pathlib import Path

import dspy
import pytest
from dspy import lm15
from mlflow import MlflowClient
from mlflow.models import Model

from optimizers import AdaptiveFewShot
from pipeline import MLflowObserver
from pipeline.record.logged_models import save_program
from tests.support.scripted_program import Solver


def test_a_model_is_described_and_holds_no_secret(tmp_path: Path) -> None:
    """Signature and example are described; an LM's key is not there."""
    program = Solver()
    program.solve.set_lm(lm := dspy.LM("openai/some", api_key="secret-key", api_base="https://user:word@host/v1"))
    folder, described = tmp_path / "model", Model()
    save_program(program, folder, described, {"task": "a", "depth": 2, "parts": object()}, {"answer": "right a"})
    content = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"secret-key" not in content and b"word@host" not in content and lm.kwargs["api_key"] == "secret-key"
    assert b"https://host/v1" in content, "a local server's address is needed to serve"
    read = Model.load(folder)
    assert [(spec.name, str(spec.type)) for spec in read.signature.inputs] == [
        ("task", "DataType.string"), ("depth", "DataType.long"), ("parts", "Any"),
    ]  # fmt: skip


SERVE = """
import json, sys
import dspy, mlflow
from fastapi.testclient import TestClient
from mlflow.pyfunc import scoring_server

folder = sys.argv[1]
before = dict(dspy.settings.config)
program = mlflow.dspy.load_model(folder)
assert dict(dspy.settings.config) == before and type(program).__name__ == "Solver"
model = mlflow.pyfunc.load_model(folder)
dspy.configure(lm=None)
answers = [model.predict({"task": "a"})]
client = TestClient(scoring_server.init(model))
answers.append(client.post("/invocations", json={"dataframe_records": [{"task": "a"}]}).json()["predictions"])
assert not {"optimizers", "pipeline", "tests"} & {name.partition(".")[0] for name in sys.modules}
print(json.dumps(answers))
"""


class Right:
    """An engine of the user's own."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        message = lm15.Message.assistant('{"answer": "right a"}')
        usage = lm15.Usage(input_tokens=1, output_tokens=1)
        return lm15.Response(id="1", model=request.model, message=message, finish_reason="stop", usage=usage)


def test_a_model_of_the_observer_is_served(store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By pyfunc and MLflow's server, with DSPy and MLflow alone; to load it changes none of DSPy's settings."""
    monkeypatch.chdir(tmp_path)
    client = MlflowClient(f"sqlite:///{store_folder}/mlflow.db")
    observer = MLflowObserver("served", client=client, traces=False)
    optimizer = AdaptiveFewShot(lambda example, found: found.answer == "right a", 2, observers=[observer])
    lm = dspy.LM("mine", engine=Right(), cache=False)
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        optimizer.compile(Solver(), trainset=[dspy.Example(task="a").with_inputs("task")])
    (model,) = client.search_logged_models([client.get_run(str(observer.run_id)).info.experiment_id])
    script = tmp_path / "elsewhere.py"
    script.write_text(SERVE)
    command = [sys.executable, "-W", "ignore", "-P", str(script), model.artifact_location]
    environment = {"MLFLOW_TRACKING_URI": client.tracking_uri, "HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [{"answer": "right a"}] * 2
