"""A compiled program as a model of MLflow: logged beside its run, found under Models in the UI, loaded by its address.

    load_program("models:/m-1a2b3c", lm=…)      # or "runs:/RUN/program"; the same as from the JSON file

The model has MLflow's own DSPy flavor, so `mlflow.dspy.load_model` reads it, too; that unpickles, and overwrites
`dspy.settings`. `load_program` does neither: it reads the program's JSON file, which lies in the model's folder.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.record import store

NAME = "program"
FILE = "compiled.json"
ADDRESSES = ("models:/", "runs:/")


def log(client: Any, experiment: str, run_id: str, program: Path) -> str | None:
    """Logs the program in a file as the model `program` of a run; its id, or None if the run has this one already.

    The steps of `mlflow.dspy.log_model`, with a client: that one needs global state, and logs a run's metrics again.
    """
    from mlflow.entities import LoggedModelOutput

    content = program.read_text(encoding="utf-8")
    known = client.search_logged_models([experiment], filter_string=f"source_run_id = '{run_id}'")
    if any(model.tags.get("content") == _digest(content) for model in known):
        return None
    params = client.get_run(run_id).data.params
    told = {name: params[name] for name in ("optimizer", "lm", "guardian", "proposer", "granularity") if name in params}
    model = client.create_logged_model(
        experiment, NAME, source_run_id=run_id, tags={"content": _digest(content)}, params=told, model_type="agent"
    )
    model_id: str = model.model_id
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, NAME)
            _save(program, folder, model_id, run_id)
            client.log_model_artifacts(model_id, str(folder))
    except BaseException:
        client.finalize_logged_model(model_id, "FAILED")
        raise
    client.finalize_logged_model(model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(model_id, step=0)])
    return model_id


def _save(program: Path, folder: Path, model_id: str, run_id: str) -> None:
    """The model's folder: what MLflow needs, and the program's file, which is all that `load_program` reads."""
    import dspy
    from mlflow.models import Model

    from pipeline.agent.compiled import unbound

    logging.getLogger("mlflow.dspy.save").setLevel(logging.ERROR)  # it warns of the pickle
    model = Model(run_id=run_id, model_id=model_id, model_uuid=model_id)
    requirements = [f"dspy=={metadata.version('dspy')}"]
    with warnings.catch_warnings(), dspy.context(lm=None, adapter=None, callbacks=[], trace=[]):
        warnings.simplefilter("ignore")  # MLflow warns of type hints of its own
        import mlflow.dspy

        mlflow.dspy.save_model(unbound(program), str(folder), mlflow_model=model, pip_requirements=requirements)
    shutil.copy(program, folder / FILE)


@contextmanager
def fetched(address: str) -> Iterator[Path]:
    """The program's file of a model, by the model's address in the project's store; it is gone with the context.

    Args:
        address: `models:/MODEL`, `models:/NAME/VERSION` of a registered one, or `runs:/RUN/program`.

    Raises:
        UsageError: there is no such model, or it is no compiled program.
    """
    store.open_store()
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    with tempfile.TemporaryDirectory() as scratch:
        uri = store.store_uri()
        try:
            found = download_artifacts(address, dst_path=scratch, tracking_uri=uri, registry_uri=uri)
        except (MlflowException, OSError) as error:
            raise UsageError(f"{address}: cannot read the program: {store.first_line(error)}") from None
        path = Path(found)
        file = path / FILE if path.is_dir() else path
        if not file.is_file():
            raise UsageError(f"{address}: expected a compiled program's model, with {FILE} in it")
        yield file


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
