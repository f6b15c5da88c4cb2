"""The extractor holds these:

- a program comes out as it was written, comments and blank lines included, however its answer is wrapped;
- of several programs the last that returns comes out;
- an answer without a program comes out as it is, whatever it is, and nothing raises.
"""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signatures.extract import extract_program, holds_program, sections
from step_runtime.parser import read

PROGRAM = """\
E2 = step.Zip().apply((E0, E1))
E3 = step.Map(fn=fn_mul).apply(E2)
return E3"""
LINES = PROGRAM.split("\n")
BODY = f"def body(E0, E1):\n{textwrap.indent(PROGRAM, '    ')}"
DRAFT = "E9 = step.Map(fn=fn_add).apply(E0)\nreturn E9"
ECHO = """\
inputs:
  - name: E0
    dtype: fp32
    dims: [M, N]
fns:
  - name: Mul
    apply: |
      y = input[0] * input[1]
      return [y]
    func_name: fn_mul
outputs:
  - name: S0
    data_transform:
      - |
        y = input_data['E0']
        y * input_data['E1']"""


def indented(columns: int, text: str = PROGRAM) -> str:
    return textwrap.indent(text, " " * columns)


def escaped(text: str = PROGRAM) -> str:
    return text.replace("\n", "\\n")


WRAPPED = {
    "nothing around it": PROGRAM,
    "blank lines around it": f"\n\n{PROGRAM}\n\n",
    "indented as a whole": indented(8),
    "indented after the first line": "\n  ".join(LINES),
    # field markers
    "markers": f"[[ ## impl ## ]]\n{PROGRAM}\n\n[[ ## completed ## ]]",
    "bold markers": f"**[[ ## impl ## ]]**\n{PROGRAM}\n\n**[[ ## completed ## ]]**",
    "markers on its lines": f"[[ ## impl ## ]] {PROGRAM} [[ ## completed ## ]]",
    "loose markers": f"[[##impl##]]\n{PROGRAM}\n[[##completed##]]",
    "markers around a fence": f"[[ ## impl ## ]]\n```python\n{PROGRAM}\n```\n\n[[ ## completed ## ]]",
    "markers around YAML": f"[[ ## impl ## ]]\nimpl: |\n{indented(2)}\n[[ ## completed ## ]]",
    "a marker cut off": f"[[ ## impl ## ]]\n{PROGRAM}\n\n[[ ## compl",
    "the guardian's marker": f"[[ ## output_impl ## ]]\n{PROGRAM}\n",
    "a field of reasoning": f"[[ ## reasoning ## ]]\n{DRAFT}\n\n[[ ## impl ## ]]\n{PROGRAM}\n",
    "an empty field, then another": f"[[ ## impl ## ]]\n\nLet me think.\n\n[[ ## impl ## ]]\n{PROGRAM}",
    # fences
    "fence with python": f"```python\n{PROGRAM}\n```",
    "fence with py and a space": f"``` py\n{PROGRAM}\n```",
    "fence with Step": f"```Step\n{PROGRAM}\n```",
    "fence with attributes": f'```python title="impl"\n{PROGRAM}\n```',
    "fence without label": f"```\n{PROGRAM}\n```",
    "fence with its label a line late": f"```\npython\n{PROGRAM}\n```",
    "fence of four": f"````\n{PROGRAM}\n````",
    "fence of tildes": f"~~~\n{PROGRAM}\n~~~",
    "fence never closed": f"Here it is:\n```python\n{PROGRAM}",
    "fence closed only": f"{PROGRAM}\n```",
    "fences on its lines": f"```{PROGRAM}```",
    "fence in a list": f"- The program:\n  ```python\n{indented(2)}\n  ```",
    "prose around the fence": f"Sure! Zip, then map.\n\n```python\n{PROGRAM}\n```\n\nE2 is then used once, E3 too.",
    "two fences, the last is right": f"```python\n{DRAFT}\n```\nThat has the wrong type.\n```python\n{PROGRAM}\n```",
    "a whole program, then a part": f"```\n{PROGRAM}\n```\nwhere\n```\n{LINES[1]}\n```\ndoes the work.",
    "a fence within YAML within a fence": f"```yaml\nimpl: |\n  ```python\n{indented(2)}\n  ```\n```",
    # YAML and JSON
    "YAML literal": f"impl: |\n{indented(2)}\n",
    "YAML literal, stripped": f"impl: |-\n{indented(4)}",
    "YAML literal, kept and indented": f"impl: |2+\n{indented(2)}\n",
    "YAML folded": f"impl: >-\n{indented(2)}",
    "YAML with a comment": f"impl: |  # the program\n{indented(2)}",
    "YAML that forgot to indent": f"impl: |\n{PROGRAM}\n",
    "YAML plain": "impl: " + "\n  ".join(LINES),
    "YAML double-quoted": f'impl: "{escaped()}"',
    "YAML single-quoted": f"impl: '{PROGRAM}'",
    "YAML of the guardian": f"output_impl: |\n{indented(2)}\nexplanation: |\n  Nothing is used twice.\n",
    "YAML in a list": f"- impl: |\n{indented(4)}\n  explanation: |\n    zip, then map",
    "YAML in a fence": f"```yaml\nimpl: |-\n{indented(2)}\n```",
    "the task in YAML with its impl": f"{ECHO}\nimpl: |\n{indented(2)}\n",
    "JSON": f'{{"impl": "{escaped()}"}}',
    "JSON with newlines in the string": f'{{"impl": "{PROGRAM}"}}',
    "JSON in a fence": f'```json\n{{\n  "impl": "{escaped()}"\n}}\n```',
    "JSON with a list of lines": '{"impl": ["' + '", "'.join(LINES) + '"]}',
    "JSON with another key before": f'{{"reasoning": "Zip, then map: {{}}.", "impl": "{escaped()}"}}',
    "JSON cut off": f'{{"impl": "{escaped()}',
    # tags
    "a tag": f"<impl>\n{PROGRAM}\n</impl>",
    "a tag around a fence": f"<answer>\n```python\n{PROGRAM}\n```\n</answer>",
    "a tag with attributes": f'<code class="python">\n{PROGRAM}\n</code>',
    "a tag never closed": f"<program>\n{PROGRAM}",
    # thoughts
    "a thought": f"<think>\n{DRAFT}\n</think>\n{PROGRAM}",
    "a thought with capitals": f"<Thinking>{DRAFT}</Thinking>\n\n```\n{PROGRAM}\n```",
    "a thought opened by the template": f"{DRAFT}\n</think>\n\n{PROGRAM}",
    "a thought in brackets": f"[THINK]{DRAFT}[/THINK]{PROGRAM}",
    "a thought that never ends": f"<think>\nSo the program is\n\n{PROGRAM}\n",
    "channels": f"<|channel|>analysis<|message|>{DRAFT}<|end|><|start|>assistant<|channel|>final<|message|>{PROGRAM}",
    # Python around it
    "an import": f"import step\nfrom step import *\n\n{PROGRAM}",
    "a string in Python": f'impl = """\n{PROGRAM}\n"""',
    "a session": ">>> " + "\n>>> ".join(LINES),
    # prose
    "prose around it": f"I zip the inputs first.\n\n{PROGRAM}\n\nThis gives what was asked.",
    "prose between the statements": f"First:\n{LINES[0]}\nThen multiply, with N = 3:\n{LINES[1]}\nFinally:\n{LINES[2]}",
    "a heading": f"**Implementation:**\n\n{PROGRAM}\n",
    "a label on its first line": f"Answer: {PROGRAM}",
    "a program corrected below": f"{DRAFT}\n\nWait, these must be zipped first.\n\n{PROGRAM}",
    "a numbered list": "\n".join(f"{number}. {line}" for number, line in enumerate(LINES, 1)),
    "line numbers": "\n".join(f"{number} | {line}" for number, line in enumerate(LINES, 1)),
    "bullets and backticks": "\n".join(f"- `{line}`" for line in LINES),
    "a quotation": "> " + "\n> ".join(LINES),
    "an echo of the prompt": f"[[ ## task ## ]]\n{ECHO}\n\n[[ ## impl ## ]]\n{PROGRAM}\n\n[[ ## completed ## ]]",
    "an echo of the task alone": f"{ECHO}\n\n{PROGRAM}",
    # characters
    "Windows line ends": PROGRAM.replace("\n", "\r\n"),
    "old Macintosh line ends": PROGRAM.replace("\n", "\r"),
    "non-breaking spaces": PROGRAM.replace(" ", "\u00a0"),
    "a byte order mark and zero-width spaces": "\ufeff" + PROGRAM.replace("E2", "E2\u200b"),
    "underscores escaped for Markdown": PROGRAM.replace("_", "\\_"),
    "newlines escaped": escaped(),
    "a token of the chat template": f"{PROGRAM}<|im_end|>",
}

