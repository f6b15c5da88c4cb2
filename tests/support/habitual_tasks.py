"""Small tasks with a fold or a routing that types leave open, and solved tasks that settle them under other names."""

from __future__ import annotations

from pipeline.lms.embedded.prompt.parsing import SolvedExample
from pipeline.lms.embedded.retrieval.precedents import Precedents, precedents_for
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task

FOLDED = """
inputs: [{{name: E0, dtype: fp32, dims: [{dims}], data_gen: torch.randn}}]
fns:
- {{name: Fold, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: {fn}}}
outputs: [{{name: S0, dtype: fp32, dims: [{dims}], data_transform: unreadable()}}]
"""
ROUTED = """
inputs:
- {{name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}}
- {{name: E1, dtype: "Multihot(fp32, 2)", dims: [N], data_gen: binary}}
fns:
- {{name: One, apply: "return [torch.{one}(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_one}}
- {{name: Two, apply: "return [torch.{two}(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_two}}
- {{name: Low, apply: "return [torch.minimum(state[0], input[0])]", init: [inf], input_dtype: fp32,
   output_dtype: fp32, func_name: fn_low}}
- {{name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}}
outputs: [{{name: S0, dtype: fp32, dims: [N], data_transform: unreadable()}}]
"""
ROUTE = """\
E2, E3 = step.Copy().apply(E1)
E4 = step.Partition(N=2).apply((E0, E2))
E5 = step.Map(fn=fn_one).apply(E4[0])
E6 = step.Map(fn=fn_two).apply(E4[1])
E7 = step.Merge(fn=fn_add).apply(([E5, E6], E3))
"""
VIEW = TaskView(loads_task(FOLDED.format(dims="M, N, K", fn="fn_fold")))
ROUTED_VIEW = TaskView(loads_task(ROUTED.format(one="tanh", two="sin")))
BLOCKS = """
inputs:
- {name: left, dtype: fp32, dims: [M, N], data_gen: torch.randn}
- {name: kept, dtype: "Multihot(fp32, 1)", dims: [M, N], min: 0, max: 1}
- {name: right, dtype: fp32, dims: [M], data_gen: torch.randn}
fns:
- {name: Times, apply: "return [input[0] * input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32,
   func_name: fn_times}
- {name: Sum, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_sum}
outputs:
- {name: O, dtype: fp32, dims: [N],
   data_transform: "(input_data['left'] * input_data['kept'][..., 0]) @ input_data['right']"}
sizes: {M: 4, N: 3}
"""
"""One function for the elements whose bit is set; what merges them folds the result as well."""


def folded(b: int, dims: str = "D, K, N") -> SolvedExample:
    """A running fold of the innermost `b` dims."""
    task = loads_task(FOLDED.format(dims=dims, fn="fn_other"))
    return SolvedExample(task, f"E1 = step.Scan(fn=fn_other, b={b}).apply(E0)\nreturn E1\n")


def routed(last: str) -> SolvedExample:
    """A routing that `fn_add` merges, and a fold of the innermost dim by a function: its merging one, or another."""
    task = loads_task(ROUTED.format(one="exp", two="relu"))
    return SolvedExample(task, f"{ROUTE}E8 = step.Accum(fn={last}, b=1).apply(E7)\nreturn E8\n")


def taught(view: TaskView, *demonstrations: SolvedExample) -> Precedents:
    """What solved tasks teach about another one."""
    return precedents_for(view, ((), demonstrations))


TWICE_ROUTED = """
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}
- {name: E1, dtype: "Multihot(fp32, 2)", dims: [N], data_gen: binary}
fns:
- {name: One, apply: "return [torch.tanh(input[0])]", input_dtype: fp32, output_dtype: "Buffer(fp32, [2])",
   func_name: fn_one}
- {name: Two, apply: "return [torch.sin(input[0])]", input_dtype: fp32, output_dtype: "Buffer(fp32, [2])",
   func_name: fn_two}
- {name: Join, apply: "return [state[0] + input[0]]", init: [0], input_dtype: "Buffer(fp32, [2])",
   output_dtype: "Buffer(fp32, [2])", func_name: fn_join}
- {name: Three, apply: "return [input[0].sum()]", input_dtype: "Buffer(fp32, [2])", output_dtype: fp32,
   func_name: fn_three}
- {name: Four, apply: "return [input[0].prod()]", input_dtype: "Buffer(fp32, [2])", output_dtype: fp32,
   func_name: fn_four}
- {name: Low, apply: "return [torch.minimum(state[0], input[0])]", init: [inf], input_dtype: fp32,
   output_dtype: fp32, func_name: fn_low}
outputs: [{name: S0, dtype: fp32, dims: [N], data_transform: unreadable()}]
"""
EXIT = """
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}
- {name: E1, dtype: "Multihot(fp32, 2)", dims: [N], data_gen: binary}
fns:
- {name: One, apply: "return [torch.tanh(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_one}
- {name: Two, apply: "return [torch.sin(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_two}
- {name: Three, apply: "return [torch.cos(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_three}
- {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}
outputs:
- name: S0
  dtype: fp32
  dims: [M, N]
  data_transform: |
    leaving, staying = input_data['E1'].unsqueeze(1).unbind(-1)
    x = input_data['E0'].tanh()
    leaving * x + staying * x.sin().cos()
"""
"""Some elements pass a chain of two functions more than others."""
