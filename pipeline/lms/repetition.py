"""Answers that repeat themselves, which small LMs go on with until their limit: read as they come, and ended.

A request for a long answer asks for a stream; the reply is put together again, as if it had not been asked for in
parts. When the text only repeats itself, reading stops and the connection closes, at which servers stop, too. Counts of
tokens come with every part: vLLM's and SGLang's `continuous_usage_stats`, llama.cpp's `timings_per_token`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

SHORTEST_ANSWER = 256
"""Tokens: requests for shorter answers are left alone."""
_LONGEST_UNIT = 200
"""Characters, at most, of what is repeated; numbers count as equal, as names in programs do."""
_TIMES = 12
_LEAST = 240
"""How often it is repeated, and over how many characters: programs have a few equal lines, and indented ones."""
ADDED = ("stream", "timings_per_token")
"""What a request then has that a server may refuse, and names."""
_EVERY = 16
"""Parts of a stream between two looks at the text."""


def runs_away(text: str) -> bool:
    """Whether a text ends in the same again and again."""
    tail = re.sub(r"\d+", "0", text[-2 * _LONGEST_UNIT * _TIMES :])
    for unit in range(1, _LONGEST_UNIT + 1):
        times = max(_TIMES, -(-_LEAST // unit))
        if unit * times > len(tail):
            return False
        if tail.endswith(tail[-unit:] * times):
            return True
    return False


def streamed(body: bytes) -> bytes | None:
    """The body of a chat request as one for a stream; None for others, and for one that is better left alone."""
    with suppress(ValueError):
        content = json.loads(body)
        limit = content.get("max_tokens") or content.get("max_completion_tokens") or 0
        alone = {"stream", "tools", "logprobs"}.isdisjoint(content) and (content.get("n") or 1) == 1
        if alone and "messages" in content and limit >= SHORTEST_ANSWER:
            options = {"include_usage": True, "continuous_usage_stats": True}
            return json.dumps(content | {"stream": True, "stream_options": options, "timings_per_token": True}).encode()
    return None


@dataclass
class Reply:
    """A reply to a chat request, put together from the parts of a stream.

    Attributes:
        ended: Whether it was ended, as it repeated itself.
    """

    ended: bool = False
    _whole: dict[str, Any] = field(default_factory=dict)
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _finish: str | None = None

    def read(self, chunks: Iterable[bytes]) -> bytes:
        """The body of the reply; reads no further than to where the text repeats itself."""
        for number, part in enumerate(_parts(chunks), start=1):
            if "error" in part:
                return json.dumps(part).encode()
            self._add(part)
            if number % _EVERY == 0 and self._finish is None:
                self.ended = any(runs_away("".join(texts)) for texts in self._texts.values())
                if self.ended:
                    break
        return self._body()

    def _add(self, part: dict[str, Any]) -> None:
        self._whole |= {name: value for name, value in part.items() if name != "choices" and value is not None}
        for choice in part.get("choices") or ():
            self._finish = choice.get("finish_reason") or self._finish
            for name, text in (choice.get("delta") or {}).items():
                if isinstance(text, str) and name != "role":
                    self._texts.setdefault(name, []).append(text)

    def _body(self) -> bytes:
        message = {"role": "assistant", "content": "", **{name: "".join(texts) for name, texts in self._texts.items()}}
        finish = "stop" if self.ended else self._finish
        choice = {"index": 0, "message": message, "finish_reason": finish}
        whole = {**self._whole, "object": "chat.completion", "choices": [choice]}
        timings = whole.get("timings") or {}
        if "usage" not in whole and "predicted_n" in timings:
            cached, read, written = (int(timings.get(name, 0)) for name in ("cache_n", "prompt_n", "predicted_n"))
            details = {"prompt_tokens_details": {"cached_tokens": cached}}
            whole["usage"] = {"prompt_tokens": cached + read, "completion_tokens": written, **details}
        return json.dumps(whole).encode()


def _parts(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream of events."""
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            name, _, data = line.partition(b":")
            if name == b"data" and data.strip() != b"[DONE]":
                part = json.loads(data)
                if isinstance(part, dict):
                    yield part
