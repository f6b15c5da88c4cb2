"""Task files in and out.

Invariants: every file that can work loads unchanged, whatever its YAML style; `load(dump(task)) == task`.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from step_runtime import StepError, Task, TaskError, dump_task, load_task, loads_task, verify
from step_runtime.base.syntax import BUILTINS
from step_runtime.tasks.reader import task_name, task_of
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
  E_value = M_value - 2
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
    (2 * input_data['E0'] + E_value * input_data['W']) * sum(range(E_value)) / D_value
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


EVIL = 'raise type("Evil", (Exception,), {"__str__": lambda s: 1/0})()'


def multihot(keys: str) -> str:
    """`MINIMAL` with a Multihot of three bits as its input, and these keys."""
    return MINIMAL.replace("dtype: fp32\n", "dtype: Multihot(fp32, 3)\n", 1).replace("data_gen: torch.rand", keys)


REFUSED = {
    "unknown dtype": (edited("dtype: fp32", "dtype: fp23"), "3: inputs[0].dtype: ", "fp23"),
    "unknown dtype of a function": (edited("input_dtype: fp32", "input_dtype: Buffer(fp32)"),
     "11: fns[0].input_dtype: ", "Buffer(fp32, [dims])"),
    "a format by its name in torch": (edited("dtype: fp32", "dtype: bfloat16"), "3: inputs[0].dtype: ",
     "bfloat16 is bf16"),
    "a format without its variant": (edited("dtype: fp32", 'dtype: "Buffer(fp8, [N])"'), "3: inputs[0].dtype: ",
     "fp8 is fp8_e4m3 or fp8_e5m2 here; the formats are fp32, fp16, bf16, fp8_e4m3, fp8_e5m2, int8, int32, bool"),
    "fractions for integers": (edited("dtype: fp32", "dtype: int8"), "5: inputs[0].data_gen: ",
     "as int8 holds whole numbers from -128 to 127; found 'torch.rand'"),
    "numbers for truth values": (edited("dtype: fp32", "dtype: bool").replace("torch.rand", "ids(3)"),
     "5: inputs[0].data_gen: ", "expected binary, torch.ones or one_hot"),
    "an initial state beyond its format": (edited("output_dtype: fp32", "output_dtype: int8").replace("init: [0]",
     "init: [-inf]"), "10: fns[0].init[0]: ", "int8 holds whole numbers from -128 to 127; found -inf"),
    "unknown symbol": (edited("[M, N]", "[M, Q]"), "4: inputs[0].dims[1]: ", "dim Q has no size"),
    "unknown symbol in a type": (edited("dtype: fp32", 'dtype: "Buffer(fp32, [Q])"'), "3: inputs[0].dtype: ",
     "dim Q has no size"),
    "dim of zero": (edited("[M, N]", "[M, 0]"), "4: inputs[0].dims[1]: ", "1 or more"),
    "dim of nonsense": (edited("[M, N]", "['M +', N]"), "4: inputs[0].dims[0]: ", "expected a dim"),
    "no dims": (edited("[M, N]", "[]"), "4: inputs[0].dims: ", "at least one dim"),
    "dims as text": (edited("[M, N]", "M"), "4: inputs[0].dims: ", "list"),
    "a bool as dim": (edited("[M, N]", "[true, N]"), "4: inputs[0].dims[0]: ", "True"),
    "a float as dim": (edited("[M, N]", "[1.5, N]"), "4: inputs[0].dims[0]: ", "1.5"),
    "unknown key": (MINIMAL + "notes: hello\n", "20: notes: ",
     "unknown key; expected one of test_name, global, inputs"),
    "unknown key of an input": (edited("data_gen: torch.rand", "data_gen: torch.rand\n  range: 3"),
     "6: inputs[0].range: ", "expected one of name, dtype, dims"),
    "unknown key of a function": (edited("init: [0]", "initial: [0]"), "10: fns[0].initial: ",
     "expected one of name, apply, init"),
    "missing key": (edited("  dtype: fp32\n", ""), "2: inputs[0].dtype: ", "missing"),
    "no inputs": ("inputs: []\n" + MINIMAL[MINIMAL.index("fns:") :], "1: inputs: ", "one or more"),
    "no outputs": (MINIMAL[: MINIMAL.index("outputs:")], "1: outputs: ", "missing"),
    "duplicate names": (edited("outputs:",
     "- name: Other\n  apply: return [input[0]]\n  input_dtype: fp32\n  output_dtype: fp32\n"
     "  func_name: fn_sum\noutputs:"), "18: fns[1].func_name: ", "duplicate name 'fn_sum'"),
    "an input named as a dim": (edited("name: E0", "name: E"), "2: inputs[0].name: ", "duplicate name 'E'"),
    "an output named as an input": (edited("name: S0", "name: E0"), "15: outputs[0].name: ", "duplicate name 'E0'"),
    "a name that is none": (edited("name: E0", "name: E 0"), "2: inputs[0].name: ", "Python name"),
    "a keyword as name": (edited("func_name: fn_sum", "func_name: lambda"), "13: fns[0].func_name: ", "Python name"),
    "a duplicate YAML key": (edited("  init: [0]", "  init: [0]\n  init: [1]"), "11", "duplicate key 'init'"),
    "init too long": (edited("init: [0]", "init: [0, 0]"), "10: fns[0].init: ", "expected 1 value, "),
    "init of nothing": (edited("init: [0]", "init: []"), "10: fns[0].init: ", "expected 1 value, "),
    "init of text": (edited("init: [0]", "init: [zero]"), "10: fns[0].init[0]: ", "zero"),
    "init not a number": (edited("init: [0]", "init: [.nan]"), "10: fns[0].init", "nan"),
    "unknown data_gen": (edited("torch.rand", "torch.rnd"), "5: inputs[0].data_gen: ", "torch.randn"),
    "no data_gen": (edited("  data_gen: torch.rand\n", ""), "2: inputs[0].data_gen: ", "missing"),
    "ones of a scalar": (edited("data_gen: torch.rand", "data_gen: torch.rand\n  min: 1"), "2: inputs[0]: ",
     "Multihot"),
    "more ones at least than at most": (multihot("min: 3\n  max: 1"), "5: inputs[0].min: ",
     "expected 0 <= min <= max, found min 3 and max 1"),
    "fewer ones than none": (multihot("max: -1"), "5: inputs[0].max: ", "min <= max"),
    "ones at least, fewer than none": (multihot("min: -1"), "5: inputs[0].min: ", "found min -1"),
    "broken code of a function": (edited("return [state[0] + input[0]]", "return [state[0] +"), "8: fns[0].apply: ",
     "expected Python code"),
    "code of a function that does not compile": (edited("return [state[0] + input[0]]", "break"), "8: fns[0].apply: ",
     "expected Python code"),
    "broken code of a reference": (edited("- input_data['E0'].sum(1)", "- input_data['E0'"),
     "19: outputs[0].data_transform[0]: ", "expected Python code"),
    "a reference without value": (edited("- input_data['E0'].sum(1)", "- import torch"),
     "19: outputs[0].data_transform[0]: ", "last line"),
    "a reference that returns": (edited("- input_data['E0'].sum(1)", "- return 3"),
     "19: outputs[0].data_transform[0]: ", "expected"),
    "broken global": ("global: 'gelu ='\n" + MINIMAL, "1: global: ", "expected Python code"),
    "global that returns": ("global: return 3\n" + MINIMAL, "1: global: ", "expected Python code"),
    "too few snippets": (edited("dtype: fp32\n  dims: [N]", "dtype: [fp32, fp32]\n  dims: [N]"),
     "19: outputs[0].data_transform: ", "expected 2 snippets"),
    "too many snippets": (MINIMAL + "  - input_data['E0'].sum(1)\n", "19: outputs[0].data_transform: ",
     "expected 1 snippet"),
    "size of zero": (MINIMAL + "sizes: {M: 0}\n", "20: sizes.M: ", "1 or more"),
    "empty sizes": (MINIMAL + "sizes: {M: []}\n", "20: sizes.M: ", "1 or more"),
    "sizes of other lengths": (MINIMAL + "sizes: {M: [5, 6], N: [1, 2, 3]}\n", "20: sizes: ", "one length"),
    "a size's name that is none": (MINIMAL + "sizes: {M N: 2}\n", "20: sizes.M N: ", "symbol"),
    "a size of text": (MINIMAL + "sizes: {M: five}\n", "20: sizes.M", "five"),
    "a list": ("- a\n- b\n", "1: ", "expected a mapping with the keys"),
    "a word": ("task", "1: ", "expected a mapping"),
    "nothing": ("", "1: ", "expected a mapping"),
    "only a comment": ("# nothing\n", "1: ", "expected a mapping"),
    "tabs": ("inputs:\n\t- name: E0\n", "2:1: ", "expected YAML"),
    "an open bracket": ("inputs: [\n", "2:1: ", "expected YAML"),
    "two documents": (MINIMAL + "---\n" + MINIMAL, "20:1: ", "expected YAML"),
    "a Python object": ("inputs: !!python/object/apply:os.system ['true']\n", "1:9: ", "expected YAML"),
    "an unknown anchor": ("inputs: *nothing\n", "1:9: ", "expected YAML"),
    "a list as key": ("? [a, b]\n: 1\n", "1: ", "expected a name as key"),
    "a mapping as key": ("? {a: b}\n: 1\n", "1: ", "expected a name as key"),
    "a number as key": ("1: 2\n" + MINIMAL, "1: [1]: ", "expected a name as key"),
    "a null byte": ("inputs: \0\n", "", "expected YAML"),
    "a loop of aliases": ("a: &x [*x]\n", "1: ", "alias"),
}  # fmt: skip

NAMES = {
    "step": "the language",
    "torch": "PyTorch",
    "input_data": "the inputs in a snippet",
    "ctx": "the sizes in a snippet",
    "M_value": "the size of M",
    "H_value": "the size of H",
    **dict.fromkeys(BUILTINS, "a builtin of the language"),
}
"""Names that stand for something else in a program or a snippet."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("func_name: fn_sum", "func_name: {}", "13: fns[0].func_name"),
        ("sizes: {H: 3}", "sizes: {{H: 3, {}: 3}}", "20: sizes.{}"),
    ],
)
def test_names_that_stand_for_something_else_are_refused(name: str, old: str, new: str, place: str) -> None:
    """A function or dim of such a name would hide it from programs or snippets, or be hidden by it."""
    with pytest.raises(TaskError) as caught:
        loads_task((MINIMAL + "sizes: {H: 3}\n").replace(old, new.format(name)), source="x.yaml")
    quoted = f"x.yaml:{place.format(name)}: duplicate name {name!r}: it is already {NAMES[name]}"
    assert quoted in str(caught.value).splitlines()


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_file_is_refused_with_place_and_what_was_expected(name: str) -> None:
    """The error names file, line and place in the file, what was found and what was expected."""
    text, place, quoted = REFUSED[name]
    with pytest.raises(TaskError) as caught:
        loads_task(text, source="tasks/x.yaml")
    message = str(caught.value)
    assert message.splitlines()[0].startswith(f"tasks/x.yaml:{place}" if place[:1].isdigit() else "tasks/x.yaml:"), (
        message
    )
    assert place in message and quoted in message, message


