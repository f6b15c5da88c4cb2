"""The experiment's page opens with the results as columns."""

import json
from pathlib import Path

from pipeline.record import experiment_view, store


def test_an_experiment_of_an_earlier_version_gets_the_view(store_folder: Path) -> None:
    """Its description, which a person may have edited, stays."""
    client, experiment = store.open_store()
    client.set_experiment_tag(experiment, "mlflow.note.content", "mine")
    client.delete_experiment_tag(experiment, experiment_view.TAG)
    store.open_store()
    tags = client.get_experiment(experiment).tags
    assert (tags[experiment_view.TAG], tags["mlflow.note.content"]) == (experiment_view.VIEW, "mine")


def test_the_view_s_columns_are_recorded_results_and_options() -> None:
    """Solved tasks, pass@1, tokens and dollars, in this order; the address names the tag."""
    columns = json.loads(experiment_view.VIEW)["selectedColumns"]
    assert columns[:4] == [f"metrics.`{n}`" for n in ("solved", "pass_at_1", "total_tokens", "total_cost_usd")]
    assert "params.`lm`" in columns and "params.`seed`" in columns
    address = experiment_view.address("http://127.0.0.1:5000", "1")
    assert f"mlflow.sharedViewState.{address.partition('viewStateShareKey=')[2]}" == experiment_view.TAG
