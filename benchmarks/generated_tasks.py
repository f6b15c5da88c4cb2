"""Writes any number of tasks by level of depth: `python -m benchmarks.generated_tasks --level 3 --count 20 -o FOLDER`.

A task grows from an input by as many steps as its level says. A step adds functions, lines of the program, and the same
in idiomatic PyTorch to the reference. The kinds of steps: an elementwise function, a second operand, a fold of the
innermost dim, a running fold, a recurrence over time, a normalization by a fold, a repetition against an operand, the
way into a Buffer and out of it, a function of a Buffer, a routed choice between two functions.

A task is kept if its program passes the verifier, if loading it warns of nothing (such as an input that no output
reads, or a constant output), and if no other task of the set has the same program over the same functions. A seed gives
the same tasks everywhere. The oracle of `NAME.yaml` is `NAME.step` beside it.

`--families 26 --count 4` writes families in place of levels: the tasks of one take the same kinds of steps, each with
functions, dims and element types of its own. Their oracles take 2 to 12 decisions, the lines that are no Copy, which
grow from the first family to the last.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, cast

from pipeline.base.files import write_text
from step_runtime.base.errors import TaskError
from step_runtime.language.canonical import canonical_key
from step_runtime.tasks.task import Task, dump_task
from step_runtime.verification.loading import load_task
from step_runtime.verification.verify import verify

SYMBOLS = ("M", "N", "K", "D")
SIZES = {"M": [5, 3], "N": [2, 4], "K": [3, 6], "D": [4, 2]}
LEVELS = range(1, 9)
MOST_DECISIONS = 12

UNARY = {
    "Tanh": "torch.tanh({})", "Sigmoid": "torch.sigmoid({})", "Relu": "torch.relu({})", "Square": "{} ** 2",
    "Silu": "torch.nn.functional.silu({})", "Softplus": "torch.nn.functional.softplus({})", "Sine": "torch.sin({})",
    "Log": "torch.log1p({}.abs())", "Root": "torch.sqrt({}.abs() + 1)", "Half": "0.5 * {}",
    "Bell": "torch.exp(-({} ** 2))", "Affine": "2 * {} - 1",
}  # fmt: skip
BINARY = {
    "Add": "{} + {}", "Sub": "{} - {}", "Mul": "{} * {}", "Max": "torch.maximum({}, {})",
    "Gate": "{} * torch.sigmoid({})", "Ratio": "{} / (1 + {}.abs())", "Min": "torch.minimum({}, {})",
}  # fmt: skip
# By name: the step from `state[0]` and `input[0]`, its initial state, a tensor's fold over a dim, and its running fold.
FOLDS = {
    "Sum": ("state[0] + input[0]", "0", "{}.sum({})", "{}.cumsum({})"),
    "Largest": ("torch.maximum(state[0], input[0])", "-inf", "{}.amax({})", "{}.cummax({}).values"),
    "Smallest": ("torch.minimum(state[0], input[0])", "inf", "{}.amin({})", "{}.cummin({}).values"),
    "Energy": ("state[0] + input[0] ** 2", "0", "({} ** 2).sum({})", "({} ** 2).cumsum({})"),
}
RECURRENCES = {
    "Decay": ("0.5 * state[0] + input[0]", "0.5 * h + {}"),
    "Leak": ("0.9 * state[0] + 0.1 * input[0]", "0.9 * h + 0.1 * {}"),
    "Saturate": ("torch.tanh(state[0] + input[0])", "torch.tanh(h + {})"),
}
OF_BUFFER = {
    "Softmax": ("torch.softmax({}, -1)", False), "Unit": ("torch.nn.functional.normalize({}, dim=-1)", False),
    "Center": ("{0} - {0}.mean(-1, keepdim=True)", False), "Total": ("{}.sum(-1)", True),
    "Peak": ("{}.amax(-1)", True), "Norm": ("torch.linalg.vector_norm({}, dim=-1)", True),
}  # fmt: skip


@dataclass(frozen=True)
class Value:
    """What the last step gave: its stream's name, its dims and those of its Buffer, innermost first, and its tensor."""

    stream: str
    dims: tuple[str, ...]
    buffer: tuple[str, ...]
    tensor: str

    @property
    def dtype(self) -> str:
        """The element type, as a task file has it."""
        return f"Buffer(fp32, [{', '.join(self.buffer)}])" if self.buffer else "fp32"

    @property
    def inner(self) -> int:
        """The torch dim of the innermost stream dim, from the end."""
        return -1 - len(self.buffer)


