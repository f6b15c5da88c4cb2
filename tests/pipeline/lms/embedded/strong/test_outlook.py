"""A draft's outlook is worse the more it leaves for which there is no use."""

from __future__ import annotations

from pipeline.lms.embedded.strong.outlook import Outlook
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.types import StreamType
from step_runtime.tasks.reader import loads_task
from tests.support.beams import VIEW
from tests.support.habitual_tasks import BLOCKS

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


def test_what_merges_may_fold_again_where_it_is_applied_alone_as_well() -> None:
    """A dim that is to be folded is then no loss, although the routing has been applied."""
    view = TaskView(loads_task(BLOCKS))
    product = view.table.intern(StreamType(view.fns[0].output, view.table.types[view.table.inputs[0]].shape))
    given = [callee for callee, _ in view.callees_given(view.routings)]
    both, routed = Outlook(view, given), Outlook(view, [callee for callee in given if callee.routed])
    assert both.score([product], frozenset()) > routed.score([product], frozenset())
