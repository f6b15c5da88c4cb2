"""The LMs of one sample: copies of those that a program uses, which seed, repeat and count their requests.

Invariants: a copy answers as its original would with the sample's settings; every request is counted for the predictor
that made it; transient failures are retried as often as by the original, and nowhere else; no request lasts beyond the
run's deadline; every call of a sample has a seed of its own, the same in every run; the original and the program are
not changed, but for the last requests in the original's history.

A copy is of a subclass of its original's class: DSPy accepts an adapter's messages without a warning only for the very
LM object that the adapter calls, and has no hook that seeds or repeats a request. What is counted, `Meter` counts, a
callback of the copy's.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import functools
import hashlib
import json
import logging
import queue
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Protocol

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMConfigurationError,
    LMError,
    LMInvalidRequestError,
    LMProviderError,
    LMUnsupportedFeatureError,
    is_retryable_lm_error,
)

from optimizers.errors import NoAnswerError
from optimizers.ledger import Ledger, Meter, Request, TokenCount, no_answer

# --- which temperatures an LM takes -----------------------------------------------------------------------------------
# Invariant: a request carries the sample's temperature, unless its LM is known to refuse it or the user has set another
# temperature on that predictor's LM.

logger = logging.getLogger(__name__)

ONLY = 1.0
"""The temperature of models that take one only."""


@cache
def takes_one(model: str) -> bool:
    """Whether DSPy knows a model by this name to refuse every temperature but `ONLY`."""
    try:
        dspy.LM(model, temperature=0.5)
    except LMConfigurationError:
        return True
    except (TypeError, ValueError):
        return False
    return False


def fixed(lm: Any) -> bool:
    """Whether the LM takes `ONLY` alone: by its name, or as its settings have it think before it answers."""
    if not isinstance(lm, dspy.LM):
        return False
    thinking = getattr(lm, "kwargs", {}).get("thinking")
    return takes_one(lm.model) or (isinstance(thinking, dict) and thinking.get("type") not in (None, "disabled"))


def temperature_of(lm: Any, sampled: float, own: bool) -> float:
    """The temperature of an LM's requests in a sample at `sampled`; `own` says that predictors hold the LM."""
    if fixed(lm):
        return ONLY
    set_by_user = _own(lm) if own else None
    return sampled if set_by_user is None else set_by_user


def _own(lm: Any) -> float | None:
    """The temperature that is set on an LM."""
    temperature = getattr(lm, "kwargs", {}).get("temperature")
    return None if temperature is None else float(temperature)


def taken(program: dspy.Module, temperatures: Sequence[float]) -> tuple[float, ...]:
    """The temperatures at which samples of a program differ: those given, or `ONLY` if no LM takes another.

    Says so in a warning, also if every predictor has an LM with a temperature of its own.
    """
    lms = [predictor.lm or dspy.settings.lm for predictor in program.predictors()] or [dspy.settings.lm]
    free = [lm for lm in lms if lm is dspy.settings.lm or _own(lm) is None]
    given = ", ".join(f"{temperature:g}" for temperature in temperatures)
    if not free and not all(map(fixed, lms)):
        own = ", ".join(sorted({f"{_own(lm):g}" for lm in lms}))
        logger.warning("every LM of the program has a temperature of its own (%s): %s change nothing", own, given)
        return tuple(temperatures)
    if all(map(fixed, free or lms)) and tuple(temperatures) != (ONLY,):
        models = ", ".join(sorted({lm.model for lm in free or lms}))
        logger.warning("%s takes no temperature but %g: samples are drawn at it, not at %s", models, ONLY, given)
        return (ONLY,)
    return tuple(temperatures)


def refused(error: BaseException | None) -> bool:
    """Whether an LM's error says that it takes no such temperature."""
    kinds = (LMInvalidRequestError, LMUnsupportedFeatureError, LMConfigurationError)
    return isinstance(error, kinds) and "temperature" in str(error).lower()


# --- the LMs of a sample ----------------------------------------------------------------------------------------------

LONGEST_WAIT = 120.0
"""Seconds that a provider may ask to wait; a request that must wait longer fails at once."""

KEPT = 100
"""Entries to which requests through copies of an LM fill its history, and DSPy's: those of a run are very many."""

_history = threading.Lock()

_jitter = random.Random()
Name = Callable[[Sequence[Any]], str]


def derive_seed(*parts: Any) -> int:
    """A seed in [0, 2**31), the range that every provider accepts: a hash of the parts' JSON."""
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