@dataclass
class Draft:
    """A task in the making."""

    rng: random.Random
    inputs: list[dict[str, Any]] = field(default_factory=list)
    fns: dict[str, dict[str, Any]] = field(default_factory=dict)
    program: list[str] = field(default_factory=list)
    reference: list[str] = field(default_factory=list)
    _names: int = 0

    def take(self, dims: Sequence[str], dtype: str, data: str = "torch.randn") -> Value:
        """A new input."""
        name = f"E{len(self.inputs)}"
        self.inputs.append({"name": name, "dtype": dtype, "dims": list(dims), "data_gen": data})
        buffer = tuple(dtype.partition("[")[2].rstrip("])").split(", ")) if dtype.startswith("Buffer") else ()
        return Value(name, tuple(dims), buffer, f"input_data['{name}']")

    def function(self, name: str, code: str, taken: str | list[str], given: str, init: str | None = None) -> str:
        """The name of a function, declared once for each type."""
        spec: dict[str, Any] = {"apply": f"return [{code}]"}
        if init is not None:
            spec["init"] = [init if "inf" in init else int(init)]
        spec |= {"input_dtype": taken, "output_dtype": given}
        for known in self.fns.values():
            if {key: known[key] for key in spec if key in known} == spec and ("init" in known) == ("init" in spec):
                return str(known["func_name"])
        called = f"fn_{name.lower()}" if f"fn_{name.lower()}" not in self.fns else f"fn_{name.lower()}_{len(self.fns)}"
        self.fns[called] = {"name": called[3:].title().replace("_", ""), **spec, "func_name": called}
        return called

    def add(self, primitive: str, *streams: str) -> str:
        """The stream that a new line of the program makes."""
        self._names += 1
        taken = streams[0] if len(streams) == 1 else f"({', '.join(streams)})"
        self.program.append(f"S{self._names} = step.{primitive}.apply({taken})")
        return f"S{self._names}"

    def copy(self, stream: str) -> tuple[str, str]:
        """Two streams of one."""
        self._names += 2
        one, other = f"S{self._names - 1}", f"S{self._names}"
        self.program.append(f"{one}, {other} = step.Copy().apply({stream})")
        return one, other

    def let(self, expression: str) -> str:
        """The variable of the reference that holds an expression."""
        name = f"x{len(self.reference)}"
        self.reference.append(f"{name} = {expression}")
        return name


Step = Callable[[Draft, Value], Value | None]


def elementwise(draft: Draft, value: Value) -> Value:
    """A function of each number."""
    name, code = draft.rng.choice([*UNARY.items()])
    fn = draft.function(name, code.format("input[0]"), value.dtype, value.dtype)
    return replace(value, stream=draft.add(f"Map(fn={fn})", value.stream), tensor=draft.let(code.format(value.tensor)))


def operand(draft: Draft, value: Value) -> Value:
    """A function of two inputs, the other one new."""
    other = draft.take(value.dims, value.dtype)
    return _zipped(draft, value, value.stream, other.stream, other.tensor)


def fold(draft: Draft, value: Value) -> Value | None:
    """The innermost dim folded."""
    if len(value.dims) < 2:
        return None
    name, (code, init, whole, _) = draft.rng.choice([*FOLDS.items()])
    fn = draft.function(name, code, value.dtype, value.dtype, init)
    tensor = draft.let(whole.format(value.tensor, value.inner))
    return Value(draft.add(f"Accum(fn={fn}, b=1)", value.stream), value.dims[1:], value.buffer, tensor)


def running_fold(draft: Draft, value: Value) -> Value | None:
    """A fold of the innermost dim, with every intermediate result."""
    if len(value.dims) < 2:
        return None
    name, (code, init, _, running) = draft.rng.choice([*FOLDS.items()])
    fn = draft.function(name, code, value.dtype, value.dtype, init)
    stream, tensor = draft.add(f"Scan(fn={fn}, b=1)", value.stream), running.format(value.tensor, value.inner)
    return replace(value, stream=stream, tensor=draft.let(tensor))


def recurrence(draft: Draft, value: Value) -> Value | None:
    """A recurrence along the innermost dim, which the reference writes as a loop over time."""
    if len(value.dims) < 2:
        return None
    name, (code, loop) = draft.rng.choice([*RECURRENCES.items()])
    fn = draft.function(name, code, value.dtype, value.dtype, "0")
    number, at = len(draft.reference), f"{value.tensor}.select({value.inner}, t)"
    draft.reference.append(
        f"h, hs{number} = 0, []\nfor t in range({value.dims[0]}_value):\n"
        f"    h = {loop.format(at)}\n    hs{number}.append(h)"
    )
    tensor = draft.let(f"torch.stack(hs{number}, {value.inner})")
    return replace(value, stream=draft.add(f"Scan(fn={fn}, b=1)", value.stream), tensor=tensor)