FUNCTIONS = {
    "a function": BODY,
    "a function with tabs": "def body(E0, E1):\n" + textwrap.indent(PROGRAM, "\t"),
    "a function with a result type": BODY.replace("):", ") -> step.Stream:"),
    "a function of another name": BODY.replace("body", "program"),
    "a function in a fence": f"```python\nimport step\n\n{BODY}\n```\nIt returns E3.",
    "a function and its call": f"{BODY}\n\nprint(body(E0, E1))",
    "a method": f"class Solution:\n{indented(4, BODY)}",
    "a script": f"import step\n\nclass Mul(step.Fn):\n    def apply(self, input):\n        return [input[0]]\n\n"
    f"def prepare():\n    E0 = step.Stream('E0', 1)\n    return E0\n\n{BODY}\n\n"
    "def test():\n    S0 = body(prepare())\n",
}

WHOLE = {
    "comments and blank lines": "# online softmax\nE2 = step.Zip().apply((E0, E1))  # a pair\n\n# done\nreturn E2",
    "a list above": "fns = [fn_a, fn_b]\n\nE2 = [step.Map(fn=fn).apply(s) for fn, s in zip(fns, E0)]\nreturn E2",
    "a loop": "E2 = []\nfor fn, s in zip([fn_a, fn_b], E0):\n    E2.append(step.Map(fn=fn).apply(s))\nreturn E2",
    "statements over lines": "E2 = step.Map(\n    fn=fn_mul,\n).apply((\n    E0,\n    E1,\n))\nreturn (\n    E2,\n)",
    "a variable called answer": "answer = step.Map(fn=fn_mul).apply(E0)\nimpl = step.Copy().apply(answer)\nreturn impl",
    "a starred target": "E2 = step.Partition(N=3).apply((E0, E1))\nfirst, *rest = E2\nreturn first, *rest",
    "one statement": "return step.Zip().apply((E0, E1))",
    "no primitive at all": "return E0",
    "a form outside of the language": "E2 = step.Zip().apply((E0, E1))\nif E2:\n    E3 = E2\nreturn E3",
    "broken off": "E2 = step.Zip().apply((E0, E1))\nE3 = step.Map(fn=fn_",
}

