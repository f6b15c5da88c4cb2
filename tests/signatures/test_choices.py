"""One of several texts: every protocol says exactly the texts, and reads exactly them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signatures.lines import KINDS, choice_settings, chosen, deciding, listed
from tests.support.choosing import PROTOCOLS, choices_of, constrained

TEXTS = st.lists(st.text('abE1="\\.(|)[]\n', min_size=1, max_size=9), min_size=1, max_size=8, unique=True)


def body_of(settings: dict[str, Any]) -> dict[str, Any]:
    """What a server is sent of an LM's keyword arguments."""
    extra = settings.pop("extra_body", {})
    return {**settings, **extra}


@given(TEXTS)
def test_a_server_reads_the_texts_that_were_meant(texts: list[str]) -> None:
    """Whatever characters they hold, and whatever they begin with alike."""
    for kind in KINDS:
        body = body_of(choice_settings(kind, texts))
        if kind in PROTOCOLS:
            assert sorted(choices_of(body, kind)) == sorted(texts)
        else:
            assert not body


@given(TEXTS)
def test_a_regular_expression_matches_the_texts_and_no_others(texts: list[str]) -> None:
    """Of a whole answer."""
    expression = body_of(choice_settings("regex", texts))["regex"]
    assert all(re.fullmatch(expression, text) for text in texts)
    assert not re.fullmatch(expression, "".join(texts) + "?")


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_what_a_server_chooses_is_read_as_the_choice(kind: Any) -> None:
    """Lines of several, and one that another begins with."""
    texts = ["\nreturn E1", "\nreturn E10", "\nE2 = a\nE3 = b"]
    for wanted in texts:
        body = body_of(choice_settings(kind, texts))
        assert chosen(kind, constrained(body, kind, wanted), texts) == texts.index(wanted)
    for other in ("return E2", "", "{", '{"line": 3}', "[1]"):
        assert chosen(kind, other, texts) is None


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ("I take number 2.", 1), ("**2**", 1), (' "1"\n', 0), ("2. E2 = a\n   E3 = b(a=1)", 1), ("`return E1`", 0),
        ("<think>\nThere are 2 options.\n</think>\n\n1", 0), ("Of the 2 choices, E2 is as good as 1", 0),
        ("<think>\nThere are 2 options", None),
        *((other, None) for other in ("0", "3", "-", "none", "", "E1", "9" * 5000)),
    ],
)  # fmt: skip
def test_numbers_are_read_out_of_any_answer(answer: str, place: int | None) -> None:
    """Counted from 1, with or without thoughts, quotes or the line itself; a number that there is not is no choice."""
    texts = ["\nreturn E1", "\nE2 = a\nE3 = b"]
    assert listed(texts) == "1. return E1\n2. E2 = a\n   E3 = b"
    assert chosen("numbers", answer, texts) == place


@given(TEXTS)
def test_an_answer_ends_where_it_decides(texts: list[str]) -> None:
    """What all begin with alike is not asked for, and no other text goes on so unless a whole text begins it."""
    alike, endings = deciding(texts)
    assert len(set(endings)) == len(texts)
    for text, ending in zip(texts, endings, strict=True):
        assert text.startswith(alike + ending)
        fitting = [each for each in texts if re.match(rf"{re.escape(alike + ending)}(?!\w)", each)]
        assert alike + ending == text or fitting == [text]


def test_answers_are_cut_between_words() -> None:
    """The words that an LM writes stay whole: a token may hold several letters, and what stands before them."""
    lines = [
        "\nE2 = step.Map(fn=fn_mul).apply(E1)",
        "\nE2 = step.Map(fn=fn_max).apply(E1)",
        "\nE2 = step.Map(fn=fn_max).apply(E0)",
    ]
    assert deciding(lines) == ("\nE2 = step.Map(fn", ("=fn_mul", "=fn_max).apply(E1", "=fn_max).apply(E0"))
    assert deciding(lines[:1]) == ("", ("\nE2",))


def test_what_texts_begin_with_alike_is_in_a_grammar_once() -> None:
    """So that a server follows few alternatives at a time."""
    texts = [f"\nE{n} = step.Map(fn=fn_{name}).apply(E0)" for n in (1, 2) for name in ("add", "mul")]
    grammar = choice_settings("grammar", texts)["extra_body"]["grammar"]
    assert grammar.count("step.Map") == 2
    assert grammar.startswith('root ::= "\\nE" (')
