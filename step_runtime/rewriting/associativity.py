"""Whether folding the folds of parts by a function gives the fold of the whole.

It does if the function is associative and its initial state is the unit. These laws are a task and a program of their
own, in which the function's code stands on both sides: the verifier tries them, and its exact arithmetic decides.
"""

from __future__ import annotations

import textwrap
from typing import Any

from step_runtime.base.errors import TaskError
from step_runtime.base.types import components_of
from step_runtime.tasks.task import FnSpec, Task
from step_runtime.verification.verify import verify

_DATA = {"float": "torch.randn", "bool": "binary"}


def why_not_merged(task: Task, label: str) -> str | None:
    """Why it is not proved, at the task's first set of sizes; None if it is."""
    place = next(number for number, spec in enumerate(task.fns) if spec.func_name == label)
    taken, given = task.fn_types[place]
    if task.fns[place].init is None or taken != given:
        return "its state and its elements are of different types"
    try:
        verdict = verify(*_laws(task, task.fns[place], len(components_of(given))), exact=True)
    except TaskError as error:
        return str(error)
    if verdict.exact is None:
        return "it is not associative on random elements, or its initial state is no unit"
    return None if verdict.exact.answer == "proved" else verdict.exact.reason


def _laws(task: Task, fn: FnSpec, count: int) -> tuple[Task, str]:
    """A task whose outputs are a∘(b∘c) and d, and a program for (a∘b)∘c and unit∘d."""
    parts = components_of(task.fn_types[task.fns.index(fn)][1])
    types, body = [str(part) for part in parts], textwrap.dedent(fn.apply)
    a, b, c, d = ([f"law_{name}{part}" for part in range(count)] for name in "abcd")
    one, two, three = (f"[{', '.join(f'input_data[{name!r}][0]' for name in names)}]" for names in (a, b, c))
    code = f"def law(state, input):\n{textwrap.indent(body, '    ')}\nlaw({one}, law({two}, {three}))"
    start = ", ".join(f"torch.full_like(input[{part}], float('{value}'))" for part, value in enumerate(fn.init or ()))

    def tensor(name: str, part: int) -> dict[str, Any]:
        number = parts[part].format
        data = _DATA.get(number.kind, f"torch.randint({number.least:.0f}, {number.most:.0f} + 1, shape)")
        return {"name": name, "dtype": types[part], "dims": [1], "data_gen": data}

    laws = {
        "global": task.global_,
        "sizes": task.size_sets()[0],
        "inputs": [tensor(name, part) for names in (a, b, c, d) for part, name in enumerate(names)],
        "parameters": [spec.model_dump(exclude_defaults=True) for spec in (*task.inputs, *task.parameters)],
        "fns": [
            {"name": name, "func_name": name, "input_dtype": given, "output_dtype": types, "apply": f"{before}\n{body}"}
            for name, given, before in (
                ("law", [*types, *types], f"state, input = input[:{count}], input[{count}:]"),
                ("law_unit", types, f"state = [{start}]"),
            )
        ],
        "outputs": [
            {"name": name, "dtype": types, "dims": [1], "data_transform": snippets}
            for name, snippets in (
                ("laws", [f"{code}[{part}].unsqueeze(0)" for part in range(count)]),
                ("unit", [f"input_data[{name!r}]" for name in d]),
            )
        ],
    }
    program = f"""\
once = step.Map(fn=law).apply(({", ".join((*a, *b))}))
twice = step.Map(fn=law).apply((once, {", ".join(c)}))
return twice, step.Map(fn=law_unit).apply({d[0] if count == 1 else tuple(d)})
"""
    return Task.model_validate(laws).named(f"{task.name}: laws of {fn.func_name}"), program.replace("'", "")
