"""Programs line by line: each line is the LM's choice among those that may follow.

The prompt is that of a program at once. The answer's beginning, the lines so far, is added to it and grows, so that all
requests of a sample begin alike and a server's cache serves them, as it serves several samples of a task. A line
without an alternative costs no request.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from random import Random
from typing import Any, Literal, get_args

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError

from signatures.adapter import YAMLAdapter
from step_runtime.tasks.task import Task

# --- an answer that is one of several texts: the request that makes a server choose, and its reading ------------------
# grammar             llama.cpp: a GBNF grammar
# structured_outputs  vLLM: a list of choices
# regex               SGLang: a regular expression
# json_schema         OpenAI, Ollama and others: a JSON object whose only field is an enum
# numbers             any LM: the texts are listed with numbers, and the answer is a number

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
        body = {"grammar": f"root ::= {_alternatives(sorted(choices))}"}
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


# --- programs line by line: each line is the LM's choice among those that may follow ----------------------------------

MOST_LINES = 200
"""Lines of a program; those that next lines follow for ever end there."""
_MOST_DRAWS = 4
"""Lines that an LM draws before the grammar chooses."""
_ROUND = 8
"""Samples of a task after which the LM has its full weight again."""
_HEADING = "[[ ## impl ## ]]"
_ASKED = "The program so far:\n\n{}\n\nWhat may follow, each with its number:\n\n{}\n\nAnswer with one number only."
_ASKED_FOR_JSON = "The program so far:\n\n{}\n\nAnswer with the line that follows, as JSON."
_NOTHING = "(nothing)"

NextLines = Callable[[Any, str, int], Sequence[str]]
"""Of a task, the lines of a program so far, and how many functions it may apply again: what may follow, none after a
whole program. A `ValueError` says that no program begins so."""


@dataclass
class Lessons:
    """What samples have taught; nothing by default.

    Attributes:
        bits: Of a task, the lines so far and those that may follow, how surprising the grammar finds each; None: there
            is no grammar, and the LM alone chooses.
        refused: Whether a program of a task has been rejected: it is not written again.
        again: The share of samples whose programs may apply functions again.
    """

    bits: Callable[[Any, str, Sequence[str]], Sequence[float]] | None = None
    refused: Callable[[Any, str], bool] = lambda task, text: False
    again: float = 0.5


class LineAdapter(YAMLAdapter):
    """Asks for a program line by line; an answer that is no choice ends the program, for the verifier to reject.

    An LM may think before it answers. So where nothing holds it to the choices, the first answer that is none is asked
    for again, and that and the sample's others have the LM's own limit of tokens.

    With lessons a line is the choice of two experts. What the LM draws is kept with a chance of 2^-(its bits - the
    least), so that the grammar counts with any server. Each sample of a task, by the LM's attribute `sample`, halves
    the chance that the LM is asked for a line; else the grammar draws it, without a request. A field `experts` counts
    the lines of each.

    How an LM's server chooses is the LM's attribute `choice_kind`, see `signatures.lines`; without one, lines are
    listed with numbers.

    Args:
        next_lines: The lines that may follow.
        plain: A demonstration's program in the form of such lines, for its task.
        lessons: What samples have taught.
        callbacks: As DSPy's.
    """

    def __init__(
        self,
        next_lines: NextLines,
        plain: Callable[[Any, str], str] = lambda task, text: text,
        lessons: Lessons | None = None,
        callbacks: list[BaseCallback] | None = None,
    ) -> None:
        super().__init__(callbacks=callbacks)
        self._next_lines, self._plain, self._lessons = next_lines, plain, lessons or Lessons()

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: type[dspy.Signature], demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """One answer, whose program is made of lines that may follow each other."""
        task, text, kind, experts = inputs["task"], "", _kind(lm), Counter[str]()
        prompt, repeats, thinks = self.format(signature, demos, inputs), _repeats(lm, self._lessons.again), False
        open_: list[tuple[str, Sequence[str]]] = []
        back, drawn = 1, Random(f"lines {lm.kwargs.get('seed')}")
        trust = 2.0 ** -(getattr(lm, "sample", 0) % _ROUND) if self._lessons.bits else 1.0
        for _ in range(MOST_LINES):
            try:
                choices = self._next_lines(task, text, repeats)
                dead = not choices and self._lessons.refused(task, text)
            except ValueError:
                choices, dead = (), True
            if dead:
                if not open_:
                    break
                kept = max(len(open_) - back, 0)
                (text, choices), back = open_[kept], 2 * back
                del open_[kept:]
            if not choices:
                break
            if len(choices) == 1:
                text += f"{choices[0]}\n"
                continue
            one = _OneLine(prompt, text, choices, kind)
            bits = self._lessons.bits(task, text, choices) if self._lessons.bits else [0.0] * len(choices)
            shares = [2.0 ** (min(bits) - each) for each in bits]
            expert, place = "grammar", None
            for _ in range(_MOST_DRAWS if drawn.random() < trust else 0):
                answer, place = one.asked(lm, lm_kwargs, signature, limited=not thinks)
                if place is None and not thinks and kind not in CONTINUING:
                    thinks = True
                    answer, place = one.asked(lm, lm_kwargs, signature, limited=False)
                if place is None or drawn.random() < shares[place]:
                    expert = "LM"
                    break
            if expert == "grammar":
                place = drawn.choices(range(len(shares)), shares)[0]
            experts[expert] += 1
            if place is None:
                text += f"{answer.strip()}\n"
                break
            open_.append((text, [*choices[:place], *choices[place + 1 :]]))
            text += f"{choices[place].strip()}\n"
        learned = {"experts": dict(experts)} if self._lessons.bits else {}
        return [{name: text if name == "impl" else "" for name in signature.output_fields} | learned]

    async def acall(
        self, lm: Any, lm_kwargs: Any, signature: type[dspy.Signature], demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """As a call, in whose thread it runs."""
        return self(lm, lm_kwargs, signature, demos, inputs)

    def format_demos(self, signature: type[dspy.Signature], demos: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Demonstrations, their programs in the form of the lines to choose from."""
        shown = [{**demo, "impl": self._as_lines(demo)} if "impl" in demo else demo for demo in demos]
        messages: list[dict[str, Any]] = super().format_demos(signature, shown)
        return messages

    def _as_lines(self, demo: Mapping[str, Any]) -> str:
        task = demo.get("task")
        if isinstance(task, Mapping):
            task = Task.model_validate(task)
        return self._plain(task, str(demo["impl"]))


