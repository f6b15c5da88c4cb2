"""What a server does to some requests instead of answering them, and how servers refuse a prompt that is too long."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Fault:
    """What happens to some requests instead of an answer.

    Attributes:
        kind: `status`, an error of that status; `reset`, the connection breaks in the middle of the body; `refuse`, it
            breaks before anything is sent; `truncated`, whole HTTP with half of the JSON; `html`, a web page with
            status 200; `plain`, the right answer as text/plain; `empty`, no text; `null`, no content; `length`, half of
            the text, cut by `max_tokens`; `slow`, the right answer after so many seconds; `no_usage`, without usage;
            `usage`, with the usage that `usage` says; `no_choices`, an empty list of them; `filtered`, withheld by the
            provider's filter; `redirect`, to `location` with `status`; `drip`, a byte now and then, without end.
        status: of `status`.
        message: of `status`.
        code: of `status`: what the error is called, such as `invalid_api_key`.
        retry_after: of `status`: the header.
        usage: of `usage`: what is reported; what is counted is right.
        location: of `redirect`: the header.
        seconds: to wait, of every kind; a wait longer than the client's patience is a timeout.
        at: the numbers of the requests.
        start: from this number on.
        every: each so manieth.
        count: at most so many times.
        most: at most so many times of one and the same request.
        crowd: of `slow`: answered before its time once so many requests have been under way at a time.
        after: of `slow`: answered before its time once so many other answers have gone out.
    """

    kind: str
    status: int = 500
    message: str = "on fire"
    code: str | None = None
    retry_after: str | None = None
    usage: Any = None
    location: str = ""
    seconds: float = 0.0
    at: Sequence[int] = ()
    start: int = 0
    every: int = 0
    count: int = 0
    most: int = 0
    crowd: int = 0
    after: int = 0

    def strikes(self, number: int) -> bool:
        """Whether it is this request's turn, were `count` and `most` no bounds."""
        timed = number >= self.start > 0 and (not self.every or (number - self.start) % self.every == 0)
        return number in self.at or timed or (not self.start and self.every > 0 and number % self.every == 0)


def fault(kind: str, status: int = 500, **others: Any) -> Fault:
    """A `Fault`; one with no `at`, `start` or `every` strikes every request."""
    made = Fault(kind, status, **others)
    return made if made.at or made.start or made.every else replace(made, start=1)


def too_long(wording: str, context: int, prompt: int, answer: int) -> Fault:
    """The refusal of a request that does not fit the context, in the words of one server or another.

    Args:
        wording: `openai`, `vllm`, `llama.cpp`, `anthropic`, `tgi`, or `silent`, without a code or a number.
        context: the tokens that fit.
        prompt: those of the request.
        answer: those that it asks for.
    """
    asked = prompt + answer
    most = f"This model's maximum context length is {context} tokens"
    wordings = {
        "openai": f"{most}. However, you requested {asked} tokens ({prompt} in the messages, {answer} in the"
        " completion). Please reduce the length of the messages or completion.",
        "vllm": f"'max_tokens' or 'max_completion_tokens' is too large: {answer}. {most} and your request has {prompt}"
        f" input tokens ({answer} > {context} - {prompt}).",
        "llama.cpp": f"request ({asked} tokens) exceeds the available context size ({context} tokens),"
        " try increasing it",
        "anthropic": f"prompt is too long: {asked} tokens > {context} maximum",
        "tgi": f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {context}. Given: {prompt}"
        f" `inputs` tokens and {answer} `max_new_tokens`",
        "silent": "Input is too long for requested model.",
    }
    code = "context_length_exceeded" if wording == "openai" else None
    return Fault("status", 422 if wording == "tgi" else 400, wordings[wording], code)
