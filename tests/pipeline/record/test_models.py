"""A program as a model of MLflow holds these.

- What the model's address loads asks what the file's program asks, in another process and of another LM, and leaves
  DSPy's settings alone.
- It names no LM and holds no key; nothing in it is run to load it.
- A run has one model of one program, however often it is resumed, and its metrics have one point per step.
- A command that is given an address downloads the model once.
"""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import dspy
import pytest
from mlflow import MlflowClient

from pipeline import compile as command
from pipeline import load_program
from pipeline.base.errors import UsageError, run_command
from pipeline.record import store
from tests.pipeline.conftest import copied
from tests.support import forked
from tests.support.answering_lm import Engine, shared_tasks, use
from tests.support.scripted_runs import RIGHT
from tests.support.unrendered import render_nothing

pytestmark = pytest.mark.usefixtures("unrendered")

ASK = """
import json, sys
import dspy
from pipeline import load_program
from step_runtime import load_task
from tests.support import forked
from tests.support.answering_lm import Engine
from tests.support.paths import PROJECT

class Listening(Engine):
    def complete(self, request):
        self.asked = [str(request.system), *(message.text for message in request.messages)]
        return super().complete(request)

engine = Listening()
before = dict(dspy.settings.config)
task, *addresses = sys.argv[1:]
answers = []
for address in addresses:
    program = load_program(address, lm=dspy.LM("another", engine=engine, cache=False))
    answers.append([program(task=load_task(task)).impl, engine.asked])
print(json.dumps([answers, dict(dspy.settings.config) == before, dspy.settings.lm is None]))
"""


@pytest.fixture(scope="module")
def learned(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder and the JSON object of a run that learned from `double`."""
    folder = tmp_path_factory.mktemp("learned")
    argv = ["--optimizer", "adaptive", "--samples", "2", "--temperatures", "1.0", "--json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{copied(empty_store, folder)}/mlflow.db")
        render_nothing(patch.setattr)
        use(Engine(), patch)
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = run_command(command.NAME, command.main, [*argv, "--tasks", str(shared_tasks())])
    assert code == 0, err.getvalue()
    assert "Warning" not in err.getvalue() and "WARNING" not in err.getvalue()
    return folder, json.loads(out.getvalue())


@pytest.fixture
def result(learned: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The JSON object of that run, in whose store the test is, with an engine of its own."""
    folder, printed = learned
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlruns/mlflow.db")
    use(Engine(), monkeypatch)
    return printed


def model_of(run_id: str) -> Any:
    (model,) = store.open_store()[0].search_logged_models(
        [store.open_store()[1]], filter_string=f"source_run_id = '{run_id}'"
    )
    return model


def test_a_model_s_address_loads_what_the_file_has(result: dict[str, Any], folder: Path) -> None:
    """By the model's id and by the run's, in another process; and MLflow's own loader reads it as well."""
    model = model_of(result["run_id"])
    named = store.open_store()[0].get_run(result["run_id"]).info.run_name
    assert (model.name, str(model.status), model.params["optimizer"]) == (named, "READY", "adaptive")
    assert {metric.key: metric.value for metric in model.metrics}["total_solved"] == len(result["solved"])
    task = folder / "triple.yaml"
    done = forked.run_code(ASK, str(task), result["program"], f"models:/{model.model_id}")
    assert done.returncode == 0, done.stderr
    (by_file, by_model), untouched, no_lm = json.loads(done.stdout)
    assert by_file == by_model
    impl, texts = by_model
    assert impl == RIGHT and len(texts) > 2, "a demonstration is shown"
    assert untouched and no_lm
    saved = json.loads(Path(result["program"]).read_text())["predictors"]["proposer.predict"]["demonstrations"]
    by_name = [demo["name"] for demo in saved]
    program = load_program(f"runs:/{result['run_id']}/program", lm=dspy.LM("s", engine=Engine(), cache=False))
    assert [demo.task.name for demo in program.proposer.predict.demos] == by_name


def test_a_model_binds_no_lm(result: dict[str, Any]) -> None:
    """Neither the LM nor its settings are in MLflow's files; the run's metrics have one point a step."""
    import mlflow
    from mlflow.dspy.load import _load_model

    model = model_of(result["run_id"])
    folder = Path(model.artifact_location.removeprefix("file://"))
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"MLmodel", "compiled.json", "requirements.txt"} <= files
    read = _load_model(str(folder))  # as `load_model`, which sets DSPy's settings, too
    mlflow.clear_active_model()  # else MLflow would link all metrics from here on to the model that it read
    assert (read.model.proposer.predict.lm, read.dspy_settings["lm"]) == (None, None)
    client = MlflowClient(tracking_uri=store.store_uri())
    for name in client.get_run(result["run_id"]).data.metrics:
        steps = [point.step for point in client.get_metric_history(result["run_id"], name)]
        assert len(steps) == len(set(steps)), name


def test_resuming_a_run_logs_no_second_model_of_the_same_program(
    result: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(command.NAME, command.main, ["--resume", result["run_id"], "--json"]) == 0
    assert model_of(result["run_id"]).model_id


@pytest.mark.parametrize("address", ["models:/m-0123456789abcdef0123456789abcdef", "models:/", "runs:/nobody/program"])
def test_an_address_of_no_program_is_refused_in_one_line(address: str, store_folder: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_program(address)
    assert str(caught.value).startswith(f"{address}: cannot read the program: ")
    assert "\n" not in str(caught.value)


def test_a_run_s_other_artifacts_are_no_programs(result: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"expected the model of a compiled program, with the file compiled\.json"):
        load_program(f"runs:/{result['run_id']}/iterations")
