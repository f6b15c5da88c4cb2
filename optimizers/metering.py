"""LMs that book what they do: `metered` copies of the LMs a program uses, made for one sample.

Invariants: a metered LM answers as its original would with the sample's settings; every request it makes is
booked on the predictor that asked, be it answered, failed, retried or served by the cache; transient failures
are retried as often as the original would, and by nobody else; a request that waits to be repeated holds nobody
up; the original, its history and the program are left alone.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import dspy
from dspy.utils.exceptions import LMError, LMProviderError, is_retryable_lm_error

from optimizers.batching import Share
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
        told = {"calls": calls, "truncated": _truncated(response)}
        if self.usages:
            return TokenCount(**told, usd=cost or 0.0, unpriced=calls * (cost is None), **paid)
        prompt, completion = _stored_usage(self.entry)
        return TokenCount(**told, cache_hits=calls, cached_prompt=prompt, cached_completion=completion)


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
    usages = [_part(response, "usage") for response in _responses(entry["response"])]
    prompt = sum(_part(usage, "input_tokens") or _part(usage, "prompt_tokens") or 0 for usage in usages)
    completion = sum(_part(usage, "output_tokens") or _part(usage, "completion_tokens") or 0 for usage in usages)
    if prompt or completion:
        return prompt, completion
    texts = [str(message.get("content")) for message in entry["messages"] or ()] or [str(entry["prompt"])]
    return sum(map(estimate_tokens, texts)), sum(estimate_tokens(str(output)) for output in entry["outputs"])


def _truncated(response: Any) -> int:
    """Completions that ended at the bound of tokens."""
    ends = [end for each in _responses(response) for end in _part(each, "choices") or [each]]
    return sum(_part(end, "finish_reason") == "length" for end in ends)


def _responses(response: Any) -> Sequence[Any]:
    return response if isinstance(response, tuple) else (response,)


def _part(value: Any, name: str) -> Any:
    """What DSPy's own responses have as an attribute, and those of the cache by key."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


class Slots(threading.Semaphore):
    """Requests that may be under way at a time, over all LMs that hold it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Slots:
        return self


class _Metered:
    """What a metered LM does around the class it is mixed into."""

    _ledger: Ledger
    _name: Callable[[Sequence[Any]], str]
    _retries: int
    _engine_spec: Any
    _slots: Slots | None
    _share: Share | None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._share is None:
            return self._ask(args, kwargs)
        alone, together = (lambda: self._ask(args, kwargs)), (lambda how: self._ask_together(how, args, kwargs))
        return self._share.take((args, kwargs), alone, together)

    def _ask(self, args: Any, kwargs: Any) -> Any:
        for attempt in count():
            try:
                with self._slots or nullcontext(), self._booked():
                    return super().__call__(*args, **kwargs)  # type: ignore[misc]
            except LMError as error:
                if not self._try_again(error, attempt):
                    raise
                time.sleep(_wait(error, attempt))

    def _ask_together(self, settings: Mapping[str, Any], args: Any, kwargs: Any) -> Any:
        # DSPy's native client asks n times, where LiteLLM asks once for n. A copy would do, were it not that DSPy
        # takes messages from its adapters in peace only for the very LM that they were given.
        engine = self._engine_spec
        self._engine_spec = "litellm" if isinstance(engine, str) else engine
        try:
            return self._ask(args, {**kwargs, **settings})
        finally:
            self._engine_spec = engine

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        for attempt in count():
            try:
                with self._booked():
                    return await super().acall(*args, **kwargs)  # type: ignore[misc]
            except LMError as error:
                if not self._try_again(error, attempt):
                    raise
                await asyncio.sleep(_wait(error, attempt))

    def _try_again(self, error: LMError, attempt: int) -> bool:
        return attempt < self._retries and is_transient(error) and (retry_after(error) or 0) <= LONGEST_WAIT

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


def is_transient(error: Exception) -> bool:
    """Whether the same request may well be answered a little later.

    A reply with status 200 that is cut off, or a gateway's page, is: DSPy calls it a provider's error of no kind.
    """
    return is_retryable_lm_error(error) or (type(error) is LMProviderError and getattr(error, "status", None) == 200)


def retry_after(error: BaseException | None) -> float | None:
    """Seconds that the provider asks to wait; None if it does not say. LiteLLM leaves them in its errors' causes."""
    while error is not None:
        told = getattr(error, "retry_after", None)
        headers = getattr(getattr(error, "response", None), "headers", None)
        for value in (told, headers.get("retry-after") if headers else None):
            if value is not None and (seconds := finite_seconds(value)) is not None:
                return seconds
        error = error.__cause__ or error.__context__
    return None


def finite_seconds(value: Any) -> float | None:
    """The number that a value gives, if it is one to wait for."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _wait(error: LMError, attempt: int) -> float:
    """Seconds before the next try: what the provider asks for, else twice as long each time; never all at once."""
    asked = retry_after(error)
    return asked + _jitter.uniform(0.0, 1.0) if asked is not None else 2.0**attempt * _jitter.uniform(0.5, 1.0)


@functools.cache
def _metered_class(cls: Any) -> Any:
    return type(f"Metered{cls.__name__}", (_Metered, cls), {})


def predictor_names(program: dspy.Module) -> dict[int, str]:
    """The names of a program's predictors, by `id`."""
    return {id(predictor): name for name, predictor in program.named_predictors()}


def innermost(callers: Sequence[Any], names: Mapping[int, str]) -> str:
    """The name of the innermost of the modules at work that has one."""
    return next((names[id(module)] for module in reversed(callers) if id(module) in names), OTHER)


def metered(
    lm: Any,
    ledger: Ledger,
    name: Callable[[Sequence[Any]], str],
    slots: Slots | None = None,
    share: Share | None = None,
    **config: Any,
) -> Any:
    """A copy of `lm` with `config` as its settings that books on `ledger`.

    Args:
        lm: The LM.
        ledger: What is booked on.
        name: Of the modules at work, the outermost first: which predictor a request is booked on.
        slots: Held by a request while it is under way; None: as many at a time as ask.
        share: In a batch, whose request is the first that this sample makes.
        config: Settings of the copy.
    """
    twin = lm.copy(num_retries=0, **config)
    if not isinstance(lm, _Metered):
        twin.__class__ = _metered_class(lm.__class__)
        twin._retries = getattr(lm, "num_retries", 0)
    twin._ledger, twin._name = ledger, name
    twin._slots, twin._share = slots, share
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
