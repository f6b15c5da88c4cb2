"""Outputs are bound to streams that can become them, and no stream is left over."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.strong.output_binding import OutputBinder
from pipeline.lms.embedded.task_view import TaskView
from tests.support.samples import general

TABLE = TaskView(general()).table
SUM, SQUARE = TABLE.inputs[3], TABLE.inputs[0]


def bound(streams: list[int], uses: list[int], seed: int = 0) -> Draft | None:
    draft = Draft.start(TABLE.inputs)
    draft.streams += streams
    draft.uses = uses
    return draft if OutputBinder(TABLE, draft, None, SeededChoice(seed, 1.0)).bind() else None


def test_streams_of_the_outputs_types_are_the_results() -> None:
    """In the order of the outputs, whatever the order they were made in."""
    for streams, results in (([SUM, SQUARE], (4, 5)), ([SQUARE, SUM], (5, 4))):
        draft = bound(streams, [1, 1, 1, 1, 0, 0])
        assert draft is not None and draft.results == results
        assert not any(coercion.ops for coercion in draft.output_coercions)


def test_a_draft_with_more_streams_left_over_than_outputs_is_refused() -> None:
    """Something that was computed would be for nothing."""
    assert bound([SUM, SQUARE, SUM], [1, 1, 1, 1, 0, 0, 0]) is None


def test_a_stream_that_can_be_no_output_is_refused() -> None:
    """An index is never one here."""
    assert bound([SUM], [1, 1, 0, 1, 0]) is None


def test_without_an_interpretation_nothing_counts_as_read() -> None:
    """Types alone decide."""
    draft = bound([SUM, SQUARE], [1, 1, 1, 1, 0, 0])
    assert draft is not None and not draft.read