def continued(text: str, lines: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The beginning of the answer that an LM continues, and its continuations: until each is no other one's."""
    alike, endings = deciding([f"\n{line}" for line in lines])
    written = text.rstrip("\n")
    return (f"{_HEADING}\n{written}" if written else _HEADING) + alike, endings


class _OneLine(YAMLAdapter):
    """Asks for one line of a program."""

    def __init__(self, prompt: list[dict[str, Any]], text: str, lines: Sequence[str], kind: ChoiceKind) -> None:
        super().__init__()
        self._prompt, self._text, self.kind = prompt, text.rstrip("\n"), kind
        self._begun, self.choices = continued(text, lines)
        if kind not in CONTINUING:
            self.choices = tuple(f"\n{line}" for line in lines)

    def asked(
        self, lm: Any, own: Mapping[str, Any], signature: type[dspy.Signature], *, limited: bool
    ) -> tuple[str, int | None]:
        """An answer, and the place of the choice that it is; `limited` to little more than a choice's length."""
        try:
            answer = str(self(lm, _settings(lm, own, self, limited=limited), signature, [], {})[0]["impl"])
        except AdapterParseError as error:  # it has no text
            answer = str(error.lm_response or "")
        return answer, chosen(self.kind, answer, self.choices)

    def format(
        self, signature: type[dspy.Signature], demos: list[dict[str, Any]], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """The prompt, and the lines so far."""
        if self.kind in CONTINUING:
            return [*self._prompt, {"role": "assistant", "content": self._begun}]
        asked = _ASKED_FOR_JSON if self.kind == "json_schema" else _ASKED
        *before, last = self._prompt
        question = asked.format(self._text or _NOTHING, listed(self.choices))
        return [*before, {**last, "content": f"{last['content']}\n\n{question}"}]

    def parse(self, signature: type[dspy.Signature], completion: str) -> dict[str, Any]:
        """The answer as it is, without the beginning that it goes on from: llama.cpp gives that, too."""
        return {"impl": completion.removeprefix(self._begun) if self.kind in CONTINUING else completion}


def _repeats(lm: Any, again: float) -> int:
    """The functions that a sample's program may apply again, by its seed: some in a share, of these one in half, ..."""
    seed = lm.kwargs.get("seed")
    drawn = Random(f"repeats {seed}")
    return 0 if seed is None else next(more for more in count() if drawn.random() < 1 - (0.5 if more else again))


def _kind(lm: Any) -> ChoiceKind:
    kind: ChoiceKind = getattr(lm, "choice_kind", "numbers")
    return kind


def _settings(lm: Any, own: Mapping[str, Any], one: _OneLine, *, limited: bool) -> dict[str, Any]:
    """The settings of a request for one line: it ends when the longest choice has ended, and has one answer."""
    longest = 8 if one.kind == "numbers" else max(map(len, one.choices)) + 32
    limit = {"max_tokens": longest} if limited and "max_completion_tokens" not in lm.kwargs else {}
    return {**own, **limit, "n": None, **choice_settings(one.kind, one.choices)}
