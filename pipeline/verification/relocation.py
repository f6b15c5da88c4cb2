"""A verdict on one text as the verdict on another that is the same program: its own words and places, or nothing.

See `step_runtime.language.identity` for when two texts are one program.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from step_runtime.base.errors import Span
from step_runtime.language.identity import KnownScopes, code_of, graphs
from step_runtime.program.limits import Limits
from step_runtime.verification.verify import Verdict

_NEEDS_A_RUN = ("run", "value", "cost")
"""Stages whose findings name neither variables nor lines; those of the others do."""
_OF_THE_TEXT = frozenset({"syntax", "length"})
"""Codes of findings that depend on the whole text, comments included."""


def relocated(verdict: Verdict, judged: str, text: str, scopes: KnownScopes | None) -> Verdict | None:
    """The verdict on `judged` as the one on `text`; None where it may be another.

    The names in scope at each set of sizes are None where they are not known.
    """
    if judged == text:
        return verdict
    return _by_code(verdict, judged, text) or (_by_graph(verdict, judged, text, scopes) if scopes else None)


def _by_code(verdict: Verdict, judged: str, text: str) -> Verdict | None:
    """For texts that differ in comments and empty lines alone."""
    here, there = code_of(judged), code_of(text)
    if here.text != there.text or max(len(judged), len(text)) > Limits().characters:
        return None
    if any(diagnostic.code in _OF_THE_TEXT for diagnostic in verdict.diagnostics):
        return None
    if verdict.stage not in (None, *_NEEDS_A_RUN) and here.lines != there.lines:
        return None  # such findings name lines
    lines = dict(zip(here.lines, there.lines, strict=True))
    places: dict[Span | None, Span | None] = {None: None}
    for diagnostic in verdict.diagnostics:
        span = diagnostic.span
        if span is not None and span.line in lines and span.end_line in lines:
            places[span] = replace(span, line=lines[span.line], end_line=lines[span.end_line])
    return _at(verdict, places)


def _by_graph(verdict: Verdict, judged: str, text: str, scopes: KnownScopes) -> Verdict | None:
    """For texts that give the same graphs, where the verdict is that it passes or was found by running it."""
    if not verdict.passed and verdict.stage not in _NEEDS_A_RUN:
        return None
    here, there = graphs(judged, scopes), graphs(text, scopes)
    if here is None or here != there:
        return None
    places: dict[Span | None, Span | None] = {None: None}
    if verdict.stage == "value":
        places[here[0].result_span] = there[0].result_span
    else:
        ambiguous = set()
        for one, other in zip(here, there, strict=True):
            for a, b in zip(one.nodes, other.nodes, strict=True):
                if places.setdefault(a.span, b.span) != b.span:
                    ambiguous.add(a.span)
        if verdict.stage == "cost":
            places.setdefault(here[0].result_span, there[0].result_span)
        for span in ambiguous - {None}:
            del places[span]
    return _at(verdict, places)


def _at(verdict: Verdict, places: Mapping[Span | None, Span | None]) -> Verdict | None:
    """The verdict with its places by the mapping; None if one is not in it."""
    if not all(diagnostic.span in places for diagnostic in verdict.diagnostics):
        return None
    moved = tuple(replace(diagnostic, span=places[diagnostic.span]) for diagnostic in verdict.diagnostics)
    return replace(verdict, diagnostics=moved)
