"""A stream varies along the dims that it has not only been repeated along."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Move
from pipeline.lms.embedded.strong.variation import after, all_dims
from pipeline.lms.embedded.types.coercions import Coercion
from pipeline.lms.embedded.types.type_table import FoldSpec
from tests.support.beams import VIEW

AS_IS = Coercion((), 0.0)
X = VIEW.table.inputs[0]
FIRST = next(fn for fn in VIEW.fns if fn.label == "fn_first")


def test_a_fold_over_a_repeated_dim_is_counted() -> None:
    """A Scan varies along what it folds, an Accum does not."""
    dim = VIEW.table.types[X].shape[0]
    assert dim in all_dims(VIEW.table, X)
    for scan in (False, True):
        move = Move((FIRST,), (0,), (AS_IS,), X, FoldSpec(scan, 1, (dim,), placeholder=False))
        varying, constant = after(VIEW.table, move, [all_dims(VIEW.table, X)])
        assert (dim in varying) == scan and constant == 0
        assert after(VIEW.table, move, [all_dims(VIEW.table, X) - {dim}])[1] == 1
