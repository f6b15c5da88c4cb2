"""LMs that book what they do: `metered` copies of the LMs a program uses, made for one sample.

Invariants: a metered LM answers as its original would with the sample's settings; every request it makes is
booked on the predictor that asked, be it answered, failed, retried or served by the cache; transient failures
are retried as often as the original would; the original, its history and the program are left alone.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import dspy
from dspy.utils.exceptions import LMError, is_retryable_lm_error

from optimizers.ledger import Ledger, TokenCount

OTHER = "other"
LONGEST_WAIT = 120.0
_jitter = random.Random()


def estimate_tokens(text: str) -> int:
    """A count for where none is reported: three characters a token, about right for code, high for prose."""
    return (len(text) + 2) // 3


@dataclass
class _Meter:
    """Reads one request: DSPy's usage tracker for its time, with the history entry of the answer beside it.

    DSPy reports usage for every answer it paid for, those of failed calls included, and for no other; what it
    does not report came out of the response cache.
    """

    outer: Any
    usages: list[Mapping[str, Any]] = field(default_factory=list)
    entry: Mapping[str, Any] | None = None

    def add_usage(self, lm: str, usage: dict[str, Any]) -> None:
        self.usages.append(usage)
        if self.outer is not None:
            self.outer.add_usage(lm, usage)

    def count(self) -> TokenCount:
        counts = [_read_usage(usage) for usage in self.usages] or [(0, 0, 0)]
        prompt, completion, provider_cached = map(sum, zip(*counts, strict=True))
        paid = {"prompt": prompt, "completion": completion, "provider_cached": provider_cached}
        if self.entry is None:
            return TokenCount(calls=max(1, len(self.usages)), failed=1, **paid)
        response, cost = self.entry["response"], self.entry["cost"]
        calls = len(response) if isinstance(response, tuple) else 1  # n completions asked one by one
        if self.usages:
            return TokenCount(calls=calls, usd=cost or 0.0, unpriced=calls * (cost is None), **paid)
        prompt, completion = _stored_usage(self.entry)
        return TokenCount(calls=calls, cache_hits=calls, cached_prompt=prompt, cached_completion=completion)


def _read_usage(usage: Mapping[str, Any]) -> tuple[int, int, int]:
    """Prompt, completion and provider-cached tokens; the names differ between the chat and responses APIs."""
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    is_dict = isinstance(details, Mapping)
    cached = details.get("cached_tokens") if is_dict else getattr(details, "cached_tokens", 0)
    prompt = usage.get("prompt_tokens") or usage.get("input_tokens") or 0
    completion = usage.get("completion_tokens") or usage.get("output_tokens") or 0
    return prompt, completion, cached or 0


def _stored_usage(entry: Mapping[str, Any]) -> tuple[int, int]:
    """Tokens in and out that a cached answer had cost; estimated where the cache did not keep them."""
    responses = entry["response"] if isinstance(entry["response"], tuple) else (entry["response"],)
    usages = [getattr(response, "usage", None) for response in responses]
    prompt = sum(getattr(usage, "input_tokens", None) or 0 for usage in usages)
    completion = sum(getattr(usage, "output_tokens", None) or 0 for usage in usages)
    if prompt or completion:
        return prompt, completion
    texts = [str(message.get("content")) for message in entry["messages"] or ()] or [str(entry["prompt"])]
    return sum(map(estimate_tokens, texts)), sum(estimate_tokens(str(output)) for output in entry["outputs"])


class _Metered:
    """What a metered LM does around the class it is mixed into."""

    _ledger: Ledger
    _name: Callable[[Sequence[Any]], str]
    _retries: int

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for attempt in count():
            try:
                with self._booked():
                    return super().__call__(*args, **kwargs)  # type: ignore[misc]
            except LMError as error:
                if attempt >= self._retries or not is_retryable_lm_error(error):
                    raise
                time.sleep(_wait(error, attempt))

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        for attempt in count():
            try:
                with self._booked():
                    return await super().acall(*args, **kwargs)  # type: ignore[misc]
            except LMError as error:
                if attempt >= self._retries or not is_retryable_lm_error(error):
                    raise
                await asyncio.sleep(_wait(error, attempt))

    def update_history(self, entry: Mapping[str, Any]) -> None:
        """Reads the entry and lets it go, or the prompts of thousands of samples would fill the memory."""
        dspy.settings.usage_tracker.entry = entry

    @contextmanager
    def _booked(self) -> Iterator[None]:
        meter = _Meter(dspy.settings.usage_tracker)
        try:
            with dspy.context(usage_tracker=meter, disable_history=False):
                yield
        finally:
            self._ledger.add(self._name(dspy.settings.caller_modules or []), meter.count())


def _wait(error: LMError, attempt: int) -> float:
    """Seconds before the next try: what the provider asks for, else twice as long each time, with jitter."""
    asked = getattr(error, "retry_after", None)
    wait = float(asked) if asked is not None else 2.0**attempt * _jitter.uniform(0.5, 1.0)
    return min(wait, LONGEST_WAIT)


@functools.cache
def _metered_class(cls: Any) -> Any:
    return type(f"Metered{cls.__name__}", (_Metered, cls), {})


def predictor_names(program: dspy.Module) -> dict[int, str]:
    """The names of a program's predictors, by `id`."""
    return {id(predictor): name for name, predictor in program.named_predictors()}


def innermost(callers: Sequence[Any], names: Mapping[int, str]) -> str:
    """The name of the innermost of the modules at work that has one."""
    return next((names[id(module)] for module in reversed(callers) if id(module) in names), OTHER)


def metered(lm: Any, ledger: Ledger, name: Callable[[Sequence[Any]], str], **config: Any) -> Any:
    """A copy of `lm` with `config` as its settings that books on `ledger`.

    Args:
        lm: The LM.
        ledger: What is booked on.
        name: Of the modules at work, the outermost first: which predictor a request is booked on.
        config: Settings of the copy.
    """
    twin = lm.copy(num_retries=0, **config)
    if not isinstance(lm, _Metered):
        twin.__class__ = _metered_class(lm.__class__)
        twin._retries = getattr(lm, "num_retries", 0)
    twin._ledger, twin._name = ledger, name
    return twin


def own_lms(program: dspy.Module) -> bool:
    """Whether a predictor of the program is bound to an LM of its own."""
    return any(predictor.lm is not None for predictor in program.predictors())


def rebind(value: Any, replace: Callable[[Any], Any], seen: dict[int, Any] | None = None) -> Any:
    """A copy of a program in which every LM is what `replace` makes of it.

    Only modules, and the lists, tuples and dicts in them, are copied; all else is shared, however large.
    """
    seen = {} if seen is None else seen
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, dspy.BaseLM):
        seen[id(value)] = replace(value)
    elif isinstance(value, dspy.Module):
        seen[id(value)] = twin = copy.copy(value)
        twin.callbacks = value.callbacks
        for name, part in vars(value).items():
            if name not in ("history", "callbacks"):
                setattr(twin, name, rebind(part, replace, seen))
    elif type(value) in (list, tuple):
        seen[id(value)] = type(value)(rebind(item, replace, seen) for item in value)
    elif type(value) is dict:
        seen[id(value)] = {key: rebind(item, replace, seen) for key, item in value.items()}
    else:
        return value
    return seen[id(value)]
