"""LMs that record their tokens: `metered` copies of the LMs that a program uses, made for one sample.

Invariants: a metered LM answers as its original would with the sample's settings; every request it makes is recorded
for the predictor that made it, whether it is answered, fails, is retried or is served by the cache; transient failures
are retried as often as by the original, and nowhere else; a request that waits for its retry occupies no slot; no
request lasts beyond the run's deadline; every call of a sample has a seed of its own, the same in every run; the
original and the program are not changed, but for the last requests in the original's history.

A metered LM is its original's class with a mixin, not a wrapper: DSPy accepts an adapter's messages without a warning
only for the very LM object that the adapter calls, and reads and writes that object's `kwargs`, engine and
capabilities. Callbacks do not see the price or the cache, and cannot retry.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.lm15 import Request
from dspy.utils.exceptions import LMError, LMProviderError, is_retryable_lm_error

from optimizers.call_seeds import CallSeeds
from optimizers.context_window import as_too_long, request_characters
from optimizers.deadline import Deadline
from optimizers.errors import NoAnswerError
from optimizers.ledger import Ledger, TokenCount
from optimizers.usage import RequestMeter, no_answer

OTHER = "other"
"""The name for requests that no predictor of the program made."""

LONGEST_WAIT = 120.0
"""Seconds that a provider may ask to wait; a request that must wait longer fails at once."""

_jitter = random.Random()


class Around(Protocol):
    """Wraps every request of a metered LM."""

    def __call__(self, ask: Callable[..., Any], request: Any, defaults: Mapping[str, Any]) -> Any:
        """The LM's answer.

        Args:
            ask: Makes the request, retries included; keyword arguments override its settings.
            request: Its positional and keyword arguments.
            defaults: The LM's own settings.
        """


class RequestSlots(threading.Semaphore):
    """Requests that may be in flight at a time, over all LMs that share it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> RequestSlots:
        return self


Books = tuple[tuple[Ledger, Callable[[Sequence[Any]], str]], ...]
"""Where requests are recorded, each with the map from the running modules to a name."""


