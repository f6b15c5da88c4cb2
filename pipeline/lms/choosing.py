"""How the server of an LM is told to choose among texts: found out once, by a request or two."""

from __future__ import annotations

from typing import Any

import dspy
from dspy.utils import exceptions as lm_errors

from optimizers.ledger import Ledger, TokenCount
from optimizers.requests import sampled
from signatures.choices import ChoiceKind, choice_settings, chosen

_OFFERED: tuple[ChoiceKind, ...] = ("grammar", "structured_outputs", "regex")
"""What servers of one's own offer beside OpenAI's protocol; each ignores the others' settings."""
_OLLAMA = ("ollama", "ollama_chat")
"""A server that ignores them all; and DSPy would send them to another address than other requests."""
_JSON = ("openai", *_OLLAMA)
"""Providers that take a JSON schema and refuse, or drop, settings of others."""
_TOKENS = 32


def find_choice_kind(lm: dspy.LM) -> tuple[ChoiceKind, TokenCount]:
    """The way in which an LM's server chooses among texts, and the tokens spent to find it.

    A first request names another word in each way that a server may choose: the answer says which is followed. Where
    none is, a second request tries a JSON schema.

    Raises:
        LMError: The LM can't be used.
    """
    ledger = Ledger()
    twin = sampled(lm.copy(cache=False), ledger, lambda callers: "probe", temperature=0.0, n=None)
    own_server, provider = bool(lm.kwargs.get("api_base")), lm.model.partition("/")[0]
    if own_server and provider not in _OLLAMA:
        together: dict[str, Any] = {}
        for kind in _OFFERED:
            together |= choice_settings(kind, [kind])["extra_body"]
        together.pop("continue_final_message", None)
        together.pop("add_generation_prompt", None)
        answer = _asked(twin, extra_body=together)
        followed = [kind for kind in _OFFERED if answer.strip() == kind]
        if followed:
            return followed[0], ledger.total
    if own_server or provider in _JSON:
        words = ["zebra", "quartz"]
        if chosen("json_schema", _asked(twin, **choice_settings("json_schema", words)), words) is not None:
            return "json_schema", ledger.total
    return "numbers", ledger.total


def _asked(lm: Any, **settings: Any) -> str:
    """The answer; none where the server refuses the settings."""
    bound = {} if "max_completion_tokens" in lm.kwargs else {"max_tokens": _TOKENS}
    try:
        answers = lm("Reply with the word: ready", **bound, **settings, seed=0)
    except (lm_errors.LMInvalidRequestError, lm_errors.LMUnsupportedFeatureError):
        return ""
    first = answers[0] if answers else ""
    return str(first.get("text", "") if isinstance(first, dict) else first or "")
