"""Random pairs of program texts, one an edit of the other, each judged by verifiers with and without memory.

The edits: a variable renamed, once or everywhere, a line moved, repeated, indented or left out, a loop around it, a
comment, a name swapped.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from random import Random

from step_runtime.language.canonical import canonical_key
from step_runtime.language.parser import read
from step_runtime.program.limits import Limits
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_program
from step_runtime.verification.verdict import Verdict
from step_runtime.verification.verify import Verifier

TASK = loads_task(
    """
sizes: {M: [2, 3], N: [3, 2]}
inputs:
- {name: E0, dtype: fp32, dims: [M, N], data_gen: torch.rand}
- {name: E1, dtype: fp32, dims: [M, N], data_gen: torch.rand}
fns:
- {name: Inc, apply: "return [input[0] + 1]", input_dtype: fp32, output_dtype: fp32, func_name: fn_inc}
- {name: Twice, apply: "return [input[0] * 2]", input_dtype: fp32, output_dtype: fp32, func_name: fn_twice}
- {name: Add, apply: "return [input[0] + input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32, func_name: fn_add}
outputs:
- {name: S0, dtype: fp32, dims: [M, N], data_transform: ["(input_data['E0'] + 1) * 2"]}
""",
    "edits",
)
NAMES = ("a", "b", "c", "n", "m", "E0", "E1", "x")


def graph_key(text: str, task: Task) -> str:
    """A key that two texts share only if they are well-typed and give the same graphs, which are run once."""
    programs = []
    for sizes in task.size_sets():
        checked = check_program(read(text), static_scope(task, sizes=sizes), Limits(), 8)
        if checked.found:
            return f"text:{text}"
        programs.append(checked.key)
    return "\n".join(["graphs:", *programs])


@dataclass
class Figures:
    """The results of the pairs."""

    pairs: int = 0
    of_one_graph: int = 0
    of_one_tree: int = 0
    passing: int = 0
    disagreeing: list[tuple[str, str]] = field(default_factory=list)


def program(rng: Random) -> str:
    """A random program, right or wrong, with loops, comprehensions and names bound several times."""
    lines: list[str] = []
    for _ in range(rng.randint(1, 5)):
        a, b, c = (rng.choice(NAMES) for _ in range(3))
        fn = rng.choice(("fn_inc", "fn_twice"))
        lines += rng.choice((
            [f"{a} = step.Map(fn={fn}).apply({b})"],
            [f"{a}, {c} = step.Copy().apply({b})"],
            [f"{a} = {b}"],
            ["for f in [fn_inc, fn_twice]:", f"    {a} = step.Map(fn=f).apply({b})", f"    {b} = {c}"],
            [f"for {c} in [{a}, {b}]:", f"    {a} = step.Map(fn={fn}).apply({c})"],
            [f"{a} = [step.Map(fn={fn}).apply({b}) for {b} in [{c}]][0]"],
            [f"{a} = step.Map(fn=fn_add).apply(({b}, {c}))"],
        ))  # fmt: skip
    if rng.random() < 0.5:
        lines = ["a = step.Map(fn=fn_inc).apply(E0)", "n = step.Map(fn=fn_twice).apply(a)", *lines[:2]]
    return "\n".join([*lines, f"return {rng.choice((*NAMES, 'n', 'n'))}"])


def _renamed(text: str, rng: Random) -> str:
    old, new = rng.choice(NAMES), rng.choice((*NAMES, "fresh"))
    return re.sub(rf"\b{old}\b", new, text)


def _renamed_once(text: str, rng: Random) -> str:
    places = [*re.finditer(r"\b(?:a|b|c|n|m|x|E0|E1)\b", text)]
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + rng.choice(NAMES) + text[place.end() :]


def _swapped(text: str, rng: Random) -> str:
    one, other = rng.sample(NAMES, 2)
    return re.sub(r"\b(?:a|b|c|n|m|x|E0|E1)\b", lambda name: {one: other, other: one}.get(name[0], name[0]), text)


def _line(text: str, rng: Random) -> str:
    lines = text.split("\n")
    number = rng.randrange(len(lines))
    change = rng.choice(("drop", "repeat", "indent", "comment", "blank", "number", "move"))
    if change == "drop":
        del lines[number]
    elif change == "repeat":
        lines.insert(number, lines[number])
    elif change == "indent":
        lines[number] = "  " + lines[number]
    elif change == "comment":
        lines[number] += "  # why"
    elif change == "move":
        lines.append(lines.pop(number))
    else:
        lines.insert(number, "" if change == "blank" else "1")
    return "\n".join(lines)


def _as_body(text: str, rng: Random) -> str:
    one, other = rng.choice((("E0", "E1"), ("x", "y"), ("E1", "E0"), ("a", "E0")))
    return f"def body({one}, {other}):\n" + "\n".join(f"    {line}" for line in text.split("\n"))


EDITS: tuple[Callable[[str, Random], str], ...] = (_renamed, _renamed_once, _swapped, _line, _as_body)


def pairs(rng: Random) -> Iterator[tuple[str, str]]:
    """Programs and edits of them, endlessly."""
    while True:
        one = program(rng)
        other = one
        for _ in range(rng.randint(1, 3)):
            other = rng.choice(EDITS)(other, rng)
        yield one, other


REMEMBERING, FORGETTING = Verifier(TASK), Verifier(TASK, remember=False)


@lru_cache(maxsize=4096)
def _alone(text: str) -> Verdict:
    return FORGETTING.verify(text)


def compare(source: Iterator[tuple[str, str]], count: int) -> Figures:
    """Compares the verdicts on both texts of each pair with those of a verifier that runs every text."""
    figures = Figures()
    for one, other in islice(source, count):
        figures.pairs += 1
        tree = canonical_key(one, ["E0", "E1"]) == canonical_key(other, ["E0", "E1"])
        figures.of_one_tree += tree
        figures.of_one_graph += one != other and graph_key(one, TASK) == graph_key(other, TASK)
        first, second = _alone(one), _alone(other)
        figures.passing += first.passed
        wrong = [REMEMBERING.verify(one), REMEMBERING.verify(other)] != [first, second]
        # Texts of one tree fail at the same stage; diagnostics that follow from a first mistake may differ.
        wrong |= tree and (first.passed, first.stage) != (second.passed, second.stage)
        if wrong:
            figures.disagreeing.append((one, other))
    return figures
