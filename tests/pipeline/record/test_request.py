"""A run's request holds these:

- what was recorded before configs existed, version 1, is still read;
- what this code can't read is refused with one line.
"""

import json
from typing import Any

import pytest

from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError
from pipeline.record.request import Request
from tests.support.scripted_runs import TASK

OPTIONS = {
    "optimizer": "adaptive", "lm": "embedded", "api_base": None, "max_tokens": 4096, "timeout": 600.0, "batch_n": 1,
    "guardian": "gated", "proposer": "predict", "refine": 0, "no_ir": False, "reflection_lm": None, "samples": 2,
    "temperatures": [0.4, 0.7], "granularity": 3, "threads": 2, "seed": 5,
    "max_iterations": None, "max_tokens_total": None, "max_usd": None, "max_minutes": 1.5,
}  # fmt: skip
"""As recorded by `pipeline.compile` of version 0.1.0 before its options were a config."""


def recorded(version: int = 1, **options: Any) -> str:
    content = {"version": version, "options": OPTIONS | options, "lm": "embedded/4", "tasks": [["double", TASK]]}
    return json.dumps(content | {"validation": [], "experience": None})


def test_a_request_recorded_earlier_is_read_and_written_the_same() -> None:
    """Every option has its field; the same content is written again, beside the options added since."""
    request = Request.from_json(recorded())
    assert request.config == RunConfig.model_validate(OPTIONS)
    assert (request.config.temperatures, request.config.max_minutes) == ((0.4, 0.7), 1.5)
    written = json.loads(request.to_json())["options"]
    assert {name: written[name] for name in OPTIONS} == OPTIONS
    assert Request.from_json(request.to_json()) == request


def test_options_added_since_have_their_defaults() -> None:
    """A run recorded before an option existed ran as its default does."""
    content = json.loads(recorded())
    del content["options"]["batch_n"]
    assert Request.from_json(json.dumps(content)).config == RunConfig.model_validate(OPTIONS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (recorded(version=2), "the run's request is of version 2; this code reads version 1"),
        (recorded(telepathy=True), "options.telepathy: unknown key"),
        (recorded(samples=0), "options.samples: expected a whole number of 1 or more, got 0"),
    ],
)
def test_what_can_t_be_read_is_refused_in_one_line(text: str, message: str) -> None:
    """Which `--resume` reports with the run's name."""
    with pytest.raises((UsageError, ValueError)) as caught:
        Request.from_json(text)
    assert str(caught.value) == message
