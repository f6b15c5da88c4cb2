"""A small layer for tests of splitting: a norm, two projections of what it gives, and a gate."""

from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task

TEXT = """\
inputs:
- {name: x, dtype: "Buffer(fp32, [D])", dims: [N, B], data_gen: torch.randn}
parameters:
- {name: Wu, dtype: fp32, dims: [D, F], data_gen: torch.randn}
- {name: Wg, dtype: fp32, dims: [D, F], data_gen: torch.randn}
fns:
- name: MeanSquare
  apply: return [(input[0] * input[0]).mean()]
  input_dtype: Buffer(fp32, [D])
  output_dtype: fp32
  func_name: fn_meansquare
- name: Scale
  apply: return [input[0] * torch.rsqrt(input[1] + 1e-5)]
  input_dtype: ["Buffer(fp32, [D])", fp32]
  output_dtype: Buffer(fp32, [D])
  func_name: fn_scale
- name: Up
  apply: return [input_data['Wu'] @ input[0]]
  input_dtype: Buffer(fp32, [D])
  output_dtype: Buffer(fp32, [F])
  func_name: fn_up
- name: Gate
  apply: return [torch.sigmoid(input_data['Wg'] @ input[0])]
  input_dtype: Buffer(fp32, [D])
  output_dtype: Buffer(fp32, [F])
  func_name: fn_gate
- name: Product
  apply: return [input[0] * input[1]]
  input_dtype: ["Buffer(fp32, [F])", "Buffer(fp32, [F])"]
  output_dtype: Buffer(fp32, [F])
  func_name: fn_product
outputs:
- name: y
  dtype: Buffer(fp32, [F])
  dims: [N, B]
  data_transform:
  - |
    n = torch.nn.functional.rms_norm(input_data['x'], (D_value,), eps=1e-5)
    gate = torch.sigmoid(n @ input_data['Wg'].T)
    gate * (n @ input_data['Wu'].T)
sizes: {N: [4, 5], B: [2, 3], D: [6, 7], F: [3, 8]}
"""


def layer(text: str = TEXT, name: str = "layer") -> Task:
    """The layer as a task."""
    return loads_task(text, name)


NORM = """\
a, b = step.Copy().apply(x)
c = step.Map(fn=fn_meansquare).apply(b)
d = step.Zip().apply((a, c))
e = step.Map(fn=fn_scale).apply(d)
return e
"""
GATE = "a = step.Map(fn=fn_gate).apply(n)\nreturn a\n"
PRODUCT = """\
a = step.Map(fn=fn_up).apply(n)
b = step.Zip().apply((gate, a))
c = step.Map(fn=fn_product).apply(b)
return c
"""
"""Programs for the sub-tasks `n`, `gate` and `y`."""
