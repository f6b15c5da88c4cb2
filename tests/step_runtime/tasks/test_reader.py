"""Task files in and out.

Invariants: every file that can work loads unchanged, whatever its YAML style; `load(dump(task)) == task`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from step_runtime import Task, TaskError, dump_task, load_task, loads_task, verify
from step_runtime.tasks.reader import task_name
from tests.support.samples import FIGURE_18, MINIMAL, edited

SOLUTION = "return step.Accum(fn=fn_sum, b=1).apply(E0)"


def loaded(tmp_path: Path, text: str) -> Task:
    path = tmp_path / "task.yaml"
    path.write_text(text, encoding="utf-8")
    return load_task(path)


FLOW = (
    "{inputs: [{name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}], fns: [{name: Sum, "
    'apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32, func_name: fn_sum}], '
    "outputs: [{name: S0, dtype: fp32, dims: [N], data_transform: [\"input_data['E0'].sum(1)\"]}]}"
)
STYLES = {
    "block": MINIMAL,
    "flow": FLOW,
    "a document mark": "---\n" + MINIMAL + "...\n",
    "a comment and blank lines": "# a task\n\n" + MINIMAL.replace("fns:", "\n# functions\nfns:"),
    "indented lists": MINIMAL.replace("- name", "  - name").replace("\n  ", "\n    ").replace("    - name", "  - name"),
    "dims with a trailing comma": MINIMAL.replace("[N]", "[N,]").replace("[M, N]", "[M, N,]"),
    "block dims": edited("dims: [M, N]", "dims:\n  - M\n  - N"),
    "quoted types": MINIMAL.replace("fp32", '"fp32"'),
    "a type as a list of one": edited("input_dtype: fp32", "input_dtype: [fp32]"),
    "folded code": edited("apply: |\n", "apply: >\n"),
    "stripped code": edited("apply: |\n", "apply: |-\n"),
    "kept code": edited("apply: |\n", "apply: |+\n"),
    "code with blank lines": edited("    return", "    x = input[0]\n\n    # text\n    return"),
    "code on one line": edited("apply: |\n    return [state[0] + input[0]]", "apply: return [state[0] + input[0]]"),
    "deeply indented code": edited("    return", "          return"),
    "data_transform as a string": edited("data_transform:\n  - input_data", "data_transform: input_data"),
    "data_transform as a block": edited(
        "data_transform:\n  - input_data['E0'].sum(1)", "data_transform: |\n    x = input_data['E0']\n    x.sum(1)"
    ),
    "a reference that assigns": edited("- input_data", "- S0 = input_data"),
    "a test name": "test_name: sum\n" + MINIMAL,
    "a number as test name": "test_name: 3\n" + MINIMAL,
    "an empty impl": MINIMAL + "impl: |\n",
    "no impl given": MINIMAL + "impl:\n",
    "empty lists and keys": MINIMAL + "parameters: []\nglobal:\nsizes: {}\n",
    "keys without value": MINIMAL + "parameters:\nsizes:\n",
    "init as a float": edited("init: [0]", "init: [0.0]"),
    "CRLF": MINIMAL.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + MINIMAL,
    "anchors": edited("  dtype: fp32\n", "  dtype: &t fp32\n").replace("input_dtype: fp32", "input_dtype: *t"),
    "a merge key": edited("- name: E0\n  dtype: fp32", "- name: E0\n  <<: {dtype: fp32}"),
    "sizes": MINIMAL + "sizes: {M: [2, 3], N: 4}\n",
    "global sizes": "global: |\n  M_value = 3\n  ctx[N] = 2\n" + MINIMAL,
    "further symbols": MINIMAL.replace("M, N", "H, N") + "sizes: {H: [3, 4]}\n",
    "a helper": "global: |\n  def total(x):\n      return x.sum(1)\n"
    + edited("input_data['E0'].sum(1)", "total(input_data['E0'])"),
    "a comprehension over a size": edited(
        "input_data['E0'].sum(1)", "sum([input_data['E0'][:, i] for i in range(M_value)])"
    ),
    "ctx": edited("input_data['E0'].sum(1)", "sum([input_data['E0'][:, i] for i in range(ctx[M])])"),
}


@pytest.mark.filterwarnings("ignore:.*at every set of sizes")
@pytest.mark.parametrize("name", STYLES)
def test_files_of_every_style_load_and_verify(name: str, tmp_path: Path) -> None:
    """Whatever YAML style a file has, it loads unchanged, its solution passes, and it survives dumping."""
    task = loaded(tmp_path, STYLES[name])
    verdict = verify(task, SOLUTION)
    assert verdict.passed, verdict.render(SOLUTION)
    assert loads_task(dump_task(task)) == task


def test_a_figure_of_the_paper_survives_dumping() -> None:
    """Figure 18 dumps with code in literal blocks, lists of dims and types in one line, keys in their order."""
    task = loads_task(FIGURE_18)
    text = dump_task(task)
    assert loads_task(text) == task
    assert "apply: |\n" in text and "dims: [M, N]\n" in text and "init: [-inf, 0, 0]\n" in text
    assert [line[:-1] for line in text.splitlines() if line[:1].isalpha() and line.endswith(":")] == [
        "inputs",
        "fns",
        "outputs",
    ]
    assert dump_task(task.without_impl()) == text[: text.index("impl:")]


def test_two_functions_of_one_name_and_functions_that_index_ctx(tmp_path: Path) -> None:
    """`name` is not unique, `func_name` is; functions see ctx, sizes, dims, parameters and global's helpers."""
    text = """
global: |
  E_value = 3
  ctx[E] = E_value
  scale = lambda x: x * 2
inputs:
- {name: E0, dtype: "Buffer(fp32, [E])", dims: [M], data_gen: torch.randn}
parameters:
- {name: W, dtype: fp32, dims: [E, 1], data_gen: torch.randn}
fns:
- name: Step
  apply: |
    return [scale(input[0]) + ctx[E] * input_data['W'][0]]
  input_dtype: Buffer(fp32, [E])
  output_dtype: Buffer(fp32, [E])
  func_name: fn_one
- name: Step
  apply: |
    return [sum([input[0] * i for i in range(E_value)]) / ctx[D]]
  input_dtype: Buffer(fp32, [E])
  output_dtype: Buffer(fp32, [E])
  func_name: fn_two
outputs:
- name: S0
  dtype: Buffer(fp32, [E])
  dims: [M,]
  data_transform: |
    assert D.name == "D" and ctx[D] == D_value
    (2 * input_data['E0'] + 3 * input_data['W']) * 3 / D_value
"""
    task = loaded(tmp_path, text)
    program = "return step.Map(fn=fn_two).apply(step.Map(fn=fn_one).apply(E0))"
    assert verify(task, program).passed, verify(task, program).render(program)


