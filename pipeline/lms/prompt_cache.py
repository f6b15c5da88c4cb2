"""Cache marks for providers that cache only marked text: marks the part that all requests of an iteration share."""

from __future__ import annotations

from typing import Any

from dspy.lm15 import CacheConfig

from pipeline.lms.served import ServedLM

PROVIDERS = ("anthropic",)
"""Providers that need marks; others cache common beginnings automatically, or not at all."""


class MarkingLM(ServedLM):
    """Marks the system message and, where there are demonstrations, the last of them: only the task comes after."""

    def __call__(self, prompt: Any = None, *, messages: Any = None, **kwargs: Any) -> Any:
        """As `dspy.LM`, whose default for all requests can't mark the end of a request's constant part."""
        marked = {"prompt_cache": constant_part(messages)} if messages else {}
        return super().__call__(prompt, messages=messages, **{**marked, **kwargs})


def constant_part(messages: list[dict[str, Any]]) -> CacheConfig:
    """What to cache of a request: all but its last message."""
    turns = sum(message["role"] != "system" for message in messages)
    return CacheConfig(prefix_until_index=turns - 2) if turns > 1 else CacheConfig(prefix="stable")