def normalization(draft: Draft, value: Value) -> Value | None:
    """Every element against a fold of its innermost dim."""
    if len(value.dims) < 2:
        return None
    name, (code, init, whole, _) = draft.rng.choice([*FOLDS.items()])
    kept, folded = draft.copy(value.stream)
    fn = draft.function(name, code, value.dtype, value.dtype, init)
    folded = draft.add(f"Accum(fn={fn}, b=1)", folded)
    folded = draft.add(f"Repeat(n={value.dims[0]})", folded)
    return _zipped(draft, value, kept, folded, f"{whole.format(value.tensor, value.inner)}.unsqueeze({value.inner})")


def repetition(draft: Draft, value: Value) -> Value | None:
    """Every element against each of a new innermost dim of an operand."""
    free = [symbol for symbol in SYMBOLS if symbol not in (*value.dims, *value.buffer)]
    if not free or len(value.dims) > 2:
        return None
    dim = draft.rng.choice(free)
    other = draft.take((dim, *value.dims), value.dtype)
    wide = replace(value, dims=other.dims, tensor=f"{value.tensor}.unsqueeze({value.inner})")
    return _zipped(draft, wide, draft.add(f"Repeat(n={dim})", value.stream), other.stream, other.tensor)


def into_buffer(draft: Draft, value: Value) -> Value | None:
    """The innermost dim held on chip."""
    if len(value.dims) < 2 or value.buffer:
        return None
    return Value(draft.add("Bufferize(a=1)", value.stream), value.dims[1:], value.dims[:1], value.tensor)


def out_of_buffer(draft: Draft, value: Value) -> Value | None:
    """A Buffer's dims as stream dims."""
    if not value.buffer:
        return None
    return Value(draft.add("Streamify()", value.stream), (*value.buffer, *value.dims), (), value.tensor)


def of_buffer(draft: Draft, value: Value) -> Value | None:
    """A function of a whole Buffer of one dim."""
    if len(value.buffer) != 1:
        return None
    name, (code, folds) = draft.rng.choice([*OF_BUFFER.items()])
    fn = draft.function(name, code.format("input[0]"), value.dtype, "fp32" if folds else value.dtype)
    stream, tensor = draft.add(f"Map(fn={fn})", value.stream), draft.let(code.format(value.tensor))
    return Value(stream, value.dims, () if folds else value.buffer, tensor)


def routed(draft: Draft, value: Value) -> Value | None:
    """Each slice of the outermost dim through those of two functions that an index chooses, summed."""
    if len(value.dims) < 2 and not value.buffer:
        return None
    index = draft.take(value.dims[-1:], "Multihot(fp32, 2)", "binary")
    names = draft.rng.sample([*UNARY], 2)
    fns = [draft.function(name, UNARY[name].format("input[0]"), value.dtype, value.dtype) for name in names]
    total = draft.function("Combine", FOLDS["Sum"][0], value.dtype, value.dtype, "0")
    chosen, merged = draft.copy(index.stream)
    parts = draft.add("Partition(N=2)", value.stream, chosen)
    mapped = [draft.add(f"Map(fn={fn})", f"{parts}[{place}]") for place, fn in enumerate(fns)]
    stream = draft.add(f"Merge(fn={total})", f"[{', '.join(mapped)}]", merged)
    rank = len(value.dims) + len(value.buffer) - 1
    terms = [
        f"{index.tensor}[:, {place}].reshape(-1{', 1' * rank}) * ({UNARY[name].format(value.tensor)})"
        for place, name in enumerate(names)
    ]
    return replace(value, stream=stream, tensor=draft.let(" + ".join(terms)))


STEPS: tuple[Step, ...] = (
    elementwise, operand, fold, running_fold, recurrence, normalization, repetition, into_buffer, out_of_buffer,
    of_buffer, routed,
)  # fmt: skip


def _zipped(draft: Draft, value: Value, one: str, other: str, tensor: str) -> Value:
    name, code = draft.rng.choice([*BINARY.items()])
    fn = draft.function(name, code.format("input[0]", "input[1]"), [value.dtype, value.dtype], value.dtype)
    stream = draft.add(f"Map(fn={fn})", draft.add("Zip()", one, other))
    return replace(value, stream=stream, tensor=draft.let(code.format(value.tensor, tensor)))


