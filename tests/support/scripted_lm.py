"""An LM that answers by script."""

from collections.abc import Callable
from typing import Any

import dspy
from dspy import lm15

ONE = lm15.Usage(input_tokens=1, output_tokens=1)


def respond(request: lm15.Request, text: str, usage: lm15.Usage) -> lm15.Response:
    """What an engine returns."""
    message = lm15.Message.assistant(text)
    return lm15.Response(id="1", model=request.model, message=message, finish_reason="stop", usage=usage)


class Engine:
    """Gives each request's answer by a function of it, or the same to all, and keeps the requests."""

    def __init__(self, answer: str | Callable[[lm15.Request], str], usage: lm15.Usage = ONE) -> None:
        self.answer, self.usage = answer, usage
        self.requests: list[lm15.Request] = []

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.requests.append(request)
        text = self.answer if isinstance(self.answer, str) else self.answer(request)
        return respond(request, text, self.usage)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Engine":
        return self

    @property
    def texts(self) -> list[str]:
        """All that the LM was told, a text a request."""
        return ["\n".join([str(r.system), *(m.text or "" for m in r.messages)]) for r in self.requests]


def scripted(answer: str | Callable[[lm15.Request], str]) -> tuple[dspy.LM, Engine]:
    """An LM, and the engine behind it."""
    engine = Engine(answer)
    return dspy.LM("scripted", engine=engine, cache=False), engine
