"""What is no request of a run is refused with one line."""

import json
from typing import Any

import pytest

from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError
from pipeline.record.request import Request
from tests.support.scripted_runs import tasks


def recorded(version: int = 1, **options: Any) -> str:
    content = json.loads(Request(RunConfig(optimizer="adaptive"), "embedded/4", tasks()).to_json())
    return json.dumps(content | {"version": version, "options": content["options"] | options})


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