NO_PROGRAMS = [
    "",
    " \n",
    "I can't do that.",
    "Sure!",
    "No step.Copy() is needed: every stream is consumed once.",
    "The stream is used once,\nreturn it as it is.",
    "```python\nprint('hello')\n```",
    "import torch\n\nprint(torch.ones(3))",
    "impl: |\n  to be done",
    "\x00\ud800",
]


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


@pytest.mark.parametrize("text", NO_PROGRAMS)
def test_what_is_no_program_comes_out_as_it_is(text: str) -> None:
    """The parser then says what is wrong with it."""
    assert not holds_program(text)
    assert extract_program(text) == text


@pytest.mark.parametrize("answer", WRAPPED.values(), ids=WRAPPED.keys())
def test_extracting_twice_changes_nothing(answer: str) -> None:
    """A program that was extracted is its own answer."""
    once = extract_program(answer)
    assert extract_program(once) == once


def test_a_draft_in_a_thought_goes_behind_the_answer() -> None:
    """An answer that broke off is the answer, even where the thought held a whole program."""
    assert extract_program(f"<think>{DRAFT}</think>\n{LINES[0]}\n{LINES[1]}") == "\n".join(LINES[:2])


def test_sections_keep_the_last_that_is_not_empty() -> None:
    """Fields are told apart by their markers."""
    text = "[[ ## a ## ]]\n1\n[[ ## b ## ]]\n2\n[[ ## a ## ]]\n3\n[[ ## b ## ]]\n"
    assert sections(text) == {"a": "3", "b": "2"}


FRAGMENTS = [
    *WRAPPED.values(),
    *WHOLE.values(),
    *NO_PROGRAMS,
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


@given(st.text(alphabet="E0 =step.Map(fn)\n`[]#:|<>\"'{}", max_size=200))
def test_text_of_the_language_s_own_characters_never_raises(text: str) -> None:
    """Nor does what almost is a program."""
    extract_program(text)
