"""A simplified program passes, is never longer, and is the text itself where nothing is better."""

from pipeline.rewriting.simplification import code_lines, same_graph, simplified
from step_runtime import verify
from step_runtime.tasks.reader import loads_task
from tests.support.paths import PROJECT

TASK = loads_task((PROJECT / "data/tasks/gemm/0.yaml").read_text(), "gemm/0")
LONG = """\
E2 = step.Bufferize(a=1).apply(E0)
E3 = step.Streamify().apply(E2)
E4 = step.Bufferize(a=1).apply(E1)
E5 = step.Repeat(n=M).apply(E4)
E6 = step.Streamify().apply(E5)
E7 = step.Map(fn=fn_mul).apply((E3, E6))
E8 = step.Accum(fn=fn_add, b=1).apply(E7)
return E8
"""


def test_every_step_is_verified_and_the_result_is_shorter() -> None:
    """Streamify of Bufferize goes."""
    asked: list[str] = []

    def passes(text: str) -> bool:
        asked.append(text)
        return verify(TASK, text).passed

    found = simplified(TASK, LONG, passes)
    assert found in asked and verify(TASK, found).passed
    assert code_lines(found) < code_lines(LONG)
    assert "apply(E0)" not in found.replace("(E0, ", "")


def test_a_text_stays_where_nothing_else_passes() -> None:
    assert simplified(TASK, LONG, lambda text: False) == LONG
    assert simplified(TASK, "no program", lambda text: True) == "no program"


def test_graphs_are_one_where_only_texts_differ() -> None:
    """At all sizes: a literal that fits the first set makes another graph, as does another primitive."""
    named = LONG.replace("E3", "rows").replace("E2 =", "# a comment\nE2 =")
    assert same_graph(TASK, LONG, named)
    size = TASK.size_sets()[0]["M"]
    assert not same_graph(TASK, LONG, LONG.replace("n=M", f"n={size}"))
    assert not same_graph(TASK, LONG, simplified(TASK, LONG, lambda text: verify(TASK, text).passed))
    assert not same_graph(TASK, "no program", "no program")


def test_lines_of_code_are_neither_blank_nor_comments() -> None:
    assert code_lines("# a\n\nE1 = x  # b\nreturn E1\n") == 2