def grow(level: int, rng: random.Random, kinds: Sequence[Step] = ()) -> tuple[Task, str] | None:
    """A task of `level` steps, of these kinds if any, and its oracle; it may turn out to be useless.

    None: a kind of step can't follow.
    """
    draft = Draft(rng)
    symbols = rng.sample(SYMBOLS, 4)
    dims, buffer = symbols[: rng.choice((2, 2, 3))], symbols[3:]
    value = draft.take(dims, f"Buffer(fp32, [{buffer[0]}])" if rng.random() < 0.4 else "fp32")
    last: Step | None = None
    for place in range(level):
        if kinds:
            if (after := kinds[place](draft, value)) is None:
                return None
            value = after
            continue
        # The way out of a Buffer undoes the way in, and a function of the same kind says little more.
        steps = [step for step in STEPS if step is not last and {step, last} != {into_buffer, out_of_buffer}]
        after = None
        while after is None:
            after = (last := rng.choice(steps))(draft, value)
        value = after
    *before, last_line = draft.reference or [f"x = {value.tensor}"]
    snippet = "\n".join([*before, last_line.partition(" = ")[2]]) + "\n"
    output = {"name": "O0", "dtype": value.dtype, "dims": list(value.dims), "data_transform": [snippet]}
    named = str([(spec["dims"], spec["dtype"]) for spec in (*draft.inputs, output)])
    sizes = {symbol: SIZES[symbol] for symbol in SYMBOLS if re.search(rf"\b{symbol}\b", named)}
    task = Task.model_validate(
        {"inputs": draft.inputs, "fns": list(draft.fns.values()), "outputs": [output], "sizes": sizes}
    )
    return task, "\n".join([*draft.program, f"return {value.stream}"]) + "\n"


def generate(level: int, count: int, seed: int) -> Iterator[tuple[Task, str]]:
    """Tasks named `lLEVEL/NUMBER`, with their oracles; different from each other.

    Raises:
        ValueError: The level has no more different tasks, as far as ten thousand attempts show.
    """
    rng, known, number = random.Random(f"{level} {seed}"), set[str](), 0
    for _ in range(10_000):
        if number == count:
            return
        task, program = cast(tuple[Task, str], grow(level, rng))
        key = f"{canonical_key(program)} {[(spec.func_name, spec.apply) for spec in task.fns]}"
        if key not in known and is_useful(task, program):
            known.add(key)
            yield task.named(f"l{level}/{number}"), program
            number += 1
    raise ValueError(f"level {level} has no more than {number} different tasks")


def families(count: int, members: int, seed: int) -> Iterator[tuple[Task, str]]:
    """Tasks named `fFAMILY/NUMBER`, with their oracles; the families take 2 to 12 decisions, spread evenly."""
    rng, known, number = random.Random(f"families {seed}"), set[tuple[Step, ...]](), 0
    while number < count:
        wanted = MOST_DECISIONS * number // count + 1
        kinds = tuple(rng.choice(STEPS) for _ in range(rng.randint(2, 7)))
        if kinds in known or any({*pair} == {into_buffer, out_of_buffer} for pair in pairwise(kinds)):
            continue
        found = dict[str, tuple[Task, str]]()
        for _ in range(10 * members):
            grown = grow(len(kinds), rng, kinds)
            if grown is None or not max(2, wanted - 1) <= decisions(grown[1]) <= wanted + 1:
                continue
            key = f"{canonical_key(grown[1])} {[(spec.func_name, spec.apply) for spec in grown[0].fns]}"
            if key not in found and is_useful(*grown):
                found[key] = grown
            if len(found) == members:
                known.add(kinds)
                for place, (task, program) in enumerate(found.values()):
                    yield task.named(f"f{number:02}/{place}"), program
                number += 1
                break


def decisions(program: str) -> int:
    """The lines that are no Copy, without the last."""
    return sum("step." in line and "step.Copy()" not in line for line in program.splitlines())


def is_useful(task: Task, program: str) -> bool:
    """Whether the program passes, and loading the task warns of nothing."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            write(Path(folder), task, program)
            return verify(load_task(Path(folder) / f"{task.name}.yaml"), program).passed
        except (TaskError, UserWarning):
            return False


def write(folder: Path, task: Task, program: str) -> None:
    """Writes a task's file and its oracle."""
    path = folder / f"{task.name}.yaml"
    write_text(path, dump_task(task))
    write_text(path.with_suffix(".step"), program)


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the files."""
    parser = argparse.ArgumentParser(prog="benchmarks.generated_tasks", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--level", type=int, choices=LEVELS, nargs="+", default=[1, 2, 3, 4], metavar="LEVEL")
    parser.add_argument("--families", type=int, help="so many families in place of levels")
    parser.add_argument("--count", type=int, default=20, help="tasks per level or family (default: 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args(argv)
    made = chain.from_iterable(generate(level, options.count, options.seed) for level in options.level)
    if options.families:
        made = chain(families(options.families, options.count, options.seed))
    number = 0
    for task, program in made:
        write(options.output, task, program)
        number += 1
    print(f"{number} tasks in {options.output}", file=sys.stderr)


if __name__ == "__main__":
    main()
