"""The extractor holds these:

- a program comes out as it was written, comments and blank lines included, however its answer is wrapped;
- of several programs the last that returns comes out;
- an answer without a program comes out as it is, whatever it is, and nothing raises.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signatures.adapter import extract_program, holds_program, sections
from step_runtime.language.parser import parse, read
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from tests.support.completions import (
    BODY,
    DRAFT,
    FUNCTIONS,
    LINES,
    PROGRAM,
    REFUSED,
    WHOLE,
    WRAPPED,
    Completion,
    indented,
)

TASK = """
inputs:
  - {name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}
  - {name: E1, dtype: fp32, dims: [M], data_gen: torch.rand}
fns:
  - {name: Mul, apply: "return [input[0] * input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32, func_name: fn_mul}
outputs:
  - {name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0'] * input_data['E1']"]}
"""


def found(program: str) -> list[str]:
    """The codes of what the parser finds."""
    return [diagnostic.code for diagnostic in parse(program, static_scope(loads_task(TASK)))[1]]


@pytest.mark.parametrize("answer", WRAPPED.values(), ids=WRAPPED.keys())
def test_a_program_comes_out_of_its_wrapping(answer: str) -> None:
    """Whatever stands around it goes, and it stays as it was written."""
    assert extract_program(answer) == PROGRAM


@pytest.mark.parametrize("answer", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_function_comes_out_as_body(answer: str) -> None:
    """What the parser unwraps is one `def body`, freed of the script around it."""
    assert extract_program(answer) == BODY


@pytest.mark.parametrize("parameters", ["E0: step.Stream, E1: step.Stream", "\n    E0,\n    E1,\n"])
def test_parameters_stay_as_they_are_written(parameters: str) -> None:
    """Annotations and line breaks among the parameters are the parser's business."""
    program = read(extract_program(f"def body({parameters}) -> step.Stream:\n{indented(4)}"))
    assert not program.diagnostics
    assert [parameter.arg for parameter in program.parameters or ()] == ["E0", "E1"]


@pytest.mark.parametrize("program", WHOLE.values(), ids=WHOLE.keys())
@pytest.mark.parametrize("wrapping", ["{}", "```python\n{}\n```", "[[ ## impl ## ]]\n{}\n\n[[ ## completed ## ]]"])
def test_a_program_stays_whole(program: str, wrapping: str) -> None:
    """No statement, comment or blank line of a program is lost, in its common wrappings."""
    assert extract_program(wrapping.replace("{}", program)) == program


@pytest.mark.parametrize("answer", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not_a_program_is_reported_by_the_parser(answer: Completion) -> None:
    """What there is of it comes out, or else the answer as it is, and the first diagnostic is the one expected."""
    assert extract_program(answer.text) == answer.program
    assert found(answer.program)[0] == answer.code


def test_what_comes_out_of_wrappings_is_a_program() -> None:
    """The parser finds nothing in it."""
    assert found(PROGRAM) == found(BODY) == []


def test_a_statement_over_two_lines_is_a_program() -> None:
    """Python ends it at the line's end, which the parser says."""
    text = "E2 =\n step.Zip().apply((E0, E1))"
    assert extract_program(text) == text
    assert found(text)[0] == "syntax"


@pytest.mark.parametrize(
    "text", ["", "Sure!", "The stream is used once,\nreturn it as it is.", "impl: |\n  to be done"]
)
def test_prose_holds_no_program(text: str) -> None:
    """A guardian that answers so has changed nothing."""
    assert not holds_program(text)


@pytest.mark.parametrize("answer", WRAPPED.values(), ids=WRAPPED.keys())
def test_extracting_twice_changes_nothing(answer: str) -> None:
    """A program that was extracted is its own answer."""
    once = extract_program(answer)
    assert extract_program(once) == once


def test_a_draft_in_a_thought_goes_behind_the_answer() -> None:
    """An answer that broke off is the answer, even where the thought held a whole program."""
    assert extract_program(f"<think>{DRAFT}</think>\n{LINES[0]}\n{LINES[1]}") == "\n".join(LINES[:2])


def test_sections_keep_the_last_that_is_not_empty() -> None:
    """Fields are distinguished by their markers."""
    text = "[[ ## a ## ]]\n1\n[[ ## b ## ]]\n2\n[[ ## a ## ]]\n3\n[[ ## b ## ]]\n"
    assert sections(text) == {"a": "3", "b": "2"}


FRAGMENTS = [
    *WRAPPED.values(),
    *WHOLE.values(),
    *(answer.text for answer in REFUSED.values()),
    "```",
    "impl: ",
    "(",
    '"',
    "[[ ## impl ## ]]",
    "\t",
    "- ",
]


@given(
    st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=20)), max_size=5), st.sampled_from(["", "\n", " "])
)
def test_nothing_raises(parts: list[str], between: str) -> None:
    """Whatever an LM writes is an answer."""
    extract_program(between.join(parts))
