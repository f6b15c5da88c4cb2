"""Tasks and programs that several tests share, among them the paper's own (Figures 14, 17, 18 and 20)."""

from dataclasses import dataclass
from functools import cache

from step_runtime import Diagnostic, Task, Verifier, loads_task
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.verification.check import check_affine, check_outputs, infer_types

GENERAL = """
global: |
  experts = [fn_a, fn_b, fn_c]
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}
- {name: E1, dtype: "Buffer(fp32, [D])", dims: [M, N], data_gen: torch.rand}
- {name: E2, dtype: "Multihot(fp32, E)", dims: [N], min: 0, max: 3}
- {name: E3, dtype: fp32, dims: [N], data_gen: torch.rand}
fns:
- {name: Sum, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_sum}
- {name: SumBuffer, apply: "return [state[0] + input[0]]", init: [0], input_dtype: "Buffer(fp32, [D])",
   output_dtype: "Buffer(fp32, [D])", func_name: fn_sumbuffer}
- {name: Square, apply: "return [input[0] * input[0]]", input_dtype: fp32, output_dtype: fp32, func_name: fn_square}
- {name: Mul, apply: "return [input[0] * input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32,
   func_name: fn_mul}
- {name: Scale, apply: "return [input[0] * input[1]]", input_dtype: [fp32, "Buffer(fp32, [D])"],
   output_dtype: "Buffer(fp32, [D])", func_name: fn_scale}
- {name: Expert, apply: "return [input[0] + 1]", input_dtype: fp32, output_dtype: fp32, func_name: fn_a}
- {name: Expert, apply: "return [input[0] * 2]", input_dtype: fp32, output_dtype: fp32, func_name: fn_b}
- {name: Expert, apply: "return [input[0] - 3]", input_dtype: fp32, output_dtype: fp32, func_name: fn_c}
outputs:
- {name: S0, dtype: fp32, dims: [N], data_transform: "input_data['E0'].sum(-1)"}
- {name: S1, dtype: fp32, dims: ["M", N], data_transform: "input_data['E0'] ** 2"}
sizes: {E: 3}
"""
"""Inputs and functions of every kind, for programs that show one form each."""

GENERAL_SOLUTION = """E4, E5 = step.Copy().apply(E0)
E6 = step.Accum(fn=fn_sum, b=1).apply(E4)
E7 = step.Map(fn=fn_square).apply(E5)
return E6, E7
"""


@cache
def general() -> Task:
    """The task `GENERAL`."""
    return loads_task(GENERAL, "general")


@cache
def general_scope() -> Scope:
    """The scope of `GENERAL`."""
    return static_scope(general())


@cache
def general_verifier() -> Verifier:
    """A verifier of `GENERAL`."""
    return Verifier(general())


def check(text: str, scope: Scope | None = None, *, outputs: bool = False) -> tuple[Program, list[Diagnostic]]:
    """A program's graph and what parser, type rules and affine rule find; the outputs' check on demand."""
    scope = scope or general_scope()
    program, found = parse(text, scope)
    types, typed = infer_types(program, scope)
    found = [*found, *typed, *check_affine(program)]
    return program, found or (check_outputs(program, types, scope) if outputs else [])


MINIMAL = """\
inputs:
- name: E0
  dtype: fp32
  dims: [M, N]
  data_gen: torch.rand
fns:
- name: Sum
  apply: |
    return [state[0] + input[0]]
  init: [0]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn_sum
outputs:
- name: S0
  dtype: fp32
  dims: [N]
  data_transform:
  - input_data['E0'].sum(1)
"""
"""A task of one input, one function and one output, to be broken in one place."""


def edited(old: str, new: str) -> str:
    """`MINIMAL` with one place changed."""
    if old not in MINIMAL:
        raise ValueError(old)
    return MINIMAL.replace(old, new, 1)


FIGURE_14 = """
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}
fns:
- {name: Sum, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_sum}
outputs:
- name: S0
  dtype: fp32
  dims: [N]
  data_transform:
    - |
      torch.sum(input_data['E0'], 1, keepdim=False)
impl: |
  E1 = step.Accum(fn=fn_sum, b=1).apply(E0)
  return E1
"""

FIGURE_17 = """
inputs:
- {name: E0, dtype: fp32, dims: [M, N, K], data_gen: torch.rand}
outputs:
- name: S0
  dtype: fp32
  dims: [M, N, D, K]
  data_transform:
    - |
      input_data['E0'].unsqueeze(1).repeat(1, D_value, 1, 1)
impl: |
    E1 = step.Bufferize(a=2).apply(E0) # E1: {dtype: Buffer(fp32, [M, N]), dims: [K]}
    E2 = step.Repeat(n=D).apply(E1) # E2: {dtype: Buffer(fp32, [M, N]), dims: [D, K]}
    E3 = step.Streamify().apply(E2) # E3: {dtype: fp32, dims: [M, N, D, K]}
    return E3
"""

