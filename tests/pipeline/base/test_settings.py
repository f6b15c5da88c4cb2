"""The machinery of settings, on a small group of them."""

from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from pipeline.base.errors import UsageError
from pipeline.base.settings import Config, Count, Option, Price, Temperatures, flag


class SmallConfig(Config):
    samples: Annotated[Count, Option("how many")] = 2
    temperatures: Annotated[Temperatures, Option("of the samples", resume="changed")] = (0.4, 1.0)
    price: Annotated[Price | None, Option("in and out", resume="input")] = None


def test_a_config_is_frozen_and_has_no_other_fields() -> None:
    """An unknown setting is an error, not ignored."""
    with pytest.raises(ValidationError, match="frozen"):
        SmallConfig().samples = 3
    with pytest.raises(ValidationError, match="extra"):
        SmallConfig.model_validate({"sample": 3})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"samples": 0}, "samples: expected a whole number of 1 or more, got 0"),
        ({"temperatures": "0.4,0.4"}, "temperatures: expected distinct numbers from 0 to 2, separated by commas, got"),
        ({"price": "1"}, "price: expected two numbers of 0 or more, separated by a comma, got '1'"),
    ],
)
def test_a_bad_value_names_its_field_and_what_is_expected(given: dict[str, Any], message: str) -> None:
    """In one line, as in a `request.json` that other code wrote."""
    with pytest.raises(UsageError) as caught:
        SmallConfig.of(given)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_texts_with_commas_are_several_numbers() -> None:
    """The command line and Python give the same settings."""
    assert SmallConfig.of({"temperatures": "0.4,0.7", "price": "1,2.5"}) == SmallConfig.of(
        {"temperatures": (0.4, 0.7), "price": (1, 2.5)}
    )


def test_a_resumed_config_changes_only_what_it_may() -> None:
    """The same value again is no contradiction; options of other models are ignored."""
    recorded = SmallConfig()
    assert recorded.resumed({"temperatures": (0.7,), "samples": 2, "other": 1}).temperatures == (0.7,)
    for contradiction in ({"samples": 3}, {"price": (1, 2)}):
        with pytest.raises(UsageError, match="omit the option"):
            recorded.resumed(contradiction)


def test_a_field_is_typed_with_dashes() -> None:
    """As every option of the commands."""
    assert flag("max_tokens") == "--max-tokens"
