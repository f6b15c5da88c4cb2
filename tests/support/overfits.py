"""Programs that are right wherever their task tries them, and wrong elsewhere, each beside one that is right."""

from collections.abc import Mapping
from dataclasses import dataclass

from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task


@dataclass(frozen=True)
class Overfit:
    """A task, a program that is right, and one that fits what the task tries."""

    task: Task
    right: str
    wrong: str


_TASK = """
inputs:
- {{name: X, dtype: "{taken}", dims: [{dims}], data_gen: {data_gen}}}
fns:
- {{name: Add, apply: 'return [state[0] + input[0]]', init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}}
- {{name: Right, apply: 'return [{right}]', input_dtype: "{taken}", output_dtype: "{given}", func_name: fn_right}}
- {{name: Wrong, apply: 'return [{wrong}]', input_dtype: "{taken}", output_dtype: "{given}", func_name: fn_wrong}}
outputs:
- {{name: Y, dtype: "{given}", dims: [{results}], data_transform: "{reference}"}}
sizes: {sizes}
"""


def _task(name: str, dims: str, sizes: str, reference: str, right: str, wrong: str, data_gen: str,
          taken: str = "fp32", given: str = "fp32") -> Task:  # fmt: skip
    """A stream of N; `$x` stands for the data of its reference and its functions."""
    code = {"reference": reference.replace("$x", "input_data['X']"), "sizes": sizes, "data_gen": data_gen}
    code |= {"right": right.replace("$x", "input[0]"), "wrong": wrong.replace("$x", "input[0]")}
    return loads_task(_TASK.format(**code, taken=taken, given=given, dims=dims, results="N"), name)


def _elements(name: str, sizes: str, reference: str, right: str, wrong: str, *, taken: str = "fp32",
              given: str = "fp32", data_gen: str = "torch.randn") -> Overfit:  # fmt: skip
    """A function of each element."""
    task = _task(name, "N", sizes, reference, right, wrong, data_gen, taken, given)
    return Overfit(task, *(f"return step.Map(fn=fn_{each}).apply(X)" for each in ("right", "wrong")))


def _sums(name: str, sizes: str, reference: str, right: str, wrong: str, *, data_gen: str = "torch.randn",
          first: bool = False) -> Overfit:  # fmt: skip
    """A function of the sums over M, or the sums of a function, which comes `first`."""
    task = _task(name, "M, N", sizes, reference, right, wrong, data_gen)
    add, inner = "step.Accum(fn=fn_add, b=1).apply({})", "step.Map(fn=fn_{}).apply({})"
    texts = [
        add.format(inner.format(each, "X")) if first else inner.format(each, add.format("X"))
        for each in ("right", "wrong")
    ]
    return Overfit(task, *(f"return {text}" for text in texts))


def _repeated(name: str, sizes: str, count: str) -> Overfit:
    """Each element M times, or as many times as a program counts."""
    task = loads_task(
        "inputs:\n- {name: X, dtype: fp32, dims: [N], data_gen: torch.randn}\n"
        "outputs:\n- name: Y\n  dtype: fp32\n  dims: [M, N]\n"
        f"  data_transform: \"input_data['X'][:, None].expand(-1, M_value)\"\nsizes: {sizes}\n",
        name,
    )
    return Overfit(task, "return step.Repeat(n=M).apply(X)", f"return step.Repeat(n={count}).apply(X)")


_MATRIX, _ROW = "Buffer(fp32, [D, K])", "Buffer(fp32, [D])"
_MAXIMA = "($x == $x.amax(-1, keepdim=True)).double().sum(-1)"

PLANTED: Mapping[str, Overfit] = {
    overfit.task.name: overfit
    for overfit in (
        _sums("literal", "{M: [4, 4], N: [3, 5]}", "$x.mean(-1)", "$x / M_value", "$x / 4"),
        _repeated("parity", "{M: [4, 6, 10], N: [3, 5, 9]}", "M // 2 * 2"),
        _sums("sign", "{M: [5, 6], N: [7, 4]}", "torch.relu($x).sum(-1)", "torch.relu($x)", "$x",
              data_gen="torch.rand", first=True),
        _elements("distinct", "{N: [3, 4], K: [8, 9], D: [5, 6]}", "$x.sum(-2)", "$x.sum(-2)",
                  "$x.sum(-2) if $x.shape[-2] > $x.shape[-1] else $x.sum(-1)", taken=_MATRIX, given=_ROW),
        _sums("even", "{M: [4, 8], N: [3, 5]}", "$x.sum(-1) * (M_value // 2)", "$x * (M_value // 2)",
              "$x * M_value / 2"),
        _sums("order", "{M: [2, 3, 4], N: [4, 6, 9]}", "$x.sum(-1) * M_value", "$x * M_value",
              "$x * min(M_value, N_value)"),
        _elements("domain", "{N: [4, 7]}", "$x.abs().sqrt()", "$x.abs().sqrt()", "$x.sqrt()", data_gen="torch.rand"),
        _elements("ties", "{N: [4, 7], D: [5, 6]}", _MAXIMA, "($x == $x.max()).to($x.dtype).sum()", "$x.max() * 0 + 1",
                  taken=_ROW),
        _sums("powers", "{M: [2, 4, 8], N: [3, 5, 6]}", "$x.mean(-1)", "$x / M_value",
              "$x / 2 ** (M_value.bit_length() - 1)"),
        _repeated("divisor", "{M: [4, 8, 12], N: [3, 5, 9]}", "M // 4 * 4"),
        _sums("apart", "{M: [4, 6, 7], N: [3, 5, 9]}", "$x.sum(-1)", "$x", "$x * (1 if M_value != N_value else 2)"),
        _sums("single", "{M: [1, 1], N: [3, 5]}", "$x.mean(-1)", "$x / M_value", "$x"),
        _elements("constant", "{N: [4, 7]}", "$x * 3.141592653589793", "$x * 3.141592653589793", "$x * 3.14159265"),
        _elements("epsilon", "{N: [4, 7]}", "$x / ($x.abs() + 1e-12)", "$x / ($x.abs() + 1e-12)", "$x / $x.abs()"),
        _elements("threshold", "{N: [4, 7]}", "torch.where($x > 50, $x * 2, $x)", "torch.where($x > 50, $x * 2, $x)",
                  "$x + 0"),
        _elements("square", "{N: [3, 4], K: [5, 6], D: [5, 6]}", "$x.sum(-2) / D_value", "$x.sum(-2) / D_value",
                  "$x.sum(-2) / K_value", taken=_MATRIX, given=_ROW),
        _sums("small", "{M: [3, 4, 5], N: [3, 5, 6]}", "$x.sum(-1)", "$x", "$x * min(5, M_value) / M_value"),
    )
}  # fmt: skip
"""By name: sizes as literals, parities, orders, divisors, equal dims, signs, ties, and numbers out of reach."""
