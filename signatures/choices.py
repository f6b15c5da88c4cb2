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
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, get_args

ChoiceKind = Literal["grammar", "structured_outputs", "regex", "json_schema", "numbers"]
KINDS: tuple[ChoiceKind, ...] = get_args(ChoiceKind)
CONTINUING: tuple[ChoiceKind, ...] = ("grammar", "structured_outputs", "regex")
"""Servers that go on where the last message, one of the assistant's, ends."""

_FIELD = "line"
_THOUGHTS = re.compile(r"^.*</think>|<think>.*$", re.DOTALL)
"""What models that reason say first; an answer that is cut off has nothing else."""
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


def deciding(choices: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """How all of several texts begin, and what follows in each until it is no other one's: cut between words.

    An LM that goes on where a message ends has to write no more than that, in the tokens in which it would write all.
    """
    words = [tuple(re.findall(r"\W*\w+|\W+$", choice)) for choice in choices]
    alike = 0 if len(words) == 1 else _alike(min(words), max(words))
    begun = Counter(text[:end] for text in words for end in range(len(text) + 1))
    ends = [next((end for end in range(alike + 1, len(text)) if begun[text[:end]] == 1), len(text)) for text in words]
    endings = tuple("".join(text[alike:end]) for text, end in zip(words, ends, strict=True))
    return "".join(words[0][:alike]), endings


def listed(choices: Sequence[str]) -> str:
    """The choices with their numbers, for an LM to answer a number; lines of one choice stay together."""
    numbered = ((f"{number}. ", choice.strip("\n")) for number, choice in enumerate(choices, start=1))
    return "\n".join(mark + text.replace("\n", "\n" + " " * len(mark)) for mark, text in numbered)


def chosen(kind: ChoiceKind, answer: str, choices: Sequence[str]) -> int | None:
    """The place of the choice that an answer is; None for an answer that is none of them.

    Thoughts before an answer are not part of it. Of several numbers the first counts if the answer begins with it, else
    the last; an answer with the text of a choice, and no number before it, is that choice.
    """
    answer = _THOUGHTS.sub("", answer)
    if kind == "numbers":
        leading = re.match(r"\W*(\d+)(?!\w)", answer)
        said = [place for place, choice in enumerate(choices) if choice.strip() in answer]
        if said and not leading:
            return max(said, key=lambda place: len(choices[place]))
        numbers = [leading[1]] if leading else re.findall(r"(?<![\w.=])\d+(?!\w)", answer)[-1:]
        number = int(numbers[0]) if numbers and len(numbers[0]) < 6 else 0
        return number - 1 if 0 < number <= len(choices) else None
    if kind == "json_schema":
        try:
            content = json.loads(answer)
        except ValueError:
            return None
        answer = str(content.get(_FIELD)) if isinstance(content, Mapping) else ""
    return next((place for place, choice in enumerate(choices) if choice.strip() == answer.strip()), None)


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
        common = same[0][: _alike(same[0], same[-1])]
        rest = [text[len(common) :] for text in same]
        parts.append(_quoted(common) + ("" if rest == [""] else f" {_alternatives(rest)}"))
    return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"


def _alike(first: Sequence[str], last: Sequence[str]) -> int:
    """How far two sequences are alike; of sorted ones the first and the last say how far all are."""
    pairs = enumerate(zip(first, last, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(last)))


def _quoted(text: str) -> str:
    return f'"{"".join(_ESCAPED.get(letter, letter) for letter in text)}"'
