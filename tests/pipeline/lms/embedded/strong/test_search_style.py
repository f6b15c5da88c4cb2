"""Styles of beam searches differ in how much they consider of what."""

from __future__ import annotations

from pipeline.lms.embedded.strong.search_style import ANY, SearchStyle


def test_a_choosy_search_considers_more_for_each_function() -> None:
    """More choices of operands."""
    choosy = SearchStyle(choosy=True)
    assert all(more > fewer for more, fewer in zip(choosy.operands, ANY.operands, strict=True))
    assert choosy.drafts == ANY.drafts


def test_a_search_that_applies_functions_once_continues_more_drafts() -> None:
    """As each of them leaves less to be done."""
    once = SearchStyle(once=True).drafts
    assert once.fewest > ANY.drafts.fewest and once.most > ANY.drafts.most and once.grows < ANY.drafts.grows
