"""The tokens of a request, as the provider reports them; an impossible report is repaired or estimated.

Invariants: a report never discards an answer; each dimension is judged alone: a whole number that the text allows is
kept, and everything else is estimated from the text and labelled so; an LM's own `price` counts as spent.

An LM may have two attributes that DSPy does not know: `price`, a `Price`, and `count_tokens`, a function of a text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizers.ledger import TokenCount

MOST_COMPLETION = 1_000_000
"""Output tokens of one answer that can be true: more than any model writes."""


def estimate_tokens(text: str) -> int:
    """An estimate where no count is reported: three characters per token, about right for code, too high for prose."""
    return (len(text) + 2) // 3


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an LM, in dollars per million tokens.

    Attributes:
        prompt: Input tokens.
        completion: Output tokens.
        given: Whether it replaces the cost that DSPy computes, instead of being used where DSPy knows none.
    """

    prompt: float
    completion: float
    given: bool = False

    def of(self, prompt: int, completion: int) -> float:
        """The dollars for so many tokens."""
        return (prompt * self.prompt + completion * self.completion) / 1e6


class PaidUsages:
    """DSPy's usage tracker for a time: the usages of paid answers, which the `outer` tracker, if any, gets too."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer
        self.usages: list[Mapping[str, Any]] = []

    def add_usage(self, lm: str, usage: dict[str, Any]) -> None:
        """Takes the usage of an answer, as DSPy's usage trackers do."""
        self.usages.append(usage)
        if self.outer is not None:
            self.outer.add_usage(lm, usage)


class RequestMeter(PaidUsages):
    """Measures one request: DSPy's usage tracker while it lasts, together with the history entry of the answer.

    DSPy reports usage for exactly the paid answers, including those of failed calls; an answer without reported
    usage is from the response cache.

    Attributes:
        rejected: Whether the answer, although paid for, counts as none.
    """

    def __init__(self, lm: Any, outer: Any) -> None:
        super().__init__(outer)
        self.lm = lm
        self.entry: Mapping[str, Any] | None = None
        self.rejected = False

    def count(self) -> TokenCount:
        """The request's tokens and calls."""
        entry = self.entry
        if entry is None:
            counts = TokenCount.sum(reported(usage) for usage in self.usages)
            usd, unpriced = self._cost(None, counts, False)
            return counts + TokenCount(calls=max(1, len(self.usages)), failed=1, usd=usd, unpriced=unpriced)
        calls = len(responses(entry["response"]))  # n completions, requested one by one
        answered = TokenCount(calls=calls, truncated=_truncated(entry["response"]), failed=calls * self.rejected)
        prompt, output = prompt_text(entry), _output_text(entry)
        if not self.usages:
            return answered + self._cached(entry, calls)
        # DSPy sums the usage of completions that it requests one by one.
        counts = TokenCount.sum(_checked(usage, self._count, [prompt] * calls, output) for usage in self.usages)
        usd, unpriced = self._cost(entry["cost"], counts, bool(counts.estimated))
        return answered + counts + TokenCount(usd=usd, unpriced=calls * unpriced)

    @property
    def _count(self) -> Callable[[str], int]:
        return getattr(self.lm, "count_tokens", None) or estimate_tokens

    def _cached(self, entry: Mapping[str, Any], calls: int) -> TokenCount:
        """Tokens of an answer from the response cache, as it keeps them, else estimated."""
        found = stored(entry, self._count)
        measured = {"measured_tokens": found.measured_tokens, "measured_chars": found.measured_chars}
        return TokenCount(cache_hits=calls, cached_prompt=found.prompt, cached_completion=found.completion, **measured)

    def _cost(self, reported: float | None, counts: TokenCount, estimated: bool) -> tuple[float, int]:
        """Dollars, and 1 if they are not known."""
        price: Price | None = getattr(self.lm, "price", None)
        if price is not None and (price.given or reported is None or estimated):
            return price.of(counts.prompt, counts.completion), 0
        return (0.0, int(counts.total > 0 or self.entry is not None)) if reported is None else (reported, 0)


def whole(value: Any) -> int | None:
    """A reported count as a whole number from 0 up; None if it is not one. Some servers send texts or floats."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return int(number) if math.isfinite(number) and number >= 0 else None


def stored(entry: Mapping[str, Any], count: Callable[[str], int] = estimate_tokens) -> TokenCount:
    """Tokens of an answer from the response cache, as its usage has them, else estimated by `count`.

    `entry` is the answer's in DSPy's history.
    """
    prompt, output = prompt_text(entry), _output_text(entry)
    usages = (_part(response, "usage") or {} for response in responses(entry["response"]))
    return TokenCount.sum(_checked(usage, count, [prompt], output) for usage in usages)


def reported(usage: Mapping[str, Any]) -> TokenCount:
    """Prompt, completion and provider-cached tokens; the names differ between the chat and responses APIs."""
    details = _part(usage, "prompt_tokens_details") or _part(usage, "input_tokens_details") or {}
    prompt = whole(_part(usage, "prompt_tokens")) or whole(_part(usage, "input_tokens")) or 0
    completion = whole(_part(usage, "completion_tokens")) or whole(_part(usage, "output_tokens")) or 0
    cached = min(whole(_part(details, "cached_tokens")) or 0, prompt)
    return TokenCount(prompt=prompt, completion=completion, provider_cached=cached)


def _checked(usage: Mapping[str, Any], count: Callable[[str], int], prompts: Sequence[str], output: str) -> TokenCount:
    """The reported tokens of an answer; a dimension that the texts do not allow is estimated."""
    found = reported(usage)
    prompt, completion, cached = found.prompt, found.completion, found.provider_cached
    estimated = chars = 0
    length = sum(map(len, prompts))
    if (prompt == 0) == (length == 0) and prompt <= 8 * length + 10_000:
        chars = length
    else:
        prompt, cached = sum(map(count, prompts)), 0
        estimated += prompt
    # Reasoning is part of the output and not of the text, but a text takes tokens.
    if completion > MOST_COMPLETION or (completion == 0 and output):
        completion = count(output)
        estimated += completion
    measured = {"measured_tokens": prompt, "measured_chars": chars} if chars else {}
    return TokenCount(prompt=prompt, completion=completion, provider_cached=cached, estimated=estimated, **measured)


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
    return content if isinstance(content, str) else parts_text(content or ())


def parts_text(parts: Iterable[Any]) -> str:
    """The texts of a message's parts together."""
    return "".join(MEDIUM if _part(part, "type") in MEDIA else str(_part(part, "text") or "") for part in parts)


def _output_text(entry: Mapping[str, Any]) -> str:
    outputs = entry["outputs"]
    texts = [output.get("text") if isinstance(output, Mapping) else output for output in outputs]
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
