"""The engine that DSPy's LM class calls: a request in, a response out.

The answer's text is made in this process or, within `EmbeddedEngine.answering_in`, in the processes of an executor.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from dspy.lm15 import Message, Request, Response, Usage, response_to_events

from optimizers.errors import SampleError, UnavailableError, one_line
from pipeline.base.errors import ClusterUnavailable
from pipeline.lms.embedded.answering import EmbeddedRequest, OfflineProposer, answer
from pipeline.lms.embedded.strong.strong_proposer import StrongProposer

CHARACTERS_PER_TOKEN = 4


class EmbeddedEngine:
    """The offline proposer and guardian as an engine for `dspy.LM(engine.model, engine=engine)`.

    A request with a seed always gets the same answer, in whichever process. A request without a seed gets the next of a
    fixed sequence of answers, so that several completions of one request differ. Safe to call from several threads.
    """

    supports_function_calling = False
    supports_reasoning = False
    supports_response_schema = False

    def __init__(self, proposer: OfflineProposer | None = None) -> None:
        self._proposer = proposer or StrongProposer()
        self._row = itertools.count()
        self._executor: Executor | None = None

    @property
    def model(self) -> str:
        """The LM's name, with its version: DSPy's cache knows models apart, but not engines."""
        return f"embedded/{self._proposer.name}"

    @contextmanager
    def answering_in(self, executor: Executor) -> Iterator[None]:
        """Within the context, answers are made by the executor's workers, as threads would share one core."""
        before, self._executor = self._executor, executor
        try:
            yield
        finally:
            self._executor = before

    def complete(self, request: Request) -> Response:
        """Answers one request; if it cannot interpret the request, the answer says so instead of raising.

        Raises:
            SampleError: The proposer failed, or the worker that it ran in was lost.
            UnavailableError: The cluster that it runs on is lost.
        """
        messages = tuple((message.role, message.text or "") for message in request.messages)
        system, config = _text(request.system), request.config
        seed = next(self._row) if config.seed is None else config.seed
        text = self._answer(EmbeddedRequest(system, messages, seed, config.temperature))
        sent = len(system) + sum(len(text) for _, text in messages)
        return Response(
            id=None,
            model=request.model,
            message=Message.assistant(text),
            finish_reason="stop",
            usage=Usage(input_tokens=estimate_tokens(sent), output_tokens=estimate_tokens(len(text))),
            provider_data={"usage": f"estimated: one token for every {CHARACTERS_PER_TOKEN} characters, rounded up"},
        )

    def stream(self, request: Request) -> Iterator[Any]:
        """The same answer as events."""
        yield from response_to_events(self.complete(request))

    def close(self) -> None:
        """Nothing is held."""

    def __deepcopy__(self, memo: dict[int, Any]) -> EmbeddedEngine:
        """Copies of an LM share the engine, and with it its caches."""
        return self

    def _answer(self, asked: EmbeddedRequest) -> str:
        executor = self._executor
        try:
            return (
                executor.submit(answer, self._proposer, asked).result() if executor else answer(self._proposer, asked)
            )
        except ClusterUnavailable as error:
            raise UnavailableError(str(error), model=self.model) from error
        except Exception as error:  # the sample's failure, whatever it is; the next request is answered as usual
            raise SampleError(f"the embedded LM failed: {one_line(error)}", model=self.model) from error


def estimate_tokens(characters: int) -> int:
    """The estimated number of tokens: there is no tokenizer."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def _text(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    return "\n".join(getattr(part, "text", "") for part in system)
