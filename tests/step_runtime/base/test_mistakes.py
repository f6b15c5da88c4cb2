"""Errors of a file's content in the project's words."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from step_runtime.base.mistakes import first_mistake


class Content(BaseModel):
    model_config = ConfigDict(extra="forbid")

    whole: Annotated[int, Field(strict=True, ge=1)] = 1
    number: float = 1.0
    weight: int | tuple[int, int] = 1
    flag: bool = False
    text: Annotated[str, Field(max_length=3)] = ""
    items: list[int] = []
    sizes: dict[str, int] = {}
    way: Literal["a", "b"] = "a"

    @field_validator("items")
    @classmethod
    def _own(cls, items: list[int]) -> list[int]:
        if 7 in items:
            raise ValueError("expected no 7")
        return items


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"whole": "fast"}, "whole: expected a whole number, found 'fast'"),
        ({"whole": 0}, "whole: expected 1 or more, found 0"),
        ({"number": "x"}, "number: expected a number, found 'x'"),
        ({"weight": "x"}, "weight: expected a whole number, found 'x'"),
        ({"flag": 3}, "flag: expected true or false, found 3"),
        ({"text": 3}, "text: expected text, found 3"),
        ({"text": "long"}, "text: expected at most 3 characters, found 'long'"),
        ({"items": 3}, "items: expected a list, found 3"),
        ({"items": [1, "x"]}, "items.1: expected a whole number, found 'x'"),
        ({"items": [7]}, "items: expected no 7"),
        ({"sizes": []}, "sizes: expected a mapping, found []"),
        ({"way": "c"}, "way: expected 'a' or 'b', found 'c'"),
        ({"other": 1}, "other: unknown key"),
        (3, "expected a mapping, found 3"),
    ],
)
def test_a_mistake_is_a_line_with_place_expectation_and_what_was_found(content: Any, message: str) -> None:
    """In the words of the project's other messages, without Pydantic's."""
    with pytest.raises(ValidationError) as refused:
        Content.model_validate(content)
    assert first_mistake(refused.value) == message
