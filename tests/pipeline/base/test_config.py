"""The settings of a run hold these:

- the defaults are those of the paper; a config is frozen, and every field says how it appears on the command line;
- a bad value is refused in one line, as in a `request.json` that other code wrote; choices have the code they name;
- `request.json` and MLflow's params derive from the fields;
- of a resumed run's settings only those that its answers don't depend on may differ.
"""

from typing import Any

import pytest

from optimizers import baselines as registry
from optimizers.baselines import Baseline
from optimizers.strategies import SELECTIONS
from pipeline.base import settings
from pipeline.base.config import PlanOptions, ProgramConfig, RunConfig, cluster_address
from pipeline.base.errors import UsageError
from pipeline.base.settings import Config, Option
from pipeline.lms import factory

CHANGEABLE = {
    *("api_base", "timeout", "batch_n", "threads", "cluster"),
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
    assert (made.max_tokens, made.timeout) == (factory.MAX_TOKENS, factory.TIMEOUT), "which other callers use"
    assert made.tasks is made.max_iterations is made.max_tokens_total is made.max_usd is made.max_minutes is None


@pytest.mark.parametrize("model", [RunConfig, ProgramConfig, PlanOptions])
def test_every_field_has_an_option(model: type[Config]) -> None:
    """The field says it all: help text, group, and what a resumed run may change."""
    assert {name: Option.of(model, name) for name in model.names()}.keys() == model.model_fields.keys()


def test_the_recorded_settings_make_the_config_again() -> None:
    """In JSON's types; the inputs are recorded in full elsewhere."""
    made = config(temperatures=(0.4, 1.0), max_usd=5, no_ir=True)
    assert made.recorded()["temperatures"] == [0.4, 1.0]
    assert RunConfig.model_validate(made.recorded()) == made
    assert not {"tasks", "experience", "validation"} & config(tasks=("a",)).recorded().keys()
    params = config(validation=("a", "b")).params()
    assert params["validation"] == ["a", "b"] and "max_usd" not in params


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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"samples": 0}, "samples: expected a whole number of 1 or more, got 0"),
        ({"temperatures": "0.4,0.4"}, "temperatures: expected distinct numbers from 0 to 2, separated by commas, got"),
        ({"price": "1"}, "price: expected two to four numbers of 0 or more, separated by commas, got '1'"),
    ],
)
def test_a_bad_value_names_its_field_and_what_is_expected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        config(**given)
    assert message in str(caught.value) and "\n" not in str(caught.value)


GOOD = ["tcp://10.0.0.1:8786", "tls://scheduler.example:8786", "tcp://[::1]:8786", "local:1", "local:16", "none"]
BAD = [
    "",
    "local:0",
    "local:-1",
    "local:²",
    "8786",
    "tcp://host",
    "tcp://host:0",
    "tcp://host:99999",
    "http://host:8786",
]
BAD += [
    "tcp://a:b@host:8786",
    "tcp://host:8786/x",
    "tcp://:8786",
    "local:1001",
    "tcp://host\x1b[2J:8786",
    "tcp://h\n:8786",
]


@pytest.mark.parametrize("text", GOOD)
def test_an_address_is_returned_as_it_is(text: str) -> None:
    """Of a scheduler, with or without TLS, or of nodes of this machine."""
    assert cluster_address(text) == text


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_refused(text: str) -> None:
    """The message says what was expected and what was given."""
    with pytest.raises(ValueError, match="expected tcp://HOST:PORT") as caught:
        cluster_address(text)
    assert repr(text) in str(caught.value)


def test_every_optimizer_has_a_class() -> None:
    """The command's names are the registry's; those that reflect are DSPy's."""
    assert set(settings.OPTIMIZERS) == set(registry.OPTIMIZERS)
    assert set(settings.SELECTIONS) == set(SELECTIONS) - {"none"}, "which is an optimizer of its own"
    assert set(settings.REFLECTING) | set(settings.VALIDATING) <= set(settings.OPTIMIZERS)
    assert all(issubclass(registry.OPTIMIZERS[name], Baseline) for name in settings.REFLECTING)
