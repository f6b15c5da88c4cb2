"""A scripted LM that answers programs of any kind in the format that their adapter asks for."""

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import dspy
from dspy import lm15

from tests.support.scripted_program import respond

Fields = Mapping[str, Any]
Answers = Callable[[str, int], Fields]
"""The output fields of an answer, from the last message's text and the number of requests with this text before."""

ADAPTERS: Mapping[str, Callable[[dspy.LM], Any]] = {
    "chat": lambda lm: dspy.ChatAdapter(),
    "json": lambda lm: dspy.JSONAdapter(),
    "xml": lambda lm: dspy.XMLAdapter(),
    "two-step": dspy.TwoStepAdapter,
}


class FormatEngine:
    """Answers by a function of the last message, in the format that the request describes; keeps the requests."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._asked: dict[Any, int] = {}
        self._said: dict[str, Fields] = {}
        self._lock = threading.Lock()
        self.requests: list[lm15.Request] = []

    def complete(self, request: lm15.Request) -> lm15.Response:
        *_, last = [message.text or "" for message in request.messages if message.role == "user"]
        system = request.system if isinstance(request.system, str) else str(request.system)
        with self._lock:
            self.requests.append(request)
            fields = self._extracted(last)
            if fields is None:
                number = self._asked.get(last, 0)
                self._asked[last] = number + 1
                fields = self._answers(last, number)
            text = _formatted(system, fields)
            self._said[text] = fields
        return respond(request, text, lm15.Usage(input_tokens=len(last), output_tokens=len(text)))

    def _extracted(self, last: str) -> Fields | None:
        """The fields of an own answer that the two-step adapter has parsed."""
        return next((fields for text, fields in self._said.items() if "[[ ## text ## ]]\n" + text in last), None)


def _formatted(system: str, fields: Fields) -> str:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()}
    if "[[ ## completed ## ]]" in system:
        return "".join(f"[[ ## {name} ## ]]\n{text}\n\n" for name, text in texts.items()) + "[[ ## completed ## ]]"
    if "<" + next(iter(texts)) + ">" in system:
        return "\n".join(f"<{name}>\n{text}\n</{name}>" for name, text in texts.items())
    if "JSON" in system:
        return json.dumps(dict(fields))
    return "\n".join(f"{name}: {text}" for name, text in texts.items())


def input_field(text: str, name: str) -> str:
    """The value of an input field in a user message of any adapter."""
    for pattern in (rf"\[\[ ## {name} ## \]\]\n(.*?)\s*(?:\n\n|\Z)", rf"<{name}>\n(.*?)\n</{name}>", rf"{name}: (.*)"):
        if found := re.search(pattern, text, re.DOTALL if "(.*?)" in pattern else 0):
            return found.group(1).strip()
    return ""