class Seeds(Protocol):
    """The seeds of requests; copies of an LM share them."""

    def next(self, request: Any, settings: Mapping[str, Any], explicit: bool) -> int:
        """The seed of the next request, unless that is `explicit` about it.

        `request` has its positional and keyword arguments, `settings` those of its LM.
        """

    def answered(self, error: LMError | None = None) -> None:
        """The request has its answer, or fails for good."""


class CallSeeds:
    """The seeds of the calls of one sample, from its own; made in the thread that runs the sample.

    Calls of the sample's own thread are numbered in their order, those of other threads among the equal requests of
    these threads, which are interchangeable: so no seed depends on timing. A repeated sample starts over.
    """

    def __init__(self, seed: int) -> None:
        self._seed, self._thread, self._lock = seed, threading.get_ident(), threading.Lock()
        self._calls, self._elsewhere = 0, Counter[str]()

    def __deepcopy__(self, memo: dict[int, Any]) -> CallSeeds:
        return self

    def next(self, request: Any, settings: Any = None, explicit: bool = False) -> int:
        """See `Seeds`; the first call has the sample's own seed."""
        if explicit:
            return self._seed
        if threading.get_ident() == self._thread:
            number, self._calls = self._calls, self._calls + 1
            return derive_seed("call", self._seed, number) if number else self._seed
        text = json.dumps(request, default=str, sort_keys=True)
        with self._lock:
            self._elsewhere[text] += 1
            return derive_seed("call", self._seed, text, self._elsewhere[text])

    def answered(self, error: LMError | None = None) -> None:
        """See `Seeds`."""


class DeadlineReached(LMError):
    """The run's time is over before a request is answered."""

    def __init__(self) -> None:
        super().__init__("the run's time was over before the LM answered")


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a run's time, in the seconds of `time.monotonic`.

    A request that would last longer is left to a thread of its own, whose answer, if it still comes, goes to DSPy's
    response cache and not to the record: a server that sends a byte a minute does not postpone the end.
    """

    at: float

    @property
    def left(self) -> float:
        """Seconds until then; negative afterwards."""
        return self.at - time.monotonic()

    def run(self, call: Callable[[], Any]) -> Any:
        """The call's result; `DeadlineReached` if it is not there in time."""
        self._check()
        results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                results.put((context.run(call), None))
            except BaseException as error:  # raised in the thread that waits
                results.put((None, error))

        threading.Thread(target=work, name="request", daemon=True).start()
        try:
            result, error = results.get(timeout=max(0.0, self.left))
        except queue.Empty:
            raise DeadlineReached from None
        if error is not None:
            raise error
        return result

    async def arun(self, call: Callable[[], Any]) -> Any:
        """As `run`, for a coroutine."""
        self._check()
        try:
            return await asyncio.wait_for(call(), max(0.0, self.left))
        except TimeoutError:
            raise DeadlineReached from None

    def _check(self) -> None:
        if self.left <= 0:
            raise DeadlineReached


class Batch:
    """The completions of one request that several samples make together, in one thread, one after another.

    Only the first request of a sample is shared, and only with samples whose request is identical. A sample asks alone
    for what a server omits or refuses to give.

    Args:
        settings: Those of the request for all, `n` among them.
        refuse: Called when the server accepts no such request.
    """

    def __init__(self, settings: Mapping[str, Any], refuse: Callable[[Exception], None]) -> None:
        self._settings, self._refuse = settings, refuse
        self._text, self._completions = "", list[Any]()
        self._failure: Exception | None = None
        self._place = self._used = -1

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        return self

    def begin(self, place: int) -> None:
        """The sample at a place of the batch starts."""
        self._place = place

    def take(self, request: Any, ask: Callable[..., Any]) -> Any:
        """The sample's completion of a request; None if it is to ask alone."""
        if self._used == self._place:
            return None
        self._used, text = self._place, json.dumps(request, default=str, sort_keys=True)
        if not self._text:
            self._text = text
            try:
                self._completions = list(ask(**self._settings))
            except LMError as error:
                refused = isinstance(error, LMInvalidRequestError | LMUnsupportedFeatureError)
                if refused and not isinstance(error, ContextWindowExceededError):
                    self._refuse(error)
                else:
                    self._failure = error
        if self._failure is not None:
            raise self._failure
        return [self._completions[self._place]] if text == self._text and self._place < len(self._completions) else None