def test_mistakes_of_structure_and_of_content_come_in_one_round_in_the_order_of_the_lines() -> None:
    """A value of the wrong kind hides no other mistake, and none that follows from it is reported."""
    text = (
        edited("dtype: fp32", "dtype: fp23")
        .replace("data_gen: torch.rand", "data_gen: torch.rend")
        .replace("init: [0]", "init: 0")
        .replace("output_dtype: fp32", "output_dtype: 7")
        .replace("'E0'].sum(1)", "'E0'].sum(1")
        .replace("  dims: [N]", "  dims: [{}, Q]")
    )
    with pytest.raises(TaskError) as caught:
        loads_task(text + "sizes: {M: [5, 6], N: 3.5}\nstress: maybe\nmore: 1\n", source="x.yaml")
    found = [line.split(":")[1:3] for line in str(caught.value).splitlines()]
    assert found == [
        ["3", " inputs[0].dtype"],
        ["5", " inputs[0].data_gen"],
        ["10", " fns[0].init"],
        ["12", " fns[0].output_dtype"],
        ["17", " outputs[0].dims[0]"],
        ["17", " outputs[0].dims[1]"],
        ["19", " outputs[0].data_transform[0]"],
        ["20", " sizes.N"],
        ["21", " stress"],
        ["22", " more"],
    ], str(caught.value)


