"""Small tasks for the tests of synthesis."""

import textwrap

from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task


def task(text: str, name: str = "small") -> Task:
    """A task from its YAML, its code not run."""
    return loads_task(textwrap.dedent(text), name)


def of_scalars(fns: dict[str, tuple[str, int]], reference: str, dims: str = "[D, N]", out: str = "[D, N]") -> Task:
    """One scalar input E0; functions as `name: (expression of input, number of inputs)`, 0 for one with state 0."""
    listed = "".join(
        f"- {{name: {name}, apply: 'return [{code}]', {'init: [0], ' if not count else ''}"
        f"input_dtype: {'fp32' if count < 2 else '[' + ', '.join(['fp32'] * count) + ']'}, output_dtype: fp32,"
        f" func_name: fn_{name}}}\n"
        for name, (code, count) in fns.items()
    )
    return loads_task(
        f"inputs:\n- {{name: E0, dtype: fp32, dims: {dims}, data_gen: torch.randn}}\nfns:\n{listed}"
        f'outputs:\n- name: S0\n  dtype: fp32\n  dims: {out}\n  data_transform: "{reference}"\n',
        "scalars",
    )