class _Sampled:
    """What a sample's LM adds to the class of its original."""

    _retries: int
    _original: dspy.BaseLM
    _kept: int
    _seeds: Seeds | None
    _deadline: Deadline | None
    _batch: Batch | None
    _engine_spec: Any
    callbacks: list[Any]
    kwargs: dict[str, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = self._seeded(args, kwargs)
        if self._batch is not None:
            shared = self._batch.take((args, kwargs), functools.partial(self._repeated, args, {**kwargs, **own}))
            if shared is not None:
                return shared
        answers = [self._repeated(args, each) for each in self._single(args, {**kwargs, **own})]
        return answers[0] if len(answers) == 1 else [output for answer in answers for output in answer]

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        own = self._seeded(args, kwargs)
        answers = [await self._arepeated(args, each) for each in self._single(args, {**kwargs, **own})]
        return answers[0] if len(answers) == 1 else [output for answer in answers for output in answer]

    def _seeded(self, args: Any, kwargs: Mapping[str, Any]) -> dict[str, int]:
        """The seed of a call; none if it has one already, or is explicit about all its settings."""
        if self._seeds is None:
            return {}
        explicit = "seed" in kwargs or "request" in kwargs or bool(args and isinstance(args[0], dspy.lm15.Request))
        seed = self._seeds.next((args, kwargs), self.kwargs, explicit)
        return {} if explicit else {"seed": seed}

    def _single(self, args: Any, kwargs: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The requests of a call for n completions: of an engine of one's own, n with a seed each."""
        n = kwargs.get("n", self.kwargs.get("n")) or 1
        yield {**kwargs, "n": None} if n > 1 and not self._batches else kwargs
        for number in range(1, n if not self._batches else 1):
            seed = kwargs.get("seed", self.kwargs.get("seed"))
            yield {**kwargs, "n": None, **({} if seed is None else {"seed": derive_seed("completion", seed, number)})}

    @property
    def _batches(self) -> bool:
        """Whether one request gives several completions: by LiteLLM, where DSPy's native client makes n requests."""
        return isinstance(getattr(self, "_engine_spec", None), str)

    @contextmanager
    def _engine_for(self, n: int) -> Iterator[None]:
        engine = self._engine_spec if n > 1 and self._batches else None
        if engine:
            self._engine_spec = "litellm"
        try:
            yield
        finally:
            if engine:
                self._engine_spec = engine

    def _repeated(self, args: Any, kwargs: dict[str, Any], **settings: Any) -> Any:
        kwargs = {**kwargs, **settings}
        request = functools.partial(super().__call__, *args, **kwargs)  # type: ignore[misc]
        for attempt in count():
            try:
                with dspy.context(disable_history=False), self._engine_for(kwargs.get("n") or 1):
                    return self._done(self._deadline.run(request) if self._deadline else request())
            except LMError as error:
                time.sleep(self._delay(error, attempt))

    async def _arepeated(self, args: Any, kwargs: dict[str, Any]) -> Any:
        request = functools.partial(super().acall, *args, **kwargs)  # type: ignore[misc]
        for attempt in count():
            try:
                with dspy.context(disable_history=False):
                    return self._done(await (self._deadline.arun(request) if self._deadline else request()))
            except LMError as error:
                await asyncio.sleep(self._delay(error, attempt))

    def _done(self, answer: Any) -> Any:
        if self._seeds:
            self._seeds.answered()
        return answer

    def _delay(self, failure: LMError, attempt: int) -> float:
        """Seconds before the next attempt; raises the failure if there is none."""
        error = as_too_long(failure)
        if isinstance(error, DeadlineReached):
            self._count(TokenCount(calls=1, failed=1))
        if attempt >= self._retries or not is_transient(error) or (retry_after(error) or 0) > LONGEST_WAIT:
            if self._seeds:
                self._seeds.answered(error)
            raise error
        self._count(TokenCount(retried=1))
        delay = _wait(error, attempt)
        return max(0.0, min(delay, self._deadline.left)) if self._deadline else delay

    def _count(self, tokens: TokenCount) -> None:
        for meter in self.callbacks:
            if isinstance(meter, Meter):
                meter.add(tokens)

    def update_history(self, entry: Mapping[str, Any]) -> None:
        """Passes the entry to the meters, and to the original's history, which keeps the last ones."""
        running = dspy.settings.usage_tracker
        if isinstance(running, Request):
            running.history.append(entry)
        with _history:
            for history in (GLOBAL_HISTORY, self._original.history) if self._kept else ():
                own = [place for place, each in enumerate(history) if "sampled" in each]
                if len(own) >= self._kept:
                    del history[own[0]]  # what the user asks stays
                history.append({**entry, "sampled": True})
        if reason := no_answer(entry["response"]):
            raise NoAnswerError(f"no answer: {reason}")


@functools.cache
def _extended_class(mixin: type, cls: type) -> type:
    return type(cls.__name__, (mixin, cls), {})


def extended(instance: Any, mixin: type) -> Any:
    """A copy of an object, of a subclass of its class of the same name that has `mixin` before it."""
    own: Any = type(instance)
    cls: Any = own if isinstance(instance, mixin) else _extended_class(mixin, own)
    twin = cls.__new__(cls)
    vars(twin).update(vars(instance))
    return twin


def sampled(
    lm: Any,
    ledger: Ledger,
    name: Name,
    *,
    seeds: Seeds | None = None,
    deadline: Deadline | None = None,
    batch: Batch | None = None,
    **config: Any,
) -> Any:
    """A copy of `lm` with `config` as its settings, whose requests are counted in `ledger`.

    Args:
        lm: The LM.
        ledger: Counts the requests.
        name: Maps the running modules, the outermost first, to the predictor that made a request.
        seeds: The seeds of the sample's calls, which all its LMs share; None: those of the settings.
        deadline: When requests end, answered or not; None: never.
        batch: The batch that the sample belongs to.
        config: Settings of the copy.
    """
    twin = extended(lm.copy(num_retries=0, **config), _Sampled)
    if not isinstance(lm, _Sampled):  # a run within a run: both count
        kept = 0 if dspy.settings.disable_history else min(KEPT, dspy.settings.max_history_size)
        twin._retries, twin._original, twin._kept = getattr(lm, "num_retries", 0), lm, kept
    twin.callbacks = [*twin.callbacks, Meter(ledger, name)]
    twin._seeds, twin._deadline, twin._batch = seeds, deadline, batch
    return twin


_TOO_LONG = re.compile(
    r"context_length|exceed_context|n_ctx|max_model_len|context[ _-](?:length|size|window|limit)"
    r"|too many (?:input |prompt )?tokens|reduce (?:the|your) (?:length|prompt|input|messages)"
    r"|(?:prompt|input|request|messages?|sequence|conversation)s?\b.{0,60}\b(?:too long|too large|longer than|exceed)"
    r"|inputs?\b.{0,60}\bmust (?:be <=|have less than)",
    re.IGNORECASE | re.DOTALL,
)


def as_too_long(error: LMError) -> LMError:
    """The error, as DSPy's own class if it says that the prompt is too long: servers of one's own say it in words."""
    status = getattr(error, "status", None)
    refused = isinstance(error, LMInvalidRequestError) or (isinstance(error, LMProviderError) and status in (413, 500))
    text = f"{getattr(error, 'provider_code', '') or ''} {error}"
    if isinstance(error, ContextWindowExceededError) or not refused or not _TOO_LONG.search(text):
        return error
    known = {name: getattr(error, name, None) for name in ("model", "provider", "provider_code", "status")}
    found = ContextWindowExceededError(message=getattr(error, "message", str(error)), **known)
    found.__cause__ = error
    return found


def is_transient(error: Exception) -> bool:
    """Whether the same request may be answered later.

    This includes a reply with status 200 that is truncated or a gateway's page: DSPy raises a plain `LMProviderError`.
    """
    return is_retryable_lm_error(error) or (type(error) is LMProviderError and getattr(error, "status", None) == 200)


def retry_after(error: BaseException | None) -> float | None:
    """Seconds that the provider asks to wait; None if unspecified. LiteLLM has them in its errors' causes."""
    while error is not None:
        headers = getattr(getattr(error, "response", None), "headers", None)
        for value in (getattr(error, "retry_after", None), headers.get("retry-after") if headers else None):
            try:
                seconds = float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                continue
            if 0 <= seconds < float("inf"):
                return seconds
        error = error.__cause__ or error.__context__
    return None


def _wait(error: Exception, attempt: int) -> float:
    """Seconds before the next attempt: as the provider asks, else doubling; with jitter, to spread requests."""
    requested = retry_after(error)
    return requested + _jitter.uniform(0.0, 1.0) if requested is not None else 2.0**attempt * _jitter.uniform(0.5, 1.0)


def sampled_adapter(replace: Callable[[Any], Any]) -> Any:
    """The adapter in use, or a copy whose own LMs are replaced, such as the extraction model of `TwoStepAdapter`."""
    adapter = dspy.settings.adapter
    own = {name: lm for name, lm in vars(adapter).items() if isinstance(lm, dspy.BaseLM)} if adapter else {}
    if not own:
        return adapter
    twin = copy.copy(adapter)
    vars(twin).update({name: replace(lm) for name, lm in own.items()})
    return twin
