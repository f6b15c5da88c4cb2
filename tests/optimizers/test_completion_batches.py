"""Several samples from one request: who asks, who takes which completion, and who asks alone."""

from typing import Any

import pytest
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMServerError

from optimizers.completion_batches import BatchMember, CompletionBatches

ALONE = ["alone"]


class Server:
    """Answers a request for `n` with as many completions, or raises."""

    def __init__(self, *given: str, error: Exception | None = None) -> None:
        self.given, self.error, self.asked = given, error, []  # type: ignore[var-annotated]

    def __call__(self, **settings: Any) -> list[str]:
        self.asked.append(settings.get("n"))
        if not settings:
            return ALONE
        if self.error is not None:
            raise self.error
        return list(self.given)


def members(batches: CompletionBatches, places: tuple[int, ...] = (0, 1, 2)) -> list[BatchMember]:
    joined = [batches.join("key", places, place, {"n": len(places)}) for place in places]
    return [member for member in joined if member is not None]


def test_each_sample_takes_the_completion_of_its_place_from_one_request() -> None:
    """Whatever the others' order; only its first request is shared."""
    server, (first, second, third) = Server("x", "y", "z"), members(CompletionBatches(3))
    assert [first(server, "p", {}), third(server, "p", {}), second(server, "p", {})] == [["x"], ["z"], ["y"]]
    assert server.asked == [3]
    assert first(server, "p", {}) == ALONE and server.asked == [3, None]


def test_a_sample_whose_request_differs_asks_alone() -> None:
    """And so does one whose completion the server left out."""
    server, (first, second, third) = Server("x", "y"), members(CompletionBatches(3))
    assert first(server, "p", {}) == ["x"]
    assert second(server, "other", {}) == ALONE and third(server, "p", {}) == ALONE
    assert server.asked == [3, None, None]


def test_a_refusal_ends_batching_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Everybody asks alone, and nobody joins a batch any more."""
    batches = CompletionBatches(3)
    server = Server(error=LMInvalidRequestError(model="m", message="only 1"))
    assert [member(server, "p", {}) for member in members(batches)] == [ALONE] * 3
    assert batches.join("key", (0, 1), 0, {"n": 2}) is None
    batches.refuse(ValueError())
    assert len(caplog.records) == 1 and "does not accept n=3" in caplog.text


@pytest.mark.parametrize("kind", [LMServerError, ContextWindowExceededError])
def test_a_failure_of_the_one_request_is_that_of_every_member(kind: Any) -> None:
    """It says nothing about batches, so that later ones are made."""
    batches = CompletionBatches(2)
    server = Server(error=kind(model="m", message="down"))
    for member in members(batches, (0, 1)):
        with pytest.raises(kind):
            member(server, "p", {})
    assert server.asked == [2] and batches.join("next", (0, 1), 0, {"n": 2}) is not None


def test_a_leader_that_makes_no_request_leaves_the_others_to_ask_alone() -> None:
    """A batch whose members are all done is dropped."""
    batches, server = CompletionBatches(2), Server("x", "y")
    first, second = members(batches, (0, 1))
    first.leave()
    assert second(server, "p", {}) == ALONE
    second.leave()
    assert batches._batches == {}


def test_a_single_sample_is_not_batched() -> None:
    """There is nobody to share with."""
    assert CompletionBatches(4).join("key", (3,), 3, {"n": 1}) is None
