"""Compiled programs by path or by address: logged as MLflow models of their runs, and loaded from either.

    load_program("models:/m-1a2b3c", lm=…)      # or "runs:/RUN/program"; the same as from the JSON file

The model has MLflow's own DSPy flavor, so `mlflow.dspy.load_model` reads it, too; that unpickles, and overwrites
`dspy.settings`. `load_program` does neither: it reads the program's JSON file, which is part of the model's folder.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import dspy

from pipeline.agent.agent import Agent
from pipeline.agent.compiled import SavedProgram, make_agent, read_program
from pipeline.base.errors import UsageError
from pipeline.lms.factory import make_lm
from pipeline.record import artifacts, logged_models, store

FILE = "compiled.json"
SCHEMES = ("models:/", "runs:/")


def load_program(path_or_address: str | Path, lm: dspy.LM | str | None = None) -> Agent:
    """A compiled program: `load_program("compiled.json")(task=load_task("task.yaml")).impl`.

    Args:
        path_or_address: Path of the JSON file, or the address of a model in the project's MLflow store:
            `models:/MODEL`, `models:/NAME/VERSION` or `models:/NAME@ALIAS` of a registered one, or
            `runs:/RUN/program`.
        lm: An LM or a model string; None for the one that DSPy is configured to use, or else the one that the program
            was compiled with.

    Raises:
        UsageError: The file or model cannot be read, is not a compiled program, or has an invalid demonstration.
        LMUnavailable: A model string names an LM that cannot be used.
    """
    saved = fetch_program(path_or_address)
    agent = make_agent(saved, str(path_or_address))
    if lm is None and dspy.settings.lm is None and saved.lm is not None:
        lm = saved.lm
    if lm is not None:
        agent.set_lm(make_lm(lm, probed=False) if isinstance(lm, str) else lm)
    return agent


def fetch_program(path_or_address: str | Path) -> SavedProgram:
    """The content of a compiled program's file, its demonstrations not yet validated.

    Args:
        path_or_address: As for `load_program`.

    Raises:
        UsageError: The file or model cannot be read, or is not a compiled program.
    """
    address = str(path_or_address)
    if not address.startswith(SCHEMES):
        return read_program(path_or_address)
    client, _ = store.open_store()
    with tempfile.TemporaryDirectory() as scratch:
        path = artifacts.fetch(client, address, Path(scratch))
        file = path / FILE if path.is_dir() else path
        if not file.is_file():
            raise UsageError(f"{address}: expected the model of a compiled program, with the file {FILE}")
        return read_program(file, address)


def log_model(client: Any, experiment: str, run_id: str, program: Path) -> str:
    """Logs the program in a file as the model `program` of a run, unless the run has it already; returns its id.

    It has MLflow's own DSPy flavor, and the program's file.
    """
    digest = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
    run = client.get_run(run_id).data.params
    params = {name: run[name] for name in ("optimizer", "lm", "guardian", "proposer", "granularity") if name in run}
    return logged_models.log_model(client, experiment, run_id, digest, params, partial(_save, program))


def _save(program: Path, folder: Path, model: Any) -> None:
    """Writes the model's folder: MLflow's files, and the program's file, the only one that `load_program` reads."""
    own = "adaptive-step[pipeline]"  # the agent's classes
    with suppress(PackageNotFoundError):  # a checkout that is not installed
        own += f"=={version('adaptive-step')}"
    logged_models.write_model(make_agent(read_program(program), str(program)), folder, model, [own])
    shutil.copy(program, folder / FILE)
