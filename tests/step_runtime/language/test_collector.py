"""Each mistake is one finding, and a text has no more findings than anyone would read."""

from tests.support.samples import check


def test_a_mistake_does_not_hide_the_next_nor_make_up_others() -> None:
    """All independent mistakes of a program are reported, and none that only follows from another."""
    program = (
        "a = torch.exp(E0)\n"
        "b = step.Map(fn=fn_square).apply(a)\n"
        "c = [step.Map(fn=f).apply(s) for f, s in zip(experts, [b, b, b])]\n"
        "d = step.Map(fn=fn_sqare).apply(E3)\n"
        "e = step.Zip().apply((d, b))\n"
        "return c, e"
    )
    _, found = check(program)
    assert [(d.code, d.span and d.span.line) for d in found] == [("call", 1), ("name", 4)]


def test_a_mistake_in_a_loop_is_reported_once() -> None:
    """However often a loop meets one mistake, it is one finding."""
    _, found = check("for i in range(20):\n    x = step.Map(fn=fn_foo).apply(E0)\nreturn E0")
    assert [(d.code, d.span and d.span.line) for d in found] == [("name", 2)]


def test_no_more_is_reported_than_anyone_would_read() -> None:
    """Thousands of mistakes end the walk after a hundred reports."""
    _, found = check("E0.x\n" * 3000)
    assert len(found) == 100
