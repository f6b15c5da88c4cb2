"""Solved tasks whose programs share a part: every element against a fold of its row."""

from __future__ import annotations

from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import SolvedTask

NORMALIZED = """\
K0, K1 = step.Copy().apply(E0)
S0 = step.Accum(fn=fn_{fold}, b=1).apply(K0)
R0 = step.Repeat(n={dim}).apply(S0)
Z0 = step.Zip().apply((K1, R0))
"""


def solved(name: str, dims: str, fold: str, joined: str, lines: str) -> SolvedTask:
    """A task of two functions with a program that begins as `NORMALIZED`."""
    dim = dims.split(", ", maxsplit=1)[0]
    text = f"""\
inputs: [{{name: E0, dtype: fp32, dims: [{dims}], data_gen: torch.rand}}]
fns:
- {{name: Fold, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_{fold}}}
- {{name: Join, apply: "return [input[0] / input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32,
   func_name: fn_{joined}}}
- {{name: One, apply: "return [input[0] + 1]", input_dtype: fp32, output_dtype: fp32, func_name: fn_one}}
outputs: [{{name: O0, dtype: fp32, dims: [{dims}], data_transform: ["input_data['E0']"]}}]
"""
    program = NORMALIZED.format(fold=fold, dim=dim) + f"M0 = step.Map(fn=fn_{joined}).apply(Z0)\n" + lines
    return SolvedTask(loads_task(text, name), program)


PLAIN = solved("plain", "M, N", "sum", "div", "return M0\n")
LONGER = solved("longer", "K, D", "add", "over", "M1 = step.Map(fn=fn_one).apply(M0)\nreturn M1\n")
