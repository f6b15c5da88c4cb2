"""The columns with which MLflow's page of the experiment opens.

The UI keeps the columns that a person chooses in the browser, so the server cannot set them for the experiment's plain
address. It can serve a shared view, as the UI's *Share* button makes one: a tag of the experiment that an address with
`viewStateShareKey` names. `pipeline.ui` prints this address.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

KEY = "adaptive-step"
TAG = f"mlflow.sharedViewState.{KEY}"
METRICS = ("solved", "pass_at_1", "total_tokens", "total_cost_usd", "total_seconds")
"""The results of a run, as columns; an iteration has the first two."""
PARAMS = ("lm", "optimizer", "selection", "samples", "seed")

TOKENS = "tokens_prompt_per_task"
"""The x-axis of all charts, as in the paper's Figure 7: runs are compared at equal tokens."""

_NAME = "attributes.`Run Name`"
_COLUMNS = [*(f"metrics.`{name}`" for name in METRICS), *(f"params.`{name}`" for name in PARAMS)]
VIEW = json.dumps({
    "selectedColumns": _COLUMNS,
    "columnOrder": [_NAME, "attributes.`Created`", *_COLUMNS],
    "columnWidths": {_NAME: 420} | dict.fromkeys(_COLUMNS, 115),
    "orderByKey": "attributes.start_time",
    "orderByAsc": False,
    "globalLineChartConfig": {"xAxisKey": "metric", "selectedXAxisMetricKey": TOKENS, "lineSmoothness": 0},
    "chartsSearchFilter": "^(solved|pass_at_1)$",
})  # fmt: skip
"""The value of the tag."""


def address(server: str, experiment: str, key: str = KEY) -> str:
    """The address of the runs of an experiment, given by its id, in a view on a server."""
    return f"{server}/#/experiments/{experiment}/runs?viewStateShareKey={key}"


def found(client: Any, server: str, experiment: str, search: str) -> str:
    """The address of the runs that a search finds, in a view of their own: beside a search, the UI ignores the view."""
    key = f"{KEY}-{hashlib.sha256(search.encode()).hexdigest()[:8]}"
    view = json.dumps({**json.loads(VIEW), "searchFilter": search})
    client.set_experiment_tag(experiment, f"mlflow.sharedViewState.{key}", view)
    return address(server, experiment, key)
