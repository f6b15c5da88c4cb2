"""The one error style.

Invariants: a finding reads `name:line:column: code: message`, then the source line with carets under the very
characters meant, then both sides of the rule, then a hint.
"""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from step_runtime.base.errors import (
    Diagnostic,
    Span,
    describe_error,
    describe_value,
)
from step_runtime.base.mistakes import first_mistake

TEXT = "a = 1\n\tb = foo(\n  1)\nlast"


def test_a_finding_is_reported_as_place_source_carets_details_and_hint() -> None:
    """All parts of a finding stand in order, each on its line."""
    span = Span(1, 5, 1, 6)
    finding = Diagnostic(
        "type", "zip-shape", "the shapes differ", span, ("E0: fp32 [K]; E1: fp32 [N]",), "make them equal"
    )
    assert finding.render("a = 1\n", "bmm_1") == (
        "bmm_1:1:5: zip-shape: the shapes differ\n  a = 1\n      ^\n"
        "  E0: fp32 [K]; E1: fp32 [N]\n  hint: make them equal"
    )


@pytest.mark.parametrize(
    ("span", "source", "carets"),
    [
        (Span(1, 1, 1, 2), "a = 1", "^"), (Span(1, 1, 1, 6), "a = 1", "^^^^^"), (Span(1, 5, 1, 99), "a = 1", "    ^"),
        (Span(1, 6, 1, 7), "a = 1", "     ^"), (Span(1, 50, 1, 51), "a = 1", "     ^"),
        (Span(2, 6, 3, 5), "b = foo(", "    ^^^^"), (Span(3, 3, 3, 4), "1)", "^"), (Span(4, 1, 4, 1), "last", "^"),
    ],
)  # fmt: skip
def test_carets_stand_under_the_source(span: Span, source: str, carets: str) -> None:
    """Whatever the span, carets stay on its first line, and indentation is cut from both lines."""
    _, shown, under = Diagnostic("parse", "x", "y", span).render(TEXT).split("\n")
    assert (shown, under) == (f"  {source}", f"  {carets}")


@pytest.mark.parametrize("span", [None, Span(9, 1, 9, 2), Span(0, 1, 0, 1)])
def test_a_place_outside_of_the_text_shows_no_source(span: Span | None) -> None:
    """A finding about the whole text, or about its end, is reported without a source line."""
    assert "\n" not in Diagnostic("parse", "x", "y", span).render(TEXT)


def test_tabs_before_the_place_stay_tabs() -> None:
    """Carets stand where the source does, however wide a tab is shown."""
    assert Diagnostic("parse", "x", "y", Span(1, 4, 1, 5)).render("a\t\tb").split("\n")[1:] == ["  a\t\tb", "   \t\t^"]


@pytest.mark.parametrize("start", [1, 50, 500, 905, 990])
def test_a_long_line_is_cut_around_the_place(start: int) -> None:
    """What is shown holds the place, with the carets below it, and says where it was cut."""
    text = "".join(chr(0x4E00 + i) for i in range(1000))
    _, shown, carets = Diagnostic("parse", "x", "y", Span(1, start, 1, start + 5)).render(text).split("\n")
    at = carets.index("^")
    assert shown[at : at + 5] == text[start - 1 : start + 4] and carets.count("^") == 5
    assert len(shown) <= 164
    assert (shown[2] == "…", shown[-1] == "…") == (start > 81, start < 921)


class _Named(type):
    @property
    def __name__(cls) -> str:
        raise SystemExit(1)


class _Unnamed(Exception, metaclass=_Named):
    def __str__(self) -> str:
        raise GeneratorExit


class _Text(str):
    def __format__(self, spec: str) -> str:
        raise OSError

    __getitem__ = split = __str__ = __format__  # type: ignore[assignment]


class _Speechless(ValueError):
    def __str__(self) -> str:
        return _Text("so\nlong")


@pytest.mark.parametrize(
    ("error", "quoted"),
    [
        (ValueError("no"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (ValueError("one\n  two\r\n\nthree\x1b[2J\udc80"), "ValueError: one two three\\x1b[2J\\udc80"),
        (ValueError("y" * 10**7), f"ValueError: {'y' * 400}…"),
        (_Unnamed(), "an exception: it cannot say why"),
        (_Speechless(), "_Speechless: so long"),
    ],
)
def test_any_exception_is_reported_in_one_line(error: Exception, quoted: str) -> None:
    """Whatever it says of itself, or fails to say: one line of bounded length that can be printed."""
    assert describe_error(error) == quoted


def test_any_value_is_shown_in_one_line() -> None:
    """As exceptions are."""
    assert describe_value("a") == "'a'"
    assert (
        describe_value(10**5000)
        == describe_value(type("X", (), {"__repr__": lambda self: 1 / 0})())
        == "a value that cannot be shown"
    )


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
