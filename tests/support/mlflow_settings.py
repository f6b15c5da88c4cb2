"""MLflow's own settings, which name a store for a while and none afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import mlflow
from mlflow.tracking import fluent

_VARIABLES = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID")
"""MLflow writes its settings into them."""


@contextmanager
def tracking_to(uri: str, experiment: str | None = None) -> Iterator[None]:
    """Runs and traces go to a store; later tests find the variables and MLflow's globals as they were."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    mlflow.tracing.reset()  # type: ignore[no-untyped-call] # it remembers the store of an earlier test
    mlflow.set_tracking_uri(uri)
    if experiment is not None:
        mlflow.set_experiment(experiment)
    try:
        yield
    finally:
        fluent._active_experiment_id = None
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type] # which leaves it to the variable
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        mlflow.tracing.reset()  # type: ignore[no-untyped-call]
