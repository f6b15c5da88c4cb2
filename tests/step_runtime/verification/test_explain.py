"""A program's dataflow as a table, right or wrong."""

from step_runtime.verification.explain import explain
from tests.support.samples import general_scope


def test_every_stream_has_its_type_what_makes_it_and_the_line() -> None:
    """Inputs come first, results last, columns aligned."""
    table = explain("x = step.Accum(fn=fn_sum, b=1).apply(E0)\nreturn x, E3", general_scope()).table()
    lines = [line.split() for line in table.split("\n")]
    assert [line[0] for line in lines] == ["E0", "E1", "E2", "E3", "x", "returns"]
    assert lines[0] == ["E0", "fp32", "[M,", "N]", "input"]
    assert " ".join(lines[4]) == "x fp32 [N] Accum(fn=fn_sum, b=1) of E0 (line 1)"
    assert table.endswith("returns x, E3")
    assert len({line.index("input") for line in table.split("\n")[:4]}) == 1


def test_a_stream_whose_type_cannot_be_inferred_is_unknown() -> None:
    """What is independent of the mistake keeps its type."""
    text = "a = step.Streamify().apply(E0)\nb = step.Identity().apply(E3)\nreturn a, b"
    a, b = (line.split() for line in explain(text, general_scope()).table().split("\n")[4:6])
    assert a[:2] == ["a", "unknown"] and b[:3] == ["b", "fp32", "[N]"]


def test_a_program_that_returns_nothing_has_a_table() -> None:
    """Text that does not parse shows the inputs alone."""
    assert explain("return", general_scope()).table().endswith("returns nothing")