KINDS = [3, 3.5, True, "text", [], ["text", 3], {}, {"a": 1}, [{"a": []}], {3: 4}, [[1], [2]]]


@pytest.mark.parametrize(
    "key", ["inputs", "parameters", "fns", "outputs", "sizes", "limits", "stress", "global", "impl"]
)
@pytest.mark.parametrize("value", KINDS, ids=str)
def test_values_of_other_kinds_are_reported_in_the_words_of_the_format(key: str, value: object) -> None:
    """Each line says what is expected, or which key is missing, and quotes no library."""
    content = {**yaml.safe_load(MINIMAL), key: value}
    try:
        task_of(content, None, lambda _: "x")
    except TaskError as error:
        lines = str(error).splitlines()
        assert all(": expected " in line or "duplicate name" in line or "; expected " in line for line in lines), lines
        assert "should" not in str(error) and "valid" not in str(error)


@pytest.mark.parametrize(
    ("written", "value"), [("1e30", 1e30), ("-2E-3", -0.002), ("1" + 22 * "0", 1e22), ("7", 7), ("-inf", float("-inf"))]
)
def test_an_initial_value_is_any_number_that_a_float_holds(written: str, value: float) -> None:
    """Numbers of YAML 1.2 that PyYAML reads as text, and whole numbers of any length, are numbers."""
    task = loads_task(MINIMAL.replace("init: [0]", f"init: [{written}]"))
    assert task.fns[0].init == [value]
    assert loads_task(dump_task(task)) == task
    assert verify(task, SOLUTION).stage in (None, "value")


