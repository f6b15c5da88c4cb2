"""The settings of a run hold these:

- the defaults are those of the paper; a config is frozen, and every field says how it appears on the command line;
- `request.json` and MLflow's params derive from the fields;
- of a resumed run's settings only those that its answers don't depend on may differ.
"""

from typing import Any

import pytest

from pipeline.base.config import AblationConfig, ProgramConfig, RunConfig
from pipeline.base.errors import UsageError
from pipeline.base.settings import Config, Option

CHANGEABLE = {
    *("api_base", "timeout", "batch_n", "threads", "cluster", "cluster_timeout"),
    *("max_iterations", "max_tokens_total", "max_usd", "max_minutes", "register_as"),
    "price",
}


def config(**settings: Any) -> RunConfig:
    return RunConfig.of({"optimizer": "adaptive", **settings})


def test_the_defaults_are_those_of_the_paper() -> None:
    """Sampling follows the paper unless something else is said."""
    made = config()
    assert (made.samples, made.temperatures, made.granularity, made.seed) == (64, (0.4, 0.7, 1.0), 3, 0)
    assert (made.lm, made.guardian, made.proposer, made.refine, made.ir) == ("embedded", "gated", "predict", 0, True)
    assert made.tasks is made.max_iterations is made.max_tokens_total is made.max_usd is made.max_minutes is None


@pytest.mark.parametrize("model", [RunConfig, ProgramConfig, AblationConfig])
def test_every_field_has_an_option(model: type[Config]) -> None:
    """The field says it all: help text, group, and what a resumed run may change."""
    assert {name: Option.of(model, name) for name in model.names()}.keys() == model.model_fields.keys()


def test_the_recorded_settings_make_the_config_again() -> None:
    """In JSON's types; the inputs are recorded in full elsewhere."""
    made = config(temperatures=(0.4, 1.0), max_usd=5, no_ir=True)
    assert made.recorded()["temperatures"] == [0.4, 1.0]
    assert RunConfig.model_validate(made.recorded()) == made
    assert not {"tasks", "experience", "validation"} & config(tasks=("a",)).recorded().keys()


def test_params_are_the_settings_that_have_a_value() -> None:
    """MLflow's text of a list of paths is that of a list."""
    params = config(validation=("a", "b"), threads=2).params()
    assert params["validation"] == ["a", "b"]
    assert "max_usd" not in params and params["no_ir"] is False


def test_a_resumed_run_may_change_what_no_answer_depends_on() -> None:
    """All other settings are those recorded; giving the same value again is no contradiction."""
    recorded = config(samples=64, temperatures=(0.4, 1.0), threads=2, max_usd=5)
    resumed = recorded.resumed(
        {"threads": 4, "max_usd": None, "samples": 64, "temperatures": [0.4, 1.0], "resume": "x"}
    )
    assert resumed == recorded.model_copy(update={"threads": 4, "max_usd": None})
    free = {name for name in RunConfig.model_fields if Option.of(RunConfig, name).resume == "changed"}
    assert free == CHANGEABLE


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"samples": 16}, "--samples: the resumed run has 64; omit the option, or start a new run"),
        ({"no_ir": True}, "--no-ir: the resumed run has False"),
        ({"tasks": ["a"]}, "--tasks: the resumed run has its own; omit the option"),
        ({"experience": "a"}, "--experience: the resumed run has its own"),
    ],
)
def test_a_contradiction_names_what_the_run_has(given: dict[str, Any], message: str) -> None:
    """And what to do."""
    with pytest.raises(UsageError) as caught:
        config().resumed(given)
    assert message in str(caught.value)
