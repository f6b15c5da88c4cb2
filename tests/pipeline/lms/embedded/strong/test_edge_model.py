"""The model of edges: what solutions show scores higher."""

from __future__ import annotations

from tests.support.renamed_tasks import SCANNED, demo, drafts, taught


def test_demonstrations_raise_the_score_of_what_they_show() -> None:
    """A program's score against another's grows with demonstrations of its kind, though all names differ."""
    plain, shown = taught((), ()), taught((), demo(SCANNED))
    by_kind = {
        any(node.op.name == "Scan" for node in p.nodes): (p, types, view.context) for p, types, view in drafts(plain)
    }
    gains = {kind: shown.edge_model.score(*found) - plain.edge_model.score(*found) for kind, found in by_kind.items()}
    assert gains[True] > gains[False]
