"""Programs line by line: each line is the LM's choice among those that may follow.

The prompt is that of a program at once. The answer's beginning, the lines so far, is added to it and grows, so that all
requests of a sample begin alike and a server's cache serves them, as it serves several samples of a task. A line
without an alternative costs no request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import AdapterParseError

from signatures.adapter import YAMLAdapter
from signatures.choices import CONTINUING, ChoiceKind, choice_settings, chosen, deciding, listed
from step_runtime.tasks.task import Task

MOST_LINES = 200
"""Lines of a program; those that next lines follow for ever end there."""
_NO_MORE = 0.5
"""The share of samples in which no function, or no further one, is applied again: of the data's programs it is more."""
_HEADING = "[[ ## impl ## ]]"
_ASKED = "The program so far:\n\n{}\n\nWhat may follow, each with its number:\n\n{}\n\nAnswer with one number only."
_ASKED_FOR_JSON = "The program so far:\n\n{}\n\nAnswer with the line that follows, as JSON."
_NOTHING = "(nothing)"

NextLines = Callable[[Any, str, int], Sequence[str]]
"""Of a task, the lines of a program so far, and how many functions it may apply again: what may follow, none after a
whole program. A `ValueError` says that no program begins so."""


class LineAdapter(YAMLAdapter):
    """Asks for a program line by line; an answer that is no choice ends the program, for the verifier to reject.

    An LM may think before it answers. So where nothing holds it to the choices, the first answer that is none is asked
    for again, and that and the sample's others have the LM's own limit of tokens.

    How an LM's server chooses is the LM's attribute `choice_kind`, see `signatures.choices`; without one, lines are
    listed with numbers.

    Args:
        next_lines: The lines that may follow.
        plain: A demonstration's program in the form of such lines, for its task.
        callbacks: As DSPy's.
    """

    def __init__(
        self,
        next_lines: NextLines,
        plain: Callable[[Any, str], str] = lambda task, text: text,
        callbacks: list[BaseCallback] | None = None,
    ) -> None:
        super().__init__(callbacks=callbacks)
        self._next_lines, self._plain = next_lines, plain

    def __call__(
        self, lm: Any, lm_kwargs: Any, signature: type[dspy.Signature], demos: list[Any], inputs: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """One answer, whose program is made of lines that may follow each other."""
        task, text, kind = inputs["task"], "", _kind(lm)
        prompt, repeats, thinks = self.format(signature, demos, inputs), _repeats(lm), False
        open_: list[tuple[str, Sequence[str]]] = []
        back = 1
        for _ in range(MOST_LINES):
            try:
                choices = self._next_lines(task, text, repeats)
            except ValueError:
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
            answer, place = one.asked(lm, lm_kwargs, signature, limited=not thinks)
            if place is None and not thinks and kind not in CONTINUING:
                thinks = True
                answer, place = one.asked(lm, lm_kwargs, signature, limited=False)
            if place is None:
                text += f"{answer.strip()}\n"
                break
            open_.append((text, [*choices[:place], *choices[place + 1 :]]))
            text += f"{choices[place].strip()}\n"
        return [{name: text if name == "impl" else "" for name in signature.output_fields}]

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


def _repeats(lm: Any) -> int:
    """The functions that a sample's program may apply again: by its seed none half of the time, one a quarter, ..."""
    seed = lm.kwargs.get("seed")
    drawn = Random(f"repeats {seed}")
    return 0 if seed is None else next(more for more in count() if drawn.random() < _NO_MORE)


def _kind(lm: Any) -> ChoiceKind:
    kind: ChoiceKind = getattr(lm, "choice_kind", "numbers")
    return kind


def _settings(lm: Any, own: Mapping[str, Any], one: _OneLine, *, limited: bool) -> dict[str, Any]:
    """The settings of a request for one line: it ends when the longest choice has ended, and has one answer."""
    longest = 8 if one.kind == "numbers" else max(map(len, one.choices)) + 32
    limit = {"max_tokens": longest} if limited and "max_completion_tokens" not in lm.kwargs else {}
    return {**own, **limit, "n": None, **choice_settings(one.kind, one.choices)}