FIGURE_18 = """
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}
- {name: E1, dtype: "Buffer(fp32, [D])", dims: [M, N], data_gen: torch.rand}

fns:
- name: MaxSum
  apply: |
    m_t, l_t, o_t = state # scalar, scalar, [D]
    s_t, v_t = input # scalar, [D]
    m_next = torch.max(m_t, s_t) # scalar
    l_prim_t = torch.exp(m_t - m_next) * l_t
    p_t = torch.exp(s_t - m_next)
    l_next = p_t + l_prim_t
    o_next = l_prim_t * o_t / l_next + p_t * v_t / l_next
    return [m_next, l_next, o_next]
  init: [-inf, 0, 0]
  input_dtype: [fp32, "Buffer(fp32, [D])"]
  output_dtype: [fp32, fp32, "Buffer(fp32, [D])"]
  func_name: fn_maxsum

- {name: GetThird, apply: "return [input[2]]", input_dtype: [fp32, fp32, "Buffer(fp32, [D])"],
   output_dtype: "Buffer(fp32, [D])", func_name: fn_getthird}

outputs:
- name: S0
  dtype: fp32
  dims: [D, N]
  data_transform:
    - |
      torch.bmm(torch.softmax(input_data['E0'], 1).unsqueeze(1), input_data['E1']).squeeze(1)

impl: |
  E3 = step.Zip().apply((E0, E1))
  E4 = step.Accum(fn=fn_maxsum, b=1).apply(E3)
  E5 = step.Map(fn=fn_getthird).apply(E4)
  E2 = step.Streamify().apply(E5)
  return E2
"""

FIGURE_20_TASKS = (
    """
global: |
  matmul_fns = [fn_matmul0, fn_matmul1]
inputs:
- {name: E0, dtype: "Buffer(fp32, [D])", dims: [M], data_gen: torch.randn}
- {name: E1, dtype: "Multihot(fp32, E)", dims: [M], min: 1, max: 1}
parameters:
- {name: W0, dtype: fp32, dims: [D, D], data_gen: torch.randn}
- {name: W1, dtype: fp32, dims: [D, D], data_gen: torch.randn}
fns:
- {name: MatMul0, apply: "return [input[0] @ input_data['W0']]", input_dtype: "Buffer(fp32, [D])",
   output_dtype: "Buffer(fp32, [D])", func_name: fn_matmul0}
- {name: MatMul1, apply: "return [input[0] @ input_data['W1']]", input_dtype: "Buffer(fp32, [D])",
   output_dtype: "Buffer(fp32, [D])", func_name: fn_matmul1}
- {name: Sum, apply: "return [state[0] + input[0]]", init: [0], input_dtype: "Buffer(fp32, [D])",
   output_dtype: "Buffer(fp32, [D])", func_name: fn_sum}
outputs:
- name: S0
  dtype: Buffer(fp32, [D])
  dims: [M]
  data_transform: |
    both = torch.stack([input_data['E0'] @ input_data['W0'], input_data['E0'] @ input_data['W1']], 1)
    (both * input_data['E1'].unsqueeze(-1)).sum(1)
sizes: {E: 2}
""",
    """
inputs:
- {name: E0, dtype: "Buffer(fp32, [K])", dims: [M], data_gen: torch.randn}
fns:
- {name: Predict, apply: "return [input[0].sum()]", input_dtype: "Buffer(fp32, [K])", output_dtype: fp32,
   func_name: fn_predict}
- {name: Router, apply: "return [torch.stack((input[0] > 0, input[0] <= 0)).to(input[0].dtype)]",
   input_dtype: fp32, output_dtype: "Multihot(fp32, 2)", func_name: fn_router}
- {name: Affinity, apply: "return [torch.sigmoid(input[0].mean())]", input_dtype: "Buffer(fp32, [K])",
   output_dtype: fp32, func_name: fn_affinity}
outputs:
- name: S0
  dtype: ["Buffer(fp32, [K])", fp32]
  dims: [M]
  data_transform:
  - input_data['E0']
  - torch.sigmoid(input_data['E0'].mean(-1))
""",
    """
inputs:
- {name: E0, dtype: fp32, dims: [K, M], data_gen: torch.randn}
fns:
- {name: Gate, apply: "return [torch.softmax(input[0], 0)[:E_value]]", input_dtype: "Buffer(fp32, [K])",
   output_dtype: "Buffer(fp32, [E])", func_name: fn_gate}
- {name: Top2, apply: "return [torch.zeros_like(input[0]).scatter(0, input[0].topk(2).indices, 1.0)]",
   input_dtype: "Buffer(fp32, [E])", output_dtype: "Multihot(fp32, E)", func_name: fn_top2}
outputs:
- name: S0
  dtype: Multihot(fp32, E)
  dims: [M]
  data_transform: |
    gates = torch.softmax(input_data['E0'], -1)[:, :E_value]
    torch.zeros_like(gates).scatter(1, gates.topk(2).indices, 1.0)
- {name: S1, dtype: "Buffer(fp32, [E])", dims: [M], data_transform: gates}
sizes: {E: 3}
""",
)
"""For each program of Figure 20 a task that declares what it names."""

