"""The cost of LM calls, per named predictor.

Invariants: every call is counted once, also if it fails; tokens paid for and tokens of answers from DSPy's cache
never share a column; counts only grow; adding is safe from several threads.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import dspy
from dspy.utils.callback import BaseCallback
from pydantic import Field

Whole = Annotated[int, Field(ge=0, le=10**15)]
"""A count, as it can be in a record."""


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens and calls of one predictor; counts can be added.

    Attributes:
        calls: Requests made: answered, failed, retried and answered by the cache.
        failed: Those of `calls` that the LM did not answer.
        cache_hits: Those of `calls` that DSPy's response cache answered.
        prompt: Input tokens of the calls that reached the LM.
        completion: Output tokens of the calls that reached the LM.
        cached_prompt: Input tokens of answers from the response cache, which cost nothing.
        cached_completion: Output tokens of answers from the response cache.
        provider_cached: Those tokens of `prompt` that the provider read from its own prompt cache, at a lower price.
        provider_written: Those tokens of `prompt` that the provider wrote to that cache, at a price of their own.
        usd: Dollars, over the calls with a known price.
        unpriced: Answered calls without a known price.
        truncated: Completions truncated at the token limit.
        estimated: Those tokens of `prompt` and `completion` that are estimates, as the LM reported none or absurd ones.
        short: Tokens by which the LM's counts of `prompt` and `completion` fall below what their texts can take.
        retried: Those of `failed` after which the request was made again.
    """

    calls: Whole = 0
    failed: Whole = 0
    cache_hits: Whole = 0
    prompt: Whole = 0
    completion: Whole = 0
    cached_prompt: Whole = 0
    cached_completion: Whole = 0
    provider_cached: Whole = 0
    usd: Annotated[float, Field(ge=0)] = 0.0
    unpriced: Whole = 0
    truncated: Whole = 0
    estimated: Whole = 0
    retried: Whole = 0
    short: Whole = 0
    provider_written: Whole = 0

    @property
    def cached(self) -> int:
        """Input and output tokens of answers from the response cache."""
        return self.cached_prompt + self.cached_completion

    @property
    def total(self) -> int:
        """Input and output tokens paid for."""
        return self.prompt + self.completion

    @property
    def budgeted(self) -> int:
        """The tokens that budgets count: those paid for, and at least one for 16 characters."""
        return self.total + self.short

    @property
    def input(self) -> int:
        """Input tokens of all answers, from the LM or from the cache."""
        return self.prompt + self.cached_prompt

    @property
    def cost(self) -> float | None:
        """Dollars, or None if no call had a known price."""
        return None if self.unpriced and not self.usd else self.usd

    def __add__(self, other: TokenCount) -> TokenCount:
        return TokenCount(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))

    def to_dict(self) -> dict[str, int | float]:
        """The columns that are not zero."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name))}

    __jsonable__ = to_dict

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TokenCount:
        """The count that `to_dict` wrote."""
        return cls(**data)

    @classmethod
    def sum(cls, counts: Iterable[TokenCount]) -> TokenCount:
        """The sum of `counts`."""
        total = cls()
        for count in counts:
            total += count
        return total


class Ledger:
    """Counts per predictor name, of one sample or of a whole run."""

    def __init__(self) -> None:
        self._counts: dict[str, TokenCount] = {}
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        return self  # a module that deep-copies its LM still books here

    def add(self, name: str, count: TokenCount) -> None:
        """Adds `count` to predictor `name`."""
        with self._lock:
            self._counts[name] = self._counts.get(name, TokenCount()) + count

    def merge(self, counts: Mapping[str, TokenCount]) -> None:
        """Adds the counts of another ledger."""
        for name, count in counts.items():
            self.add(name, count)

    @property
    def counts(self) -> dict[str, TokenCount]:
        """The counts so far, by predictor name, sorted."""
        with self._lock:
            return dict(sorted(self._counts.items()))

    @property
    def total(self) -> TokenCount:
        """All predictors together."""
        return TokenCount.sum(self.counts.values())


# --- metering: what requests cost -------------------------------------------------------------------------------------
# Invariants: a report never discards an answer; each dimension is judged alone: a whole number that the text allows is
# kept, and everything else is estimated from the text and labelled so; what a server reports below what its texts can
# take counts in `short`, which budgets add; an LM's own `price` counts as spent.
#
# An LM may have an attribute that DSPy does not know: `price`, a `Price`.

MOST_COMPLETION = 1_000_000
"""Output tokens of one answer that can be true: more than any model writes."""

LONGEST_TOKEN = 16
"""Characters of a token, at most on average: a text of 1,600 has 100 tokens or more."""


def estimate_tokens(text: str) -> int:
    """An estimate where no count is reported: three characters per token, about right for code, too high for prose."""
    return (len(text) + 2) // 3


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an LM, in dollars per million tokens.

    Attributes:
        prompt: Input tokens.
        completion: Output tokens.
        cached: Input tokens that the provider reads from its prompt cache; None for those of `prompt`.
        written: Input tokens that the provider writes to that cache; None likewise.
        given: Whether it replaces the cost that DSPy computes, instead of being used where DSPy knows none.
    """

    prompt: float
    completion: float
    cached: float | None = None
    written: float | None = None
    given: bool = field(default=False, kw_only=True)

    def of(self, count: TokenCount) -> float:
        """The dollars for the tokens that were paid for."""
        read, wrote = count.provider_cached, count.provider_written
        cached, written = (self.prompt if rate is None else rate for rate in (self.cached, self.written))
        fresh = (count.prompt - read - wrote) * self.prompt
        return (fresh + read * cached + wrote * written + count.completion * self.completion) / 1e6