def test_files_that_cannot_be_read_are_reported(tmp_path: Path) -> None:
    """A missing file, a folder and text in another encoding are errors of one kind that name the path."""
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(MINIMAL.replace("Sum", "Größe").encode("latin-1"))
    for path, reason in ((tmp_path / "no.yaml", "No such file"), (tmp_path, "directory"), (latin, "UTF-8")):
        with pytest.raises(TaskError, match=reason) as caught:
            load_task(path)
        assert str(path) in str(caught.value)


BROKEN_CODE = {
    "a reference that raises": (edited("input_data['E0'].sum(1)", "input_data['E9'].sum(1)"), "S0.*KeyError"),
    "a reference of another shape": (edited("sum(1)", "sum(0)"), r"shape \(5,\).*\(7,\)"),
    "a reference that is no tensor": (edited("input_data['E0'].sum(1)", "int(3)"), "tensor.*int"),
    "a global that raises": ("global: 1 / 0\n" + MINIMAL, "global.*ZeroDivisionError"),
    "a global that binds no size": ("global: E_value = 'three'\n" + MINIMAL, "E to be an int"),
    "a dim without size": (MINIMAL.replace("[M, N]", "[E, N]"), "dim E has no size"),
    "a function's dim without size": (edited("output_dtype: fp32", 'output_dtype: "Buffer(fp32, [E])"'),
     r":12: fns\[0\].output_dtype: dim E has no size"),
    "more ones than bits": (multihot("min: 4"), r":5: inputs\[0\].min: expected at most 3, .* found 4"),
    "a dim of nothing": (MINIMAL.replace("[M, N]", "[M-5, N]"), r":4: inputs\[0\].dims\[0\]: M-5: it is 0 where M=5"),
    "a dim with a rest": (MINIMAL.replace("[M, N]", "[N, M/2]"),
     r":4: inputs\[0\].dims\[1\]: M/2: it is 5/2 where M=5"),
    "a type with a rest": (edited("input_dtype: fp32", 'input_dtype: "Buffer(fp32, [D/3])"'),
     r":11: fns\[0\].input_dtype: Buffer\(fp32, \[D/3\]\): it is 16/3 where D=16; expected a positive int"),
    "a size too large": (MINIMAL + "sizes: {M: 100000000}\n",
     r":20: sizes.M: inputs\[0\] would hold 700,000,000 numbers"),
    "a size that global makes too large": ("global: ctx[M] = 10**9\n" + MINIMAL, r":1: global: inputs\[0\] would hold"),
    "a number too large": (MINIMAL.replace("[M, N]", "[1000000000, N]"),
     r":4: inputs\[0\].dims\[0\]: inputs\[0\] would"),
    "a global that binds half a size": ("global: E_value = 2.5\n" + MINIMAL, ":1: global: expected E to be an int"),
    "a global that binds a size beyond all": ("global: M_value = 10**5000\n" + MINIMAL,
     ":1: global: .* than 2.*63, found a"),
    "a sparse reference": (edited("input_data['E0'].sum(1)", "input_data['E0'].sum(1).to_sparse()"),
     r":19: .*S0: expected a dense tensor of real numbers on the CPU, found the layout torch.sparse_coo"),
    "a complex reference": (edited("input_data['E0'].sum(1)", "input_data['E0'].sum(1) * 1j"),
     ":19: .*S0: expected a dense tensor of real numbers on the CPU, found the dtype torch.complex128"),
    "a reference without data": (edited("input_data['E0'].sum(1)", "input_data['E0'].sum(1).to('meta')"),
     ":19: .*S0: expected a dense tensor of real numbers on the CPU, found the device meta"),
    "a reference that raises what has no words": (edited("- input_data['E0'].sum(1)",
     f"- |\n    {EVIL}\n    input_data['E0'].sum(1)"), "S0: line 1 of the snippet raised Evil: it cannot say why"),
    "a global that raises what has no words": (f"global: |\n  {EVIL}\n{MINIMAL}",
     "global: line 1 of the snippet raised Evil: it"),
    "a global that exits": ("global: raise GeneratorExit('so')\n" + MINIMAL, "raised GeneratorExit: so"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN_CODE)
def test_a_files_own_code_is_tried_when_it_is_loaded(name: str, tmp_path: Path) -> None:
    """Code that cannot work at some set of sizes is an error of the file, with its path."""
    text, quoted = BROKEN_CODE[name]
    path = tmp_path / "task.yaml"
    path.write_text(text)
    with pytest.raises(TaskError, match=quoted) as caught:
        load_task(path)
    assert "task.yaml" in str(caught.value)


@given(st.one_of(st.text(max_size=40), st.text(alphabet="inputs: -[]{}&*!|>?'\"#\n ", max_size=60)))
def test_any_text_loads_or_is_refused(text: str) -> None:
    """Random text raises nothing but the package's own error."""
    with pytest.raises(StepError):
        loads_task(text)
