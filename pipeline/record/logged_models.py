"""DSPy programs as models of a run in MLflow: with a signature and an example, and without what only this machine has.

The steps are those of `mlflow.dspy.log_model`, which works on the active run and logs a run's metrics again.

A model may have a name in MLflow's registry: models:/NAME/3, models:/NAME@ALIAS.
"""

from __future__ import annotations

import copy
import logging
import os
import re
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import dspy

from optimizers.errors import one_line
from optimizers.predictors import replace_lms
from pipeline.base.config import registered_name
from pipeline.base.files import write_bytes
from pipeline.base.text import without_secrets

logger = logging.getLogger(__name__)

_UNNAMEABLE = re.compile(r"[/:.%\"']")
"""What MLflow accepts in no model's name."""
SECRETS = ("api_key", "headers", "extra_headers")
"""Settings of an LM that are not recorded."""
ADDRESSES = ("api_base", "base_url")
"""Settings of an LM that are recorded without a password."""

_PLAIN = {str: "string", bool: "boolean", int: "long", float: "double"}


def log_model(
    client: Any, experiment: str, run_id: str, digest: str, params: Mapping[str, str], save: Callable[[Path, Any], None]
) -> str:
    """Logs a model of a run, of its name; returns its id, which is the earlier one's if the run has the same already.

    `save` writes the model's folder, given its path and MLflow's description of it.
    """
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    known = client.search_logged_models([experiment], filter_string=f"source_run_id = '{run_id}'")
    if earlier := [str(model.model_id) for model in known if model.tags.get("content") == digest]:
        return earlier[0]
    name = _UNNAMEABLE.sub("-", str(client.get_run(run_id).info.run_name))
    model = client.create_logged_model(
        experiment, name, source_run_id=run_id, tags={"content": digest}, params=dict(params), model_type="agent"
    )
    model_id: str = model.model_id
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch, "program")
            save(folder, Model(run_id=run_id, model_id=model_id, model_uuid=model_id))
            client.log_model_artifacts(model_id, str(folder))
    except BaseException:
        client.finalize_logged_model(model_id, "FAILED")
        raise
    client.finalize_logged_model(model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(model_id, step=0)])
    return model_id


def save_program(
    program: dspy.Module, folder: Path, model: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> None:
    """Writes a program as a model that DSPy and MLflow alone can serve: classes of the user's own files are within.

    It is served with DSPy's LM and adapter of now, the LM without its key. `inputs` and `outputs` are of an example.
    """
    from mlflow.models import ModelSignature

    from pipeline.record import served

    plain = all(isinstance(value, str | int | float | bool | list | dict) for value in inputs.values())
    described: dict[str, Any] = (
        {"signature": ModelSignature(_schema(inputs), _schema(outputs))} if inputs and outputs else {}
    )
    if plain and described:
        described["input_example"] = dict(inputs)
    twin, settings = replace_lms(program, _without_secrets), dspy.settings
    lm, adapter = settings.lm and _without_secrets(settings.lm), copy.copy(settings.adapter)
    if adapter is not None:
        adapter.callbacks = []
    parts = [*(part for _, part in twin.named_sub_modules()), adapter, lm, getattr(lm, "engine", None)]
    with _by_value([served, *(module for part in parts for module in _own_modules(type(part)))]):
        write_model(twin, folder, model, **described)
        used = {"lm": lm, "adapter": adapter}
        kept = {name: value for name, value in used.items() if value is not None and _is_picklable(name, value)}
        schema = described["signature"].outputs if described else None
        content = cloudpickle.dumps(served.ServedProgram(twin, kept, schema))
    write_bytes(folder / "data" / "model.pkl", content)


def _is_picklable(name: str, value: Any) -> bool:
    try:
        cloudpickle.dumps(value)
    except Exception as error:
        logger.warning("the model has no %s, which cannot be pickled: %s", name, one_line(error))
        return False
    return True


def write_model(
    program: dspy.Module, folder: Path, model: Any, requirements: Sequence[str] = (), **described: Any
) -> None:
    """Writes a program as a model of MLflow's DSPy flavor, without DSPy's settings here."""
    logging.getLogger("mlflow.dspy.save").setLevel(logging.ERROR)  # it warns about the pickle
    needed = [f"dspy=={metadata.version('dspy')}", *requirements]
    with warnings.catch_warnings(), dspy.context(lm=None, adapter=None, callbacks=[], trace=[]):
        warnings.simplefilter("ignore")  # MLflow warns about its own type hints
        import mlflow.dspy

        mlflow.dspy.save_model(program, str(folder), mlflow_model=model, pip_requirements=needed, **described)


def _schema(fields: Mapping[str, Any]) -> Any:
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import AnyType

    kinds = {name: _PLAIN.get(type(value)) for name, value in fields.items()}
    other: Any = AnyType
    return Schema([ColSpec(DataType[kind] if kind else other(), name) for name, kind in kinds.items()])


def _without_secrets(lm: dspy.BaseLM) -> dspy.BaseLM:
    twin = copy.copy(lm)
    twin.kwargs = {
        name: without_secrets(value) if name in ADDRESSES and isinstance(value, str) else value
        for name, value in lm.kwargs.items()
        if name not in SECRETS
    }
    twin.history, twin.callbacks = [], []
    return twin


@contextmanager
def _by_value(modules: Sequence[ModuleType]) -> Iterator[None]:
    """Pickles classes and functions of modules by value: elsewhere they cannot be imported."""
    new = [module for module in set(modules) if module.__name__ not in cloudpickle.list_registry_pickle_by_value()]
    for module in new:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in new:
            cloudpickle.unregister_pickle_by_value(module)


def _own_modules(cls: type) -> Iterator[ModuleType]:
    """The modules of a class and its bases that are files of the user's, not of an installed package."""
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    for base in cls.__mro__:
        module = sys.modules.get(base.__module__)
        file = getattr(module, "__file__", None)
        if module is not None and file and not installed & set(Path(file).resolve().parents):
            yield module


@contextmanager
def in_store(uri: str) -> Iterator[None]:
    """MLflow's settings name a store, which traces and the registry need, whatever a client is for."""
    import mlflow

    if mlflow.get_tracking_uri() == uri:
        yield
        return
    # A setting is in the variable, too: MLflow writes it there.
    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type] # The variable counts again.
        if before is not None:
            os.environ["MLFLOW_TRACKING_URI"] = before


def register(client: Any, uri: str, run_id: str, model_id: str, name_and_alias: str) -> None:
    """Registers the program that is logged as the model `model_id` of a run, in the client's store, whose URI is given.

    `name_and_alias` is `NAME` or `NAME@ALIAS`; an alias moves to the new version.

    Raises:
        ValueError: It is no name and alias.
    """
    name, _, alias = registered_name(name_and_alias).partition("@")
    with in_store(uri):
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        version = client.create_model_version(name, f"models:/{model_id}", run_id=run_id, model_id=model_id).version
        if alias:
            client.set_registered_model_alias(name, alias, version)
