"""Several samples from one request: the first sample of a batch asks for n completions, one for each sample.

Invariants: a batch is the samples of one task and temperature with neighbouring indices; a sample's completion is the
one at its place in the batch, regardless of threads; only the first request of a sample is shared, and only with
samples whose request is identical; each sample requests alone the answers that a server omits or refuses to batch.

Hand-written, as DSPy's `n` gives all completions to one prediction, whereas each sample here has its own seed, verdict
and place in the record.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMUnsupportedFeatureError

logger = logging.getLogger(__name__)


class CompletionBatches:
    """The batches of an iteration, each of at most `size` samples."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._accepted = True
        self._lock = threading.Lock()
        self._batches: dict[Hashable, CompletionBatch] = {}

    def join(
        self, key: Hashable, members: Sequence[int], place: int, settings: Mapping[str, Any]
    ) -> BatchMember | None:
        """A sample's membership in a batch; None if it is not batched.

        Args:
            key: Identifies the batch.
            members: The places in it that make requests, ascending; the first requests for all.
            place: The sample's.
            settings: Settings of the request for all, `n` among them.
        """
        if settings["n"] < 2 or not self._accepted:
            return None
        with self._lock:
            batch = self._batches.setdefault(key, CompletionBatch(self, len(members)))
        return BatchMember(batch, place, settings, leads=place == members[0])

    def discard(self, batch: CompletionBatch) -> None:
        """Drops a batch once all its members are done."""
        with self._lock:
            self._batches = {key: kept for key, kept in self._batches.items() if kept is not batch}

    def refuse(self, error: Exception) -> None:
        """Ends batching: the provider does not accept `n`."""
        with self._lock:
            known, self._accepted = not self._accepted, False
        if not known:
            logger.warning("the LM does not accept n=%d; every sample now makes its own request: %s", self.size, error)


class CompletionBatch:
    """The one request of several samples, and its completions."""

    def __init__(self, batches: CompletionBatches, members: int) -> None:
        self.batches = batches
        self.answer: Future[tuple[str, list[Any]]] = Future()
        self._left = members
        self._lock = threading.Lock()

    def leave(self) -> None:
        """Marks one member as done."""
        with self._lock:
            self._left -= 1
        if not self._left:
            self.batches.discard(self)


class BatchMember:
    """One sample's membership in a batch, used only by the sample's thread; goes around its LM's requests."""

    def __init__(self, batch: CompletionBatch, place: int, settings: Mapping[str, Any], leads: bool) -> None:
        self._batch, self._place, self._settings, self._leads = batch, place, settings, leads
        self._used = False

    def __deepcopy__(self, memo: dict[int, Any]) -> BatchMember:
        return self  # a module that deep-copies its LM still has one membership

    def __call__(self, ask: Callable[..., Any], request: Any, defaults: Mapping[str, Any]) -> Any:
        """The sample's completions of a request: one if it is from the batch. See `metering.Around`.

        Raises:
            LMError: The one request for all failed.
        """
        if self._used:
            return ask()
        self._used = True
        text = json.dumps(request, default=str, sort_keys=True)
        requested, completions = self._lead(text, ask) if self._leads else self._batch.answer.result()
        if requested == text and self._place < len(completions):
            return [completions[self._place]]
        return ask()

    def _lead(self, text: str, ask: Callable[..., Any]) -> tuple[str, list[Any]]:
        answer: tuple[str, list[Any]] = text, []
        try:
            answer = text, list(ask(**self._settings))
        except ContextWindowExceededError as error:
            self._batch.answer.set_exception(error)
            raise
        except (LMInvalidRequestError, LMUnsupportedFeatureError) as error:
            self._batch.batches.refuse(error)
        except BaseException as error:
            self._batch.answer.set_exception(error)
            raise
        self._batch.answer.set_result(answer)
        return answer

    def leave(self) -> None:
        """Marks the sample as done; if it made no request, the others make their own."""
        if self._leads and not self._batch.answer.done():
            self._batch.answer.set_result(("", []))
        self._batch.leave()
