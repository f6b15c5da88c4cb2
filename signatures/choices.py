"""An answer that is one of several texts: the request that makes a server choose, and the reading of the answer.

grammar             llama.cpp: a GBNF grammar
structured_outputs  vLLM: a list of choices
regex               SGLang: a regular expression
json_schema         OpenAI, Ollama and others: a JSON object whose only field is an enum
numbers             any LM: the texts are listed with numbers, and the answer is a number
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

ChoiceKind = Literal["grammar", "structured_outputs", "regex", "json_schema", "numbers"]
KINDS: tuple[ChoiceKind, ...] = get_args(ChoiceKind)
CONTINUING: tuple[ChoiceKind, ...] = ("grammar", "structured_outputs", "regex")
"""Servers that go on where the last message, one of the assistant's, ends."""

_FIELD = "line"
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def choice_settings(kind: ChoiceKind, choices: Sequence[str]) -> dict[str, Any]:
    """The settings of a request for one of several texts, as keyword arguments of an LM.

    Args:
        kind: How the server chooses.
        choices: The texts, at least one, each once.
    """
    if kind == "json_schema":
        schema = {
            "type": "object",
            "properties": {_FIELD: {"type": "string", "enum": list(choices)}},
            "required": [_FIELD],
            "additionalProperties": False,
        }
        return {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "choice", "schema": schema, "strict": True},
            }
        }
    if kind == "numbers":
        return {}
    body: dict[str, Any]
    if kind == "grammar":
        body = {"grammar": _grammar(choices)}
    elif kind == "structured_outputs":
        body = {"structured_outputs": {"choice": list(choices)}}
    else:
        body = {"regex": "|".join(f"({re.escape(choice)})" for choice in choices)}
    # llama.cpp goes on without being told.
    going_on = {} if kind == "grammar" else {"continue_final_message": True, "add_generation_prompt": False}
    return {"extra_body": {**body, **going_on}}


def listed(choices: Sequence[str]) -> str:
    """The choices with their numbers, for an LM to answer a number; lines of one choice stay together."""
    numbered = ((f"{number}. ", choice.strip("\n")) for number, choice in enumerate(choices, start=1))
    return "\n".join(mark + text.replace("\n", "\n" + " " * len(mark)) for mark, text in numbered)


def chosen(kind: ChoiceKind, answer: str, choices: Sequence[str]) -> str | None:
    """The choice that an answer is; None for an answer that is none of them."""
    if kind == "numbers":
        found = re.search(r"\d+", answer)
        number = int(found[0]) if found and len(found[0]) < 6 else 0
        return choices[number - 1] if 0 < number <= len(choices) else None
    if kind == "json_schema":
        try:
            content = json.loads(answer)
        except ValueError:
            return None
        answer = str(content.get(_FIELD)) if isinstance(content, Mapping) else ""
    return next((choice for choice in choices if choice.strip() == answer.strip()), None)


def _grammar(choices: Sequence[str]) -> str:
    """A GBNF grammar of the texts: what several begin with alike is written once."""
    return f"root ::= {_alternatives(sorted(choices))}"


def _alternatives(texts: Sequence[str]) -> str:
    parts = []
    for first, group in groupby(texts, lambda text: text[:1]):
        same = list(group)
        if not first:
            parts.append('""')
            continue
        common = _common(same)
        rest = [text[len(common) :] for text in same]
        parts.append(_quoted(common) + ("" if rest == [""] else f" {_alternatives(rest)}"))
    return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"


def _common(texts: Sequence[str]) -> str:
    """What sorted texts begin with alike."""
    first, last = texts[0], texts[-1]
    length = next((place for place, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]


def _quoted(text: str) -> str:
    return f'"{"".join(_ESCAPED.get(letter, letter) for letter in text)}"'