FIGURE_20 = (
    (
        """E2 = step.Partition(N=E_value).apply((E0, E1))
E3 = [step.Map(fn=fn).apply(s) for fn, s in zip(matmul_fns, E2)]
E4 = step.Merge(fn=fn_sum).apply((E3, E1))
return E4
""",
        """E1_0, E1_1 = step.Copy().apply(E1)
E2 = step.Partition(N=E_value).apply((E0, E1_0))
E3 = [step.Map(fn=fn).apply(s) for fn, s in zip(matmul_fns, E2)]
E4 = step.Merge(fn=fn_sum).apply((E3, E1_1))
return E4
""",
    ),
    (
        """E1 = step.Map(fn=fn_predict).apply(E0)
E2 = step.Map(fn=fn_router).apply(E1)
E3 = step.Map(fn=fn_affinity).apply(E0)
E4 = step.Zip().apply((E0, E3))
return E4
""",
        """E0_0, E0_1 = step.Copy().apply(E0)
E0_2, E0_3 = step.Copy().apply(E0_0)
E1 = step.Map(fn=fn_predict).apply(E0_1)
E2 = step.Map(fn=fn_router).apply(E1)
E3 = step.Map(fn=fn_affinity).apply(E0_2)
E4 = step.Zip().apply((E0_3, E3))
return E4
""",
    ),
    (
        """E1 = step.Bufferize(a=1).apply(E0)
E2 = step.Map(fn=fn_gate).apply(E1)
E3 = step.Map(fn=fn_top2).apply(E2)
return E3, E2
""",
        """E1 = step.Bufferize(a=1).apply(E0)
E2 = step.Map(fn=fn_gate).apply(E1)
E3 = step.Map(fn=fn_top2).apply(E2)
return E3, E2
""",
    ),
)
"""The programs of Figure 20, before and after the guardian."""


@dataclass(frozen=True)
class Mistake:
    """A program with one mistake, and what must be said of it: `where` is `line:column`."""

    name: str
    program: str
    where: str
    code: str
    text: str
    hint: str

    def __str__(self) -> str:
        return self.name


def assert_reported(mistake: Mistake) -> None:
    """One finding, at its place, with its code, text, source line, carets and a hint that repairs it."""
    _, found = check(mistake.program, outputs=True)
    reported = [diagnostic.render(mistake.program, "p") for diagnostic in found]
    assert len(found) == 1, "\n".join(reported)
    first, source, carets, *_ = reported[0].split("\n")
    line, column = map(int, mistake.where.split(":"))
    text = mistake.program.split("\n")[line - 1]
    assert first.startswith(f"p:{mistake.where}: {mistake.code}: ") and mistake.text in first, reported[0]
    assert source == f"  {text.strip()}"
    assert carets.index("^") - 2 == column - 1 - (len(text) - len(text.lstrip()))
    assert found[0].hint and mistake.hint in found[0].hint, reported[0]


TUPLES = """\
inputs:
- {name: G, dtype: [fp32, "Buffer(fp32, [D])"], dims: [N, M], data_gen: torch.randn}
fns:
- {name: Scale, apply: "return [input[0] * input[1]]", input_dtype: [fp32, "Buffer(fp32, [D])"],
   output_dtype: "Buffer(fp32, [D])", func_name: fn_scale}
- {name: Sum, apply: "return [state[0] + input[0]]", init: [0], input_dtype: "Buffer(fp32, [D])",
   output_dtype: "Buffer(fp32, [D])", func_name: fn_sum}
outputs:
- name: S
  dtype: Buffer(fp32, [D])
  dims: [M]
  data_transform: |
    weight, rows = input_data['G']
    torch.einsum('mn,mnd->md', weight, rows)
"""
"""A task whose input is a stream of tuples."""