class Request:
    """One request to an LM while it lasts: DSPy's usage tracker, and a caller to whose history the answer is added.

    DSPy reports usage for exactly the paid answers, including those of failed calls; an answer without reported
    usage is from the response cache.
    """

    def __init__(self, call_id: str, lm: Any, inputs: Mapping[str, Any]) -> None:
        self.call_id, self.lm = call_id, lm
        self.outer = dspy.settings.usage_tracker
        self.usages: list[Mapping[str, Any]] = []
        self.history: list[Mapping[str, Any]] = []
        self._asked = inputs
        self._context: AbstractContextManager[Any] = dspy.context(
            usage_tracker=self, caller_modules=[*(dspy.settings.caller_modules or []), self]
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> Request:
        return self  # DSPy copies trackers for its threads

    def add_usage(self, lm: str, usage: dict[str, Any]) -> None:
        """Takes the usage of a paid answer; the tracker outside, if any, gets it too."""
        self.usages.append(usage)
        if self.outer is not None:
            self.outer.add_usage(lm, usage)

    def start(self) -> None:
        """From here on DSPy reports to this."""
        self._context.__enter__()

    def end(self) -> None:
        """Until here."""
        self._context.__exit__(None, None, None)

    def count(self, outputs: Any) -> TokenCount:
        """The tokens and calls, given the answer, or None if there is none."""
        entry = self.history[-1] if self.history else None
        if entry is None and outputs is not None:  # the user has switched histories off
            prompt = self._asked.get("prompt")
            asked = {"prompt": None if isinstance(prompt, dspy.lm15.Request) else prompt}
            asked["messages"] = self._asked.get("messages")
            entry = {**asked, "response": None, "outputs": outputs if isinstance(outputs, list) else [], "cost": None}
        if entry is None:
            counts = TokenCount.sum(reported(usage) for usage in self.usages)
            usd, unpriced = self._cost(None, counts, counts.total > 0)
            return counts + TokenCount(calls=max(1, len(self.usages)), failed=1, usd=usd, unpriced=unpriced)
        calls = len(responses(entry["response"]))  # n completions, requested one by one
        failed = calls if no_answer(entry["response"]) else 0
        answered = TokenCount(calls=calls, truncated=_truncated(entry["response"]), failed=failed)
        prompt, output = prompt_text(entry), _output_text(entry)
        if not self.usages:
            usages = (_part(response, "usage") or {} for response in responses(entry["response"]))
            found = TokenCount.sum(_checked(usage, [prompt], output) for usage in usages)
            return answered + TokenCount(
                cache_hits=calls, cached_prompt=found.prompt, cached_completion=found.completion
            )
        # DSPy sums the usage of completions that it requests one by one.
        counts = TokenCount.sum(_checked(usage, [prompt] * calls, output) for usage in self.usages)
        usd, unpriced = self._cost(entry["cost"], counts, True)
        return answered + counts + TokenCount(usd=usd, unpriced=calls * unpriced)

    def _cost(self, known: float | None, counts: TokenCount, spent: bool) -> tuple[float, int]:
        """Dollars, and 1 if they are not known."""
        price: Price | None = getattr(self.lm, "price", None)
        if price is not None and (price.given or known is None or counts.estimated):
            return price.of(counts), 0
        return (0.0, int(spent)) if known is None else (known, 0)


class Meter(BaseCallback):
    """Counts requests in a ledger, each under the name that the running modules, the outermost first, are mapped to.

    As a callback of an LM it counts that LM's requests, and its copies'; among DSPy's settings those of every LM. A
    request that several meters hear of is measured once.
    """

    def __init__(self, ledger: Ledger, name: Callable[[Sequence[Any]], str]) -> None:
        self._ledger, self._name = ledger, name
        self._open: dict[str, tuple[Request, bool]] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Meter:
        return self  # a module that deep-copies its LM still spends from the same purse

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Starts to measure."""
        running = dspy.settings.usage_tracker
        if isinstance(running, Request) and running.call_id == call_id:
            self._open[call_id] = running, False
            return
        request = Request(call_id, instance, inputs)
        request.start()
        self._open[call_id] = request, True

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Adds what was measured."""
        request, own = self._open.pop(call_id)
        if own:
            request.end()
        self.add(request.count(outputs))

    def add(self, count: TokenCount) -> None:
        """Adds to the ledger under the name of the running modules."""
        self._ledger.add(self._name(dspy.settings.caller_modules or []), count)


@contextmanager
def metered_all(ledger: Ledger, name: str) -> Iterator[None]:
    """Counts the requests within the context, of any LM, under a name: those of a metric, such as a judge's."""
    with dspy.context(callbacks=[*(dspy.settings.callbacks or []), Meter(ledger, lambda callers: name)]):
        yield


def whole(value: Any) -> int | None:
    """A reported count as a whole number from 0 up; None if it is not one. Some servers send texts or floats."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return int(number) if math.isfinite(number) and number >= 0 else None


def reported(usage: Mapping[str, Any]) -> TokenCount:
    """Prompt, completion, and tokens of the provider's cache; names differ between the chat and responses APIs."""
    details = _part(usage, "prompt_tokens_details") or _part(usage, "input_tokens_details") or {}
    prompt = whole(_part(usage, "prompt_tokens")) or whole(_part(usage, "input_tokens")) or 0
    completion = whole(_part(usage, "completion_tokens")) or whole(_part(usage, "output_tokens")) or 0
    cached = min(whole(_part(details, "cached_tokens")) or 0, prompt)
    written = min(whole(_part(details, "cache_creation_tokens")) or 0, prompt - cached)
    return TokenCount(prompt=prompt, completion=completion, provider_cached=cached, provider_written=written)


def _checked(usage: Mapping[str, Any], prompts: Sequence[str], output: str) -> TokenCount:
    """The reported tokens of an answer; a dimension that the texts do not allow is estimated."""
    found = reported(usage)
    prompt, completion, estimated = found.prompt, found.completion, 0
    length = sum(map(len, prompts))
    if (prompt == 0) != (length == 0) or prompt > 8 * length + 10_000:
        found, prompt = TokenCount(), sum(map(estimate_tokens, prompts))
        estimated += prompt
    # Reasoning is part of the output and not of the text, but a text takes tokens.
    if completion > MOST_COMPLETION or (completion == 0 and output):
        completion = estimate_tokens(output)
        estimated += completion
    short = max(0, length // LONGEST_TOKEN - prompt) + max(0, len(output) // LONGEST_TOKEN - completion)
    return replace(found, prompt=prompt, completion=completion, estimated=estimated, short=short)


def prompt_text(entry: Mapping[str, Any]) -> str:
    """The text of a request, all messages together."""
    if entry["messages"]:
        return "".join(message_text(message) for message in entry["messages"])
    return str(entry["prompt"] or "")


MEDIA = frozenset(
    {"audio", "document", "file", "image", "image_url", "input_audio", "input_file", "input_image", "video"}
)
"""The types of parts of a message that are no text, in DSPy's and in OpenAI's requests."""

MEDIUM = "pic " * 1000
"""The text that a picture or a recording counts as, since its size is not known before the LM says it: about as many
tokens as OpenAI (765) and Anthropic (1,334) count for a picture of a megapixel."""


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message, also of a message in parts; pictures and the like count as `MEDIUM`."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(MEDIUM if _part(part, "type") in MEDIA else str(_part(part, "text") or "") for part in content or ())


def _output_text(entry: Mapping[str, Any]) -> str:
    texts = [output.get("text") if isinstance(output, Mapping) else output for output in entry["outputs"]]
    return "".join(str(text) for text in texts if text)


def no_answer(response: Any) -> str | None:
    """Why a response cannot be judged, or None: it has no choice, or the provider's filter withheld all."""
    reasons = []
    for each in responses(response):
        data = _part(each, "provider_data")
        choices = _part(data if isinstance(data, Mapping) else each, "choices")
        if isinstance(choices, list) and not choices:
            return "the reply has no choices"
        reasons += [_part(end, "finish_reason") for end in _part(each, "choices") or [each]]
    if reasons and all(reason == "content_filter" for reason in reasons):
        return "the provider's content filter withheld it (finish_reason content_filter)"
    return None


def _truncated(response: Any) -> int:
    """Number of completions truncated at the token limit."""
    ends = [end for each in responses(response) for end in _part(each, "choices") or [each]]
    return sum(_part(end, "finish_reason") == "length" for end in ends)


def responses(response: Any) -> Sequence[Any]:
    """The single responses of an answer."""
    return response if isinstance(response, tuple) else (response,)


def _part(value: Any, name: str) -> Any:
    """An attribute of DSPy's own responses, or a key of those from the cache."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