class _Metered:
    """What a metered LM adds to the class it is mixed into."""

    _books: Books = ()
    _retries: int
    _engine_spec: Any
    _slots: RequestSlots | None
    _around: Around | None
    _recent: RecentHistory
    _seeds: CallSeeds | None
    _deadline: Deadline | None
    kwargs: dict[str, Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        ask = functools.partial(self._ask, args, {**kwargs, **self._own_seed(args, kwargs)})
        return self._around(ask, (args, kwargs), self.kwargs) if self._around else ask()

    def _ask(self, args: Any, kwargs: Any, **settings: Any) -> Any:
        settings = {**kwargs, **settings}
        request = functools.partial(super().__call__, *args, **settings)  # type: ignore[misc]
        with self._many_completions() if (settings.get("n") or 1) > 1 else nullcontext():
            for attempt in count():
                try:
                    with self._slots or nullcontext(), self._booked() as meter:
                        return _accepted(self._deadline.run(request) if self._deadline else request(), meter)
                except LMError as error:
                    delay = self._delay(as_too_long(error, request_characters(args, settings)), attempt)
                    time.sleep(self._deadline.shortened(delay) if self._deadline else delay)

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        settings = {**kwargs, **self._own_seed(args, kwargs)}
        request = functools.partial(super().acall, *args, **settings)  # type: ignore[misc]
        for attempt in count():
            try:
                with self._booked() as meter:
                    return _accepted(await (self._deadline.arun(request) if self._deadline else request()), meter)
            except LMError as error:
                delay = self._delay(as_too_long(error, request_characters(args, settings)), attempt)
                await asyncio.sleep(self._deadline.shortened(delay) if self._deadline else delay)

    def _own_seed(self, args: Any, kwargs: Mapping[str, Any]) -> dict[str, int]:
        """The seed of a call; none if it has one already, or is explicit about all its settings."""
        explicit = "seed" in kwargs or "request" in kwargs or (args and isinstance(args[0], Request))
        return {"seed": self._seeds.next((args, kwargs))} if self._seeds and not explicit else {}

    @contextmanager
    def _many_completions(self) -> Iterator[None]:
        """DSPy's native client makes n requests for n completions, where LiteLLM makes one."""
        engine = self._engine_spec
        self._engine_spec = "litellm" if isinstance(engine, str) else engine
        try:
            yield
        finally:
            self._engine_spec = engine

    def _delay(self, error: Exception, attempt: int) -> float:
        """Seconds before the next attempt; raises `error` if there is none."""
        if attempt >= self._retries or not is_transient(error) or (retry_after(error) or 0) > LONGEST_WAIT:
            raise error
        self._book(TokenCount(retried=1))
        return _wait(error, attempt)

    def update_history(self, entry: Mapping[str, Any]) -> None:
        """Passes the entry to the meter, and to the original's history, which keeps the last ones."""
        dspy.settings.usage_tracker.entry = entry
        self._recent.add(entry)

    @contextmanager
    def _booked(self) -> Iterator[RequestMeter]:
        meter = RequestMeter(self, dspy.settings.usage_tracker)
        try:
            with dspy.context(usage_tracker=meter, disable_history=False):
                yield meter
        finally:
            self._book(meter.count())

    def _book(self, tokens: TokenCount) -> None:
        for ledger, predictor in self._books:
            ledger.add(predictor(dspy.settings.caller_modules or []), tokens)


def _accepted(answer: Any, meter: RequestMeter) -> Any:
    """The answer; raises `NoAnswerError` if it is paid for, and none."""
    if meter.entry is not None and (reason := no_answer(meter.entry["response"])):
        meter.rejected = True
        raise NoAnswerError(f"no answer: {reason}")
    return answer


def is_transient(error: Exception) -> bool:
    """Whether the same request may be answered later.

    This includes a reply with status 200 that is truncated or a gateway's page: DSPy raises a plain `LMProviderError`.
    """
    return is_retryable_lm_error(error) or (type(error) is LMProviderError and getattr(error, "status", None) == 200)


def retry_after(error: BaseException | None) -> float | None:
    """Seconds that the provider asks to wait; None if unspecified. LiteLLM has them in its errors' causes."""
    while error is not None:
        own = getattr(error, "retry_after", None)
        headers = getattr(getattr(error, "response", None), "headers", None)
        for value in (own, headers.get("retry-after") if headers else None):
            if value is not None and (seconds := finite_seconds(value)) is not None:
                return seconds
        error = error.__cause__ or error.__context__
    return None


def finite_seconds(value: Any) -> float | None:
    """A value as a finite, non-negative number of seconds; None if it is not one."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < float("inf") else None


def _wait(error: Exception, attempt: int) -> float:
    """Seconds before the next attempt: as the provider asks, else doubling; with jitter, to spread requests."""
    requested = retry_after(error)
    return requested + _jitter.uniform(0.0, 1.0) if requested is not None else 2.0**attempt * _jitter.uniform(0.5, 1.0)


def mix_in(instance: Any, mixin: type) -> Any:
    """`instance`, its class replaced by one of its name that `mixin` goes before; its attributes stay."""
    if not isinstance(instance, mixin):
        instance.__class__ = _mixed_class(mixin, instance.__class__)
    return instance


@functools.cache
def _mixed_class(mixin: type, cls: type) -> type:
    return type(cls.__name__, (mixin, cls), {})


def predictor_names(program: dspy.Module) -> dict[Any, str]:
    """The names of a program's predictors, by `id`, and by what their copies keep, where no two share it.

    Those that DSPy teaches nothing are among them: of a compiled part, and in lists within lists.
    """
    named = program.named_predictors()
    known = {id(predictor) for _, predictor in named}
    parts = [(name, each) for name, each in program.named_sub_modules(dspy.Predict) if id(each) not in known]
    named += [(name.removeprefix("self."), each) for name, each in parts if "candidate_programs" not in name]
    kept = Counter(mark for _, predictor in named for mark in _kept_by_copies(predictor))
    alone = {mark: name for name, predictor in named for mark in _kept_by_copies(predictor) if kept[mark] == 1}
    return alone | {id(predictor): name for name, predictor in named}


def _kept_by_copies(predictor: dspy.Predict) -> tuple[Any, ...]:
    """The random name that DSPy gives each predictor, and its signature."""
    return predictor.stage, id(predictor.signature)


def name_of(module: Any, names: Mapping[Any, str]) -> str | None:
    """The name of a predictor, or of one that it is a copy of, such as `dspy.BestOfN` makes for every attempt."""
    marks = (id(module), *(_kept_by_copies(module) if isinstance(module, dspy.Predict) else ()))
    return next((names[mark] for mark in marks if mark in names), None)


def innermost_predictor(callers: Sequence[Any], names: Mapping[Any, str]) -> str:
    """The name of the innermost running module that has one."""
    return next((name for module in reversed(callers) if (name := name_of(module, names))), OTHER)


def metered(
    lm: Any,
    ledger: Ledger,
    predictor: Callable[[Sequence[Any]], str],
    slots: RequestSlots | None = None,
    around: Around | None = None,
    seeds: CallSeeds | None = None,
    deadline: Deadline | None = None,
    **config: Any,
) -> Any:
    """A copy of `lm` with `config` as its settings that records its requests in `ledger`.

    Args:
        lm: The LM.
        ledger: Records the requests.
        predictor: Maps the running modules, the outermost first, to the predictor that made a request.
        slots: Held by a request while it is in flight; None: no limit.
        around: Wraps every request, such as the sample's membership in a batch of completions.
        seeds: The seeds of the sample's calls, which all its LMs share; None: those of the settings.
        deadline: When requests end, answered or not; None: never.
        config: Settings of the copy.
    """
    twin = lm.copy(num_retries=0, **config)
    if not isinstance(lm, _Metered):
        mix_in(twin, _Metered)._retries = getattr(lm, "num_retries", 0)
        twin._recent = RecentHistory(lm)
    twin._books = ((ledger, predictor), *twin._books)  # a run within a run is paid by both
    twin._slots, twin._around, twin._seeds, twin._deadline = slots, around, seeds, deadline
    return twin


def held_lms(program: dspy.Module) -> list[Any]:
    """The LMs that predictors of the program are bound to, or that its modules hold."""
    found: list[Any] = []
    replace_lms(program, found.append)
    return found


def metered_adapter(meter: Callable[[Any], Any]) -> Any:
    """The adapter in use, or a copy whose own LMs are metered, such as the extraction model of `TwoStepAdapter`."""
    adapter = dspy.settings.adapter
    own = {name: lm for name, lm in vars(adapter).items() if isinstance(lm, dspy.BaseLM)} if adapter else {}
    if not own:
        return adapter
    twin = copy.copy(adapter)
    vars(twin).update({name: meter(lm) for name, lm in own.items()})
    return twin


def replace_lms(value: Any, replace: Callable[[Any], Any], seen: dict[int, Any] | None = None) -> Any:
    """A copy of a program in which every LM is replaced by what `replace` returns for it.

    Only modules, and the lists, tuples and dicts in them, are copied; everything else is shared.
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
                setattr(twin, name, replace_lms(part, replace, seen))
    elif type(value) in (list, tuple):
        seen[id(value)] = type(value)(replace_lms(item, replace, seen) for item in value)
    elif type(value) is dict:
        seen[id(value)] = {key: replace_lms(item, replace, seen) for key, item in value.items()}
    else:
        return value
    return seen[id(value)]


KEPT = 100
"""Entries that a history keeps of the requests through copies of its LM."""

_lock = threading.Lock()
_global: deque[Any] = deque()
_of_lms: WeakKeyDictionary[Any, deque[Any]] = WeakKeyDictionary()


class RecentHistory:
    """Keeps the last requests of copies of an LM in its history, and in DSPy's global one."""

    def __init__(self, lm: dspy.BaseLM) -> None:
        self._lm = lm
        self._most = 0 if dspy.settings.disable_history else min(KEPT, dspy.settings.max_history_size)

    def __deepcopy__(self, memo: dict[int, Any]) -> RecentHistory:
        return self  # copies of a copy count too

    def add(self, entry: Mapping[str, Any]) -> None:
        """Adds an entry, and removes the oldest one added here if they are too many."""
        if not self._most:
            return
        with _lock:
            for own, history in ((_global, GLOBAL_HISTORY), (_of_lms.setdefault(self._lm, deque()), self._lm.history)):
                own.append(entry)
                history.append(entry)
                while len(own) > self._most:
                    oldest = own.popleft()
                    if (place := next((at for at, each in enumerate(history) if each is oldest), None)) is not None:
                        del history[place]  # users clear histories