def test_later_snippets_see_what_earlier_ones_assigned(tmp_path: Path) -> None:
    """A tuple's snippets, and those of later outputs, share their names."""
    text = MINIMAL + (
        "- name: S1\n  dtype: [fp32, fp32]\n  dims: [N]\n  data_transform:\n"
        "  - |\n    total = input_data['E0'].sum(1)\n    total + 0\n  - total * 2\n"
        "- {name: S2, dtype: fp32, dims: [N], data_transform: total * 3}\n"
    )
    assert len(loaded(tmp_path, text).outputs) == 3


def test_a_reference_that_ignores_its_inputs_warns(tmp_path: Path) -> None:
    """An output that any constant would match is worth a warning when the file is loaded."""
    with pytest.warns(UserWarning, match="output S0 does not depend on the inputs at M="):
        loaded(tmp_path, edited("input_data['E0'].sum(1)", "torch.ones(N_value)"))


def test_a_task_is_named_by_its_place(tmp_path: Path) -> None:
    """Below a folder `tasks` the name is the path there, elsewhere the stem."""
    for folder, name in (("tasks/gemm", "gemm/task"), ("tasks-held-out/a/b", "a/b/task"), ("other/gemm", "task")):
        (tmp_path / folder).mkdir(parents=True)
        assert loaded(tmp_path / folder, f"test_name: ../sum\n{MINIMAL}").name == name
    assert task_name(tmp_path / "tasks" / ".." / "sum.yaml") == "sum"
    assert loads_task(f"test_name: sum\n{MINIMAL}").name == "sum", "without a path it is named by its test_name"


names = st.from_regex(r"[a-z][a-z0-9_]{0,6}x", fullmatch=True)
dims = st.lists(st.one_of(st.sampled_from(["M", "N", "M*N", "D//2"]), st.integers(1, 9)), min_size=1, max_size=3)
code = st.lists(
    st.sampled_from(["x = 1", "# text: [a]", "y = 'é\\n\"'", "", "return [input[0]]", "if x:\n    y = {1: 2}  "]),
    min_size=1,
).map("\n".join)
dtypes = st.sampled_from(
    ["fp32", "Buffer(fp32, [D])", "Buffer(Multihot(fp32, 3), [M])", ["fp32", "Buffer(fp32, [2, N])"]]
)


def many(draw: st.DrawFn, dtype: str | list[str], values: st.SearchStrategy[Any]) -> list[Any]:
    """One value per component of a type."""
    return [draw(values) for _ in (dtype if isinstance(dtype, list) else [dtype])]


inits = st.sampled_from([0, 1, -1, "-inf", 0.5, float("-inf")])
OPTIONAL = {
    "test_name": st.one_of(st.text(max_size=5), st.integers()),
    "impl": st.text(max_size=20),
    "global": code,
    "sizes": st.dictionaries(st.sampled_from("MNEQ"), st.integers(1, 9)),
}


@st.composite
def tasks(draw: st.DrawFn) -> dict[str, Any]:
    """Content of task files, of any code and names."""
    first, second, third = draw(st.lists(names, min_size=3, max_size=3, unique=True))
    dtype = draw(dtypes)
    function = {"name": draw(st.text(min_size=1, max_size=5)), "apply": draw(code), "func_name": second}
    function |= {"input_dtype": draw(dtypes), "output_dtype": dtype, "init": many(draw, dtype, inits)}
    references = [f"{snippet}\n1" for snippet in many(draw, dtype, code)]
    content: dict[str, Any] = {
        "inputs": [{"name": first, "dtype": draw(dtypes), "dims": draw(dims), "data_gen": "binary"}],
        "fns": [function],
        "outputs": [{"name": third, "dtype": dtype, "dims": draw(dims), "data_transform": references}],
    }
    return content | {key: draw(values) for key, values in OPTIONAL.items() if draw(st.booleans())}


@settings(max_examples=40)
@given(tasks())
def test_dumping_and_loading_gives_the_task_back(content: dict[str, Any]) -> None:
    """`load(dump(task)) == task`, whatever code, names and types it holds."""
    try:
        task = loads_task(dump_task(Task.model_validate(content)))
    except TaskError:
        # Random snippets need not be valid Python; what dumps must then be refused, not crash.
        return
    assert task == Task.model_validate(content)
    assert dump_task(loads_task(dump_task(task))) == dump_task(task)
