"""The engine that DSPy's LM class calls: a request in, a response out.

The answer's text is made in isolated workers, as it runs the task's code: in those of an executor within
`EmbeddedEngine.answering_in`, else in one of the engine's own.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from dspy.lm15 import Message, Request, Response, Usage, response_to_events

from optimizers.errors import SampleError, UnavailableError, one_line
from pipeline.base.errors import ClusterUnavailable
from pipeline.lms.embedded import CANDIDATES
from pipeline.lms.embedded.answering import EmbeddedRequest, answer, prepare_process, task_asked
from pipeline.verification.pool import PoolSettings

CHARACTERS_PER_TOKEN = 4
SAMPLING = PoolSettings(
    seconds=60.0,
    memory=2 * 2**30,
    initializer=prepare_process,
    preload=("step_runtime", "pipeline.lms.embedded.answering"),
    group=task_asked,
)
"""A first sample of a task takes seconds of one core at most, others milliseconds; the limit is for a busy machine."""


class EmbeddedEngine:
    """The offline proposer and guardian as an engine for `dspy.LM(engine.model, engine=engine)`.

    `candidates` are the streams that a sample may try between two landmarks of the task.

    A request with a seed always gets the same answer, in whichever process. A request without a seed gets the next of a
    fixed sequence of answers, so that several completions of one request differ. Safe to call from several threads.
    """

    supports_function_calling = False
    supports_reasoning = False
    supports_response_schema = False

    def __init__(self, candidates: int = CANDIDATES) -> None:
        self._candidates = candidates
        self._row = itertools.count()
        self._executor: Executor | None = None
        self._own: Executor | None = None
        self._starting = threading.Lock()

    @property
    def model(self) -> str:
        """The LM's name, with its dial: DSPy's cache knows models apart, but not engines."""
        return f"embedded/{self._candidates}"

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
            SampleError: The engine failed, or the worker that the answer was made in was lost.
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
        """Ends the engine's own worker, if it has one."""
        with self._starting:
            if self._own is not None:
                self._own.shutdown()
            self._own = None

    def __deepcopy__(self, memo: dict[int, Any]) -> EmbeddedEngine:
        """Copies of an LM share the engine, and with it its caches."""
        return self

    def _answer(self, asked: EmbeddedRequest) -> str:
        try:
            return self._workers().submit(answer, self._candidates, asked).result()
        except ClusterUnavailable as error:
            raise UnavailableError(str(error), model=self.model) from error
        except Exception as error:  # the sample's failure, whatever it is; the next request is answered as usual
            raise SampleError(f"the embedded LM failed: {one_line(error)}", model=self.model) from error

    def _workers(self) -> Executor:
        if self._executor is not None:
            return self._executor
        with self._starting:
            self._own = self._own or SAMPLING.start(1)
            return self._own


def estimate_tokens(characters: int) -> int:
    """The estimated number of tokens: there is no tokenizer."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def _text(system: Any) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    return "\n".join(getattr(part, "text", "") for part in system)
