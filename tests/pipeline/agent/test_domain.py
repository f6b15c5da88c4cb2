"""Answers are grouped by what they compute as text, and the shorter one is preferred."""

import dspy
import pytest

from optimizers import Attempt
from pipeline.agent.domain import closeness, code_length, language_domain, structures
from step_runtime.base.errors import STAGES
from step_runtime.tasks.reader import loads_task
from tests.support.scripted_runs import tasks


def test_names_and_comments_make_no_other_answer() -> None:
    """Another function does."""
    key = language_domain(None).grouping_key
    one = key({"impl": "E1 = step.Map(fn=fn_a).apply(E0)\nreturn E1"})
    assert one == key({"impl": "# why\nx = step.Map(fn=fn_a).apply(E0)\nreturn x"})
    assert one != key({"impl": "E1 = step.Map(fn=fn_b).apply(E0)\nreturn E1"})


@pytest.mark.parametrize(
    ("text", "length"),
    [("return E0", (1, 9)), ("  a = E0  # an alias\n\n# alone\nreturn a\n", (2, 14)), ("", (0, 0)), ("# x", (0, 0))],
)
def test_a_length_counts_lines_of_code_then_their_characters(text: str, length: tuple[int, int]) -> None:
    """Comments, empty lines and indentation are free."""
    assert code_length(text) == length and language_domain(None).length({"impl": text}) == length


def test_tasks_are_known_by_name_and_shown_with_their_programs() -> None:
    """Not with the turns that it took to write them."""
    domain = language_domain(None)
    assert domain.task_key(dspy.Example(task=tasks()[0])) == "easy/0"
    assert not domain.traced_demos


TASK = loads_task("""
global: open("executed", "w")
inputs:
- {name: E0, dtype: "Buffer(fp32, [D])", dims: [2*M, N], data_gen: torch.rand}
fns:
- {name: Sum, apply: "return [torch.sum(input[0]).exp()]", input_dtype: "Buffer(fp32, [D])", output_dtype: fp32,
   func_name: fn_sum}
outputs:
- {name: S0, dtype: fp32, dims: [2*M, N], data_transform: ["E0.softmax(-1) @ E0"]}
""")
OF_TASK = {
    "in Buffer(1) [2]", "out fp32 [2]", "dim 2*M", "fn Buffer(1) -> fp32", "fn sum", "fn exp", "fn index",
    "ref softmax", "ref matmul",
}  # fmt: skip


def test_a_task_is_its_types_signatures_and_operators() -> None:
    assert structures({"task": TASK}, None) == OF_TASK


def test_a_program_adds_its_primitives_edges_and_paths() -> None:
    """With the streams on the edges; names do not matter."""
    for names in ("E1 E2 E3", "a b c"):
        one, two, three = names.split()
        text = f"{one}, {two} = step.Copy().apply(E0)\n{three} = step.Map(fn=fn_sum).apply({one})\n"
        text += f"last = step.Promote(b=1).apply({three})\nreturn last"
        assert structures({"task": TASK}, {"impl": text}) - OF_TASK == {
            "Copy", "Map", "Promote", "Copy > Map on Buffer(1) [2]", "Map > Promote on fp32 [2]",
            "Copy > Map > Promote",
        }  # fmt: skip


@pytest.mark.parametrize("text", ["", "no program", "return (", "x" * 100_000, "\ud800"])
def test_an_unreadable_program_adds_nothing(text: str) -> None:
    assert structures({"task": TASK}, {"impl": text}) == OF_TASK


def test_an_answer_is_the_closer_the_later_it_fails() -> None:
    """A pass is closest, an answer that no adapter could read as far as one that does not parse."""

    def attempt(passed: bool = False, **feedback: str) -> Attempt:
        return Attempt(0, 0, "t", 0.4, 0, 0, score=float(passed), passed=passed, feedback=feedback)

    found = [closeness(attempt(stage=stage)) for stage in STAGES] + [closeness(attempt(True))]
    assert found == sorted(set(found)) and (found[0], found[-1]) == (0, 1)
    assert closeness(attempt()) == closeness(attempt(stage="internal")) == 0
