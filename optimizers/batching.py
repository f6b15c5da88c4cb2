"""Several samples from one request: the first of a batch asks for n completions, the others take theirs.

Invariants: a batch is the samples of one task and temperature with neighbouring indices; a sample's completion is that
of its place in the batch, whatever the threads do; only the first request of a sample is shared, and only with samples
whose request is the same to the byte; what a server leaves out, or refuses to batch, is asked for by each sample alone.
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


class Batches:
    """The batches of a run.

    Args:
        size: Samples in one, at most.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._taken = True
        self._lock = threading.Lock()
        self._batches: dict[Hashable, Batch] = {}

    def share(self, key: Hashable, members: Sequence[int], place: int, request: Mapping[str, Any]) -> Share | None:
        """A sample's share in a batch; None where nothing is batched.

        Args:
            key: Of the batch.
            members: The places in it that ask, ascending; the first asks for all.
            place: The sample's.
            request: How the request for all is set, `n` among it.
        """
        if request["n"] < 2 or not self._taken:
            return None
        with self._lock:
            batch = self._batches.setdefault(key, Batch(self, len(members)))
        return Share(batch, place, request, leads=place == members[0])

    def forget(self, batch: Batch) -> None:
        """Lets go of a batch that all members are done with."""
        with self._lock:
            self._batches = {key: kept for key, kept in self._batches.items() if kept is not batch}

    def refused(self, error: Exception) -> None:
        """Ends batching: the provider takes no `n`."""
        with self._lock:
            told, self._taken = not self._taken, False
        if not told:
            logger.warning(
                "the LM takes no n=%d, so that every sample is asked for alone from here on: %s", self.size, error
            )


class Batch:
    """The one request of several samples, and what came of it."""

    def __init__(self, batches: Batches, members: int) -> None:
        self.batches = batches
        self.answer: Future[tuple[str, list[Any]]] = Future()
        self._left = members
        self._lock = threading.Lock()

    def leave(self) -> None:
        """One member is done."""
        with self._lock:
            self._left -= 1
        if not self._left:
            self.batches.forget(self)


class Share:
    """One sample's part in a batch, used by the sample's thread alone."""

    def __init__(self, batch: Batch, place: int, request: Mapping[str, Any], leads: bool) -> None:
        self._batch, self._place, self._request, self._leads = batch, place, request, leads
        self._used = False

    def __deepcopy__(self, memo: dict[int, Any]) -> Share:
        return self  # a module that deep-copies its LM still has the one share

    def take(self, request: Any, alone: Callable[[], Any], together: Callable[[Mapping[str, Any]], Any]) -> Any:
        """The sample's completions of a request, one if it came in a batch.

        Args:
            request: What is asked, as JSON can hold it.
            alone: Asks for this sample.
            together: Asks with these settings, for all.

        Raises:
            LMError: The one request for all failed.
        """
        if self._used:
            return alone()
        self._used = True
        text = json.dumps(request, default=str, sort_keys=True)
        asked, completions = self._lead(text, together) if self._leads else self._batch.answer.result()
        if asked == text and self._place < len(completions):
            return [completions[self._place]]
        return alone()

    def _lead(self, text: str, together: Callable[[Mapping[str, Any]], Any]) -> tuple[str, list[Any]]:
        answer: tuple[str, list[Any]] = text, []
        try:
            answer = text, list(together(self._request))
        except ContextWindowExceededError as error:
            self._batch.answer.set_exception(error)
            raise
        except (LMInvalidRequestError, LMUnsupportedFeatureError) as error:
            self._batch.batches.refused(error)
        except BaseException as error:
            self._batch.answer.set_exception(error)
            raise
        self._batch.answer.set_result(answer)
        return answer

    def leave(self) -> None:
        """The sample is done; if it never asked, the others ask for themselves."""
        if self._leads and not self._batch.answer.done():
            self._batch.answer.set_result(("", []))
        self._batch.leave()
