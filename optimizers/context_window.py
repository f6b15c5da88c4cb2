"""An LM's context window: its size, and an LM's refusals of prompts that are too long.

Invariants: sizes are characters of rendered prompts times the tokens per character that the LM's own counts have shown;
a prompt that is judged to fit leaves room for the answer; an error is about the length if its class, its code or its
words say so, and the numbers in its words are a limit and what was asked, whatever the order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMProviderError

from optimizers.ledger import TokenCount
from optimizers.usage import message_text, parts_text

UNMEASURED = 1 / 3
"""Tokens per character before any count is known: about right for code, too high for prose."""

MARGIN = 1.02
"""By how much one prompt's tokens per character may exceed the mean."""

_SUBJECT = r"(?:prompt|inputs?|request|messages?|sequence|conversation|tokens?)"
_EXCESS = r"(?:too long|too large|too big|longer than|exceed\w*|must be <=|must have less than|over the limit)"
_TOO_LONG = re.compile(
    rf"context_length|exceed_context|n_ctx|max_model_len|context[ _-](?:length|size|window|limit)"
    rf"|too many (?:input |prompt )?tokens|reduce (?:the|your) (?:length|prompt|input|messages)"
    rf"|{_SUBJECT}\b.{{0,60}}\b{_EXCESS}|{_EXCESS}.{{0,60}}\b(?:maximum|number of|allowed).{{0,20}}\btokens",
    re.IGNORECASE | re.DOTALL,
)
_ANSWER_ONLY = re.compile(r"(?:at most|maximum of) [\d,]+ (?:completion|output) tokens", re.IGNORECASE)
_NUMBER = r"(\d[\d,_]*)"
_LIMITS = (
    rf">\s*{_NUMBER}",
    rf"(?:<=|less than|at most|cannot exceed|(?:maximum )?context[ _-](?:length|size|window|limit)|maximum|limit)"
    rf"[^\d<>]{{0,40}}?{_NUMBER}",
    rf"{_NUMBER}\s*(?:tokens?\s*)?(?:maximum|max\b|limit)",
)
_ANY_NUMBER = re.compile(rf"(?<![\w.-]){_NUMBER}(?!\w)")


@dataclass(frozen=True, slots=True)
class Window:
    """The sizes of an LM's context window: the tokens that it reads and writes in one request.

    Attributes:
        tokens: Of prompt and answer together; None if unknown.
        reserve: Those of them that are kept for the answer.
        ratio: Tokens per character of a prompt, as measured; 0 if nothing has been measured.
        refused: Characters of a prompt that the LM found too long; 0 if there is none.
    """

    tokens: int | None = None
    reserve: int = 0
    ratio: float = 0.0
    refused: int = 0

    @classmethod
    def of(cls, lm: Any, tokens: int | None, *counts: TokenCount, refused: int = 0) -> Window:
        """The window of an LM of this size and of these settings, which limit the length of an answer.

        `counts` is what has been measured with it, `refused` the characters of a prompt that it found too long.
        """
        settings = getattr(lm, "kwargs", {})
        reserve = settings.get("max_tokens") or settings.get("max_completion_tokens") or 0
        measured = TokenCount.sum(counts)
        ratio = measured.measured_tokens / measured.measured_chars if measured.measured_chars else 0.0
        return cls(tokens, reserve, ratio, refused)

    @property
    def per_character(self) -> float:
        """Tokens per character, on the safe side."""
        return self.ratio * MARGIN if self.ratio else UNMEASURED

    def prompt_tokens(self, characters: int) -> int:
        """Tokens of a prompt of so many characters."""
        return math.ceil(characters * self.per_character)

    def holds(self, characters: int) -> bool:
        """Whether a prompt of so many characters fits, and its answer with it."""
        if self.refused and characters >= self.refused:
            return False
        return self.tokens is None or self.prompt_tokens(characters) + self.reserve <= self.tokens


def as_too_long(error: Exception, characters: int) -> Exception:
    """The error, as DSPy's own class if it is about a prompt's length; it then has the prompt's `characters`."""
    if not is_too_long(error):
        return error
    if not isinstance(error, ContextWindowExceededError):
        known = {name: getattr(error, name, None) for name in ("model", "provider", "provider_code", "status")}
        found = ContextWindowExceededError(message=getattr(error, "message", str(error)), **known)
        found.__cause__, error = error, found
    error.characters = characters  # type: ignore[attr-defined]
    return error


def is_too_long(error: BaseException) -> bool:
    """Whether the LM refuses a request because of its length."""
    if isinstance(error, ContextWindowExceededError):
        return True
    status = getattr(error, "status", None)
    refused = isinstance(error, LMInvalidRequestError) or (isinstance(error, LMProviderError) and status in (413, 500))
    text = f"{getattr(error, 'provider_code', '') or ''} {error}"
    return refused and bool(_TOO_LONG.search(text)) and not _ANSWER_ONLY.search(text)


def stated(error: BaseException) -> tuple[int, int]:
    """The limit in tokens that a refusal states, and how many tokens too many were asked for; 0 where it is silent."""
    text = str(getattr(error, "message", error))
    limits = (found for pattern in _LIMITS if (found := re.search(pattern, text, re.IGNORECASE)))
    limit = next((number for found in limits if (number := _number(found[1])) >= 16), 0)
    others = sorted({_number(found) for found in _ANY_NUMBER.findall(text)} - {limit, 0})
    if not limit or not others:
        return limit, 0
    asked = others[-1] if others[-1] > limit else sum(others)  # the total, or its parts
    return limit, max(0, asked - limit)


def _number(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def request_characters(args: Any, kwargs: Mapping[str, Any]) -> int:
    """Characters of a request's messages, as an adapter or a program passes them to an LM."""
    request = args[0] if args else kwargs.get("prompt")
    if isinstance(request, str):
        return len(request)
    if messages := kwargs.get("messages"):
        return sum(len(message_text(message)) for message in messages)
    request = request if request is not None else kwargs.get("request")
    system, parts = {"content": getattr(request, "system", "")}, [*getattr(request, "messages", ())]
    return len(message_text(system)) + sum(len(parts_text(message.parts)) for message in parts)
