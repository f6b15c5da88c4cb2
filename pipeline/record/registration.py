"""Compiled programs in MLflow's registry: as versions of a named model, and of the prompts of its predictors.

models:/NAME/3, models:/NAME@ALIAS      the program, for `load_program` and for `mlflow.dspy.load_model`
prompts:/NAME.PREDICTOR@ALIAS           the messages of a predictor, for any client, with a `{{variable}}` per input
"""

from __future__ import annotations

import copy
import json
import logging
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, cast

import dspy

from optimizers.metering import message_text
from pipeline.base.config import registered_name

logger = logging.getLogger(__name__)

LONGEST_PROMPT = 100_000
"""Characters of a prompt's template, as JSON, that MLflow's registry holds."""
_UNNAMEABLE = re.compile(r"[^\w.-]", re.ASCII)


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


def register(client: Any, run_id: str, model_id: str, program: dspy.Module, name_and_alias: str) -> None:
    """Registers the program, which is logged as the model `model_id` of a run, and its prompts under a name.

    `name_and_alias` is `NAME` or `NAME@ALIAS`; an alias moves to the new versions. Prompts are those of the adapter
    that DSPy is set to use; see `templates` for those that are left out. MLflow's settings name the client's store.

    Raises:
        ValueError: It is no name and alias.
    """
    name, _, alias = registered_name(name_and_alias).partition("@")
    if not client.search_registered_models(f"name = '{name}'"):
        client.create_registered_model(name)
    version = client.create_model_version(name, f"models:/{model_id}", run_id=run_id, model_id=model_id).version
    if alias:
        client.set_registered_model_alias(name, alias, version)
    for predictor, template in templates(program).items():
        prompt_name = f"{name}.{_UNNAMEABLE.sub('_', predictor)}"
        prompt = client.register_prompt(prompt_name, template)
        client.link_prompt_version_to_run(run_id, prompt)
        if alias:
            client.set_prompt_alias(prompt_name, alias, prompt.version)


def templates(program: dspy.Module) -> dict[str, list[dict[str, str]]]:
    """By predictor, the messages of a request in which every input is a variable of MLflow's templates.

    A predictor is absent, with a warning, if the registry cannot hold its messages or would misread them.
    """
    adapter = copy.copy(dspy.settings.adapter or dspy.ChatAdapter())
    adapter.callbacks = []  # they hear of requests, and this is none
    found = {}
    with dspy.context(callbacks=[]):
        for name, predictor in program.named_predictors():
            fields = predictor.signature.input_fields
            messages = adapter.format(
                predictor.signature, list(predictor.demos), {each: f"{{{{{each}}}}}" for each in fields}
            )
            template = [{"role": _role(message), "content": message_text(message)} for message in messages]
            if trouble := _trouble(template, fields):
                logger.warning("the prompt of %s is not registered: %s", name, trouble)
            else:
                found[name] = template
    return found


def _role(message: Any) -> str:
    return str(message["role"] if isinstance(message, dict) else message.role)


def _trouble(template: list[dict[str, str]], fields: Collection[str]) -> str | None:
    """Why the registry cannot hold a template; None if it can."""
    from mlflow.entities.model_registry import PromptVersion

    if (length := len(json.dumps(template))) > LONGEST_PROMPT:
        return f"it has {length:,} characters, and MLflow's registry holds {LONGEST_PROMPT:,}"
    prompt: Any = cast(Any, PromptVersion)("prompt", 1, template)
    if others := prompt.variables - set(fields):
        return f"its text has {', '.join(sorted(others))} in double braces, which MLflow takes for variables"
    return None
