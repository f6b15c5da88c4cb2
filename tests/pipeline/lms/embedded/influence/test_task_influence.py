"""The references of all tasks are read, and the programs that solve them agree with what is read."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pipeline.lms.embedded.influence.task_influence import TaskInfluence
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types
from tests.support.paths import PROJECT

SOLVED = [
    (tasks, oracle)
    for folder, solutions in (
        ("tasks", "oracles"),
        ("tasks-extra", "oracles-extra"),
        ("tasks-modern", "oracles-modern"),
    )
    for oracle in sorted((PROJECT / "data" / solutions).rglob("*.step"))
    for tasks in [PROJECT / "data" / folder / oracle.relative_to(PROJECT / "data" / solutions).with_suffix(".yaml")]
]
ALIGNED = 0.4
"""The least alignment of a stream of a solution, pieces of a routing aside, which may have elements of all places."""


def task_of(path: Path) -> Task:
    return loads_task(path.read_text(encoding="utf-8"), path.stem)


@cache
def influence_in(path: Path) -> TaskInfluence:
    """The influence in a task of the project, read once."""
    return TaskInfluence(task_of(path))


def traced(task: Task, text: str, influence: TaskInfluence) -> tuple[Program, dict[int, int]]:
    """A program, and the number of each of its streams."""
    program, wrong = parse(text, static_scope(task))
    assert not wrong
    numbers = dict(enumerate(influence.inputs))
    for node in program.nodes:
        made = influence.streams.add(node.op, *(numbers[one] for one in node.inputs))
        numbers |= dict(zip(node.outputs, made, strict=True))
    return program, numbers


def test_every_reference_of_the_sets_is_read() -> None:
    """Of three sets; a call that becomes unread is a loss."""
    outputs = [part for path, _ in SOLVED for output in influence_in(path).outputs for part in output]
    assert len(outputs) > 110 and all(part is not None for part in outputs)


@pytest.mark.parametrize(("path", "oracle"), SOLVED, ids=[oracle.stem for _, oracle in SOLVED])
def test_a_program_that_solves_a_task_agrees_with_its_reference(path: Path, oracle: Path) -> None:
    """Element by element; and no stream on the way depends on more than an output does."""
    task = task_of(path)
    influence = influence_in(path)
    program, numbers = traced(task, oracle.read_text(encoding="utf-8"), influence)
    types, broken = infer_types(program, static_scope(task))
    assert not broken and all(numbers.values())
    for stream, type_ in enumerate(types):
        assert type_ is not None and influence.fit(numbers[stream]) == 1.0
        routed = any("routed" in str(dim) for dim in type_.shape)
        assert routed or influence.alignment(numbers[stream], type_) > ALIGNED
    found = [numbers[stream] for stream in program.results]
    assert influence.agreement(found) == 1.0
    assert all(influence.reaches(number, place) for place, number in enumerate(found))


NORM = """
inputs:
- {name: x, dtype: fp32, dims: [G*C, N], data_gen: torch.randn}
fns:
- {name: Add, apply: "return [state[0] + input[0] ** 2]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}
- {name: Div, apply: "return [input[0] / input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32, func_name: fn_div}
outputs:
- name: O
  dtype: fp32
  dims: [G*C, N]
  data_transform: |
    g = input_data['x'].view(N_value, C_value, G_value)
    (g / g.square().sum(-1, keepdim=True)).flatten(1)
sizes: {G: 3, C: 2, N: 4}
"""
GROUPED = """
a, b = step.Copy().apply(step.Reshape(L=[0], S=G).apply(x))
s = step.Repeat(n=G).apply(step.Accum(fn=fn_add, b=1).apply(a))
return step.Flatten(L=[1]).apply(step.Map(fn=fn_div).apply((b, s)))
"""
WHOLE = """
a, b = step.Copy().apply(x)
s = step.Repeat(n=G*C).apply(step.Accum(fn=fn_add, b=1).apply(a))
return step.Map(fn=fn_div).apply((b, s))
"""
ACROSS = GROUPED.replace("S=G", "S=C").replace("n=G", "n=C")


def agreement(text: str) -> float:
    task = loads_task(NORM)
    influence = TaskInfluence(task)
    program, numbers = traced(task, text, influence)
    return influence.agreement([numbers[stream] for stream in program.results])


def test_a_fold_over_other_elements_disagrees() -> None:
    """Over all instead of a group, or over groups of another size: the operations are the same."""
    assert agreement(GROUPED) == 1.0
    assert agreement(WHOLE) < 0.9 and agreement(ACROSS) < 0.9


def test_dims_are_mixed_where_an_element_depends_on_several_positions() -> None:
    """Over a group that is only a part of a dim, too; not over a batch unless the fold is over all."""
    mixed = TaskInfluence(loads_task(NORM)).mixed
    assert {str(dim) for dim in mixed} == {"C*G"}
    whole = NORM.replace("g.square().sum(-1, keepdim=True)", "g.square().sum()")
    assert {str(dim) for dim in TaskInfluence(loads_task(whole)).mixed} == {"C*G", "N"}


def test_what_is_unread_agrees_with_everything() -> None:
    """A reference of an unknown call says nothing."""
    task = loads_task(NORM.replace("g.square().sum(-1, keepdim=True)", "torch.unheard_of(g)"))
    influence = TaskInfluence(task)
    assert influence.outputs == [(None,)] and influence.agreement([0]) == 1.0
    assert influence.fit(influence.inputs[0]) == 1.0 and not influence.reaches(influence.inputs[0], 0)


def test_many_positions_share_bits() -> None:
    """Sizes need not fit into a word."""
    task = loads_task(NORM.replace("G: 3, C: 2, N: 4", "G: 5, C: 20, N: 30"))
    (number,) = TaskInfluence(task).inputs
    stream = TaskInfluence(task).streams.stream(number)
    assert stream is not None and np.bitwise_count(np.bitwise_or.reduce(stream.parts[0].sources, axis=None)) <= 64


def test_values_on_the_way_are_known_by_what_they_depend_on() -> None:
    """The reference sums groups, not all elements or groups of another size."""
    task = loads_task(NORM)
    for text, passed in ((GROUPED, 1.0), (WHOLE, 0.0), (ACROSS, 0.0)):
        influence = TaskInfluence(task)
        program, numbers = traced(task, text, influence)
        fold = next(node for node in program.nodes if type(node.op).__name__ == "Accum")
        assert influence.passes(numbers[fold.outputs[0]]) == passed
        assert influence.passes(numbers[fold.inputs[0]]) == 1.0


def test_where_an_output_is_unread_all_may_be_on_the_way() -> None:
    """Nothing is known of the values that it is made of."""
    task = loads_task(NORM.replace("g.square().sum(-1, keepdim=True)", "torch.unheard_of(g)"))
    influence = TaskInfluence(task)
    program, numbers = traced(task, ACROSS, influence)
    assert all(influence.passes(numbers[stream]) == 1.0 for stream in range(len(program.nodes)))


ATTENTION = """
inputs:
- {name: q, dtype: "Buffer(fp32, [D])", dims: [T, B], data_gen: torch.randn}
- {name: k, dtype: "Buffer(fp32, [D])", dims: [T, B], data_gen: torch.randn}
- {name: v, dtype: "Buffer(fp32, [D])", dims: [T, B], data_gen: torch.randn}
fns:
- {name: Dot, apply: "return [input[0] @ input[1]]", input_dtype: ["Buffer(fp32, [D])", "Buffer(fp32, [D])"],
   output_dtype: fp32, func_name: fn_dot}
- {name: Past, apply: "return [torch.where(torch.arange(D_value) < 0, input[0], 0.0)]",
   input_dtype: "Buffer(fp32, [D])", output_dtype: "Buffer(fp32, [D])", func_name: fn_past}
- {name: Top, apply: "return [torch.maximum(state[0], input[0])]", init: [-inf], input_dtype: fp32,
   output_dtype: fp32, func_name: fn_top}
outputs:
- name: O
  dtype: Buffer(fp32, [D])
  dims: [T, B]
  data_transform: |
    q, k, v = input_data['q'], input_data['k'], input_data['v']
    torch.nn.functional.scaled_dot_product_attention(q, k, v)
sizes: {T: 4, B: 2, D: 3}
"""
SCORES = """
a = step.Repeat(n=T).apply(q)
b = step.Bufferize(a=1).apply(step.Streamify().apply(step.Repeat(n=T).apply(step.Bufferize(a=1).apply(k))))
return step.Accum(fn=fn_top, b=1).apply(step.Map(fn=fn_dot).apply((a, b)))
"""


SEEN = ["", ", is_causal=True", ", attn_mask=torch.ones(T_value, T_value, dtype=torch.bool).tril()",
        ", attn_mask=torch.eye(T_value)", ", attn_mask=torch.ones(T_value, T_value).bool().triu(-1)"]  # fmt: skip


def test_dims_are_paired_where_elements_at_two_positions_meet() -> None:
    """Of two inputs, or of one; not where neighbours or all of them meet."""
    task = ATTENTION.replace("torch.nn.functional.scaled_dot_product_attention(q, k, v)", "{}")
    pairs = "(q @ k.transpose(-1, -2)) @ v"
    own = "(q.unsqueeze(1) - q.unsqueeze(2)).abs().sum(1) + 0 * (k + v)"
    given = [
        (pairs, {"T"}), (own, {"T"}), ("q + k.cumsum(1) + v", set()), ("q + v.sum()", set()),
        ("torch.einsum('btd,bsd,bse->bte', q, k, v)", {"T"}),
        ("torch.cdist(q, k).amin(-1, keepdim=True) * v", {"T"}),
        ("torch.bmm(q, k.mT).softmax(-1).bmm(v)", {"T"}),
        *((f"torch.nn.functional.scaled_dot_product_attention(q, k, v{way})", {"T"}) for way in SEEN),
    ]  # fmt: skip
    for code, paired in given:
        found = TaskInfluence(loads_task(task.replace("{}", code))).paired
        assert {str(dim) for dim in found if str(dim) == "T"} == paired


def test_the_weights_of_an_attention_are_on_the_way() -> None:
    """A maximum over all scores of a query depends on what they depend on."""
    task = loads_task(ATTENTION)
    influence = TaskInfluence(task)
    program, numbers = traced(task, SCORES, influence)
    assert influence.passes(numbers[program.results[0]]) == 1.0


def test_what_a_mask_empties_is_independent() -> None:
    """No element gets anything from an input."""
    task = loads_task(ATTENTION)
    influence = TaskInfluence(task)
    program, numbers = traced(task, "return step.Map(fn=fn_past).apply(q)", influence)
    assert influence.independent(numbers[program.results[0]]) and not influence.independent(influence.inputs[0])


@pytest.mark.parametrize(
    ("dim", "sizes"), [("V - A - C", "V: [9, 12], A: [2, 3], C: [3, 5]"), ("V // 3", "V: [9, 12]")]
)
def test_a_task_is_read_at_sizes_at_which_all_its_dims_exist(dim: str, sizes: str) -> None:
    task = loads_task(
        f"""
inputs:
- name: whole
  dtype: fp32
  dims: [V]
  data_gen: torch.randn
- name: part
  dtype: fp32
  dims: ["{dim}"]
  data_gen: torch.randn
fns:
- {{name: Add, apply: "return [input[0] + state[0]]", init: [0], input_dtype: fp32, output_dtype: fp32, func_name: add}}
outputs:
- name: total
  dtype: fp32
  dims: ["1"]
  data_transform: ["input_data['part'].sum(0, keepdim=True)"]
sizes: {{{sizes}}}
""",
        "odd_dims",
    )
    influence = TaskInfluence(task)
    assert [part is not None for part in influence.outputs[0]] == [True]
