"""A draft's outlook is worse the more it leaves for which there is no use."""

from __future__ import annotations

from pipeline.lms.embedded.strong.outlook import Outlook
from step_runtime.base.types import StreamType
from tests.support.beams import VIEW

TABLE = VIEW.table
X, LOW, HIGH = TABLE.inputs
EVERY = frozenset(VIEW.fns)
FIRST = frozenset(fn for fn in VIEW.fns if fn.label == "fn_first")
PAIR = TABLE.intern(StreamType(next(iter(FIRST)).input, TABLE.types[X].shape))


def outlook() -> Outlook:
    return Outlook(VIEW, VIEW.callees)


def test_what_an_output_needs_must_be_left() -> None:
    """A draft whose unused streams lack a dim of the outputs has a worse outlook."""
    assert outlook().score([X, LOW], EVERY) > outlook().score([HIGH, LOW], EVERY)


def test_functions_left_count_and_so_do_their_missing_tuples() -> None:
    """What takes a pair needs one, or a function that gives it."""
    one = outlook()
    assert one.score([PAIR], FIRST) > one.score([PAIR], EVERY)
    assert one.score([X], frozenset()) > one.score([PAIR], frozenset())


def test_dims_are_bits_with_the_factors_of_products() -> None:
    """A product of two dims holds both."""
    one = outlook()
    m, n = TABLE.types[X].shape
    assert one.parts((m * n,)) == one.parts((m, n)) == one.held(X)
