"""Proofs in exact arithmetic: right programs of every kind are proved, wrong ones never, whatever hides it."""

import math
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from step_runtime import Task, Verifier, load_task, loads_task, verify
from step_runtime.language.parser import read
from step_runtime.tasks.reader import read_task_file
from step_runtime.verification.exact import residues
from step_runtime.verification.exact.proof import ExactVerdict, Prover
from tests.support.mutants import changed
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
RIGHT = ["attn/0", "attn/2", "bmm/0", "etoe/1", "expert/1", "index/1", "index/3", "norm/1", "rope/2"]
ONE = """
inputs: [{{name: E0, dtype: fp32, dims: [M, N], data_gen: {data}}}]
fns:
- {{name: F, func_name: fn_f, apply: "{apply}", input_dtype: fp32, output_dtype: fp32}}
- {{name: G, func_name: fn_g, apply: "return [torch.maximum(state[0], input[0])]", init: [-inf], input_dtype: fp32,
   output_dtype: fp32}}
outputs: [{{name: S0, dtype: fp32, dims: [M, N], data_transform: ["{reference}"]}}]
"""
MUTANTS = 3
MAP = "return step.Map(fn=fn_f).apply(E0)"


def task_of(apply: str, reference: str, data: str = "torch.randn") -> Task:
    return loads_task(ONE.format(apply=apply, reference=reference, data=data), "one")


def proved(task: Task, text: str) -> ExactVerdict:
    """The answer at the first set of sizes, whatever the float verdict is."""
    verifier = Verifier(task)
    instance = verifier._instances[0]
    checked = verifier._check(read(text, verifier.limits), instance)
    assert not checked.found
    return Prover(instance).prove(checked.program, checked.types)


def answers(task: Task, text: str) -> Iterator[str]:
    """The answer at each set of sizes, whatever the float verdict is; `refused` where the checks refuse the program."""
    verifier = Verifier(task)
    for instance in verifier._instances:
        checked = verifier._check(read(text, verifier.limits), instance)
        if checked.found:
            yield "refused"
        else:
            yield Prover(instance).prove(checked.program, checked.types).answer


@pytest.mark.parametrize("name", RIGHT)
def test_oracles_are_proved_at_all_their_sizes(name: str) -> None:
    """Folds, softmaxes with a running maximum, routing, ranks, roots and rotations, with an error below 2^-60."""
    task = load_task(str(DATA / f"tasks/{name}.yaml"))
    verdict = verify(task, (DATA / f"oracles/{name}.step").read_text(), exact=True)
    assert verdict.passed and verdict.exact is not None
    assert verdict.exact.answer == "proved", verdict.exact.reason
    assert verdict.exact.bits >= 60 and len(verdict.exact.sizes) == len(Verifier(task)._instances)


NEAR_MISSES = [
    pytest.param(path, marks=() if "modern" in folder.name else pytest.mark.slow, id=f"{folder.name}/{path.stem}")
    for folder in sorted(DATA.glob("near-misses-*"))
    for path in sorted(folder.rglob("*.step"))
]


@pytest.mark.parametrize("path", NEAR_MISSES)
def test_near_misses_are_never_proved(path: Path) -> None:
    """Although many differ from a right program in one place only, or at some sizes only."""
    folder = path.relative_to(DATA).parts[0]
    named = path.relative_to(DATA / folder).with_suffix(".yaml")
    # Of a task with several near misses, each has its number behind the name.
    files = [
        DATA / folder.replace("near-misses", "tasks") / name
        for name in (named, named.with_suffix("").with_suffix(".yaml"))
    ]
    file = next(file for file in files if file.exists())
    task = loads_task(read_task_file(file).inlined, path.stem)
    assert not all(answer == "proved" for answer in answers(task, path.read_text()))


@pytest.mark.parametrize("name", ["gemm/0", "norm/1", "expert/2", "etoe/2"])
def test_mutants_that_floats_refuse_are_never_proved(name: str) -> None:
    """Single edits of an oracle, judged at the very sizes."""
    task = load_task(str(DATA / f"tasks/{name}.yaml"))
    verifier = Verifier(task)
    judged = 0
    for mutant in changed(task, (DATA / f"oracles/{name}.step").read_text(), 0.5):
        verdict = verifier.verify(mutant.text)
        if judged < MUTANTS and verdict.stage == "value":
            judged += 1
            answers = [verifier.exact(mutant.text), proved(task, mutant.text)]
            at_first = verdict.diagnostics[0].details[0].startswith(f"at {verifier._instances[0].place}")
            assert answers[0] is None and not (at_first and getattr(answers[1], "answer", "") == "proved")
    assert judged


@pytest.mark.parametrize(
    ("apply", "reference"),
    [
        ("return [input[0] + 1.0000001e-5]", "input_data['E0'] + 1e-5"),
        (
            "return [torch.where(input[0] > 0, input[0], 0.0)]",
            "torch.where(input_data['E0'] > 1e-12, input_data['E0'], 0.0)",
        ),
        ("return [(input[0] > 0).to(input[0].dtype)]", "(input_data['E0'] >= 0).to(torch.float64)"),
        ("return [torch.log(-input[0])]", "torch.log(input_data['E0'])"),
        ("return [input[0].abs()]", "input_data['E0']"),
        ("return [torch.exp(input[0]) + 1e-30]", "torch.exp(input_data['E0'])"),
        ("return [torch.exp(torch.ones_like(input[0])) * input[0]]", "input_data['E0'] * 289"),
        ("return [torch.sqrt(input[0] * input[0])]", "input_data['E0']"),
        ("return [torch.round(input[0])]", "torch.floor(input_data['E0'])"),
        ("return [input[0].clamp(max=1e6)]", "input_data['E0']"),
        ("return [torch.where(input[0] == 0.125, input[0] + 1, input[0])]", "input_data['E0']"),
        ("return [torch.sin(input[0])]", "torch.sin(-input_data['E0'])"),
        ("return [input[0] ** 2.0000001]", "input_data['E0'] ** 2"),
        ("return [input[0] * 0.20000000000001]", "input_data['E0'] * 0.2"),
        ("return [torch.logaddexp(input[0], input[0])]", "input_data['E0']"),
        ("return [torch.exp(0.5 * torch.log(input[0] ** 2))]", "input_data['E0']"),
        ("return [torch.log(-input[0]) ** 2]", "torch.log(input_data['E0']) ** 2"),
        ("return [-torch.exp(0.3 * torch.log(input[0]))]", "input_data['E0'] ** 0.3"),
        ("return [torch.exp(0.3 * torch.log(-input[0]))]", "input_data['E0'] ** 0.3"),
        ("return [torch.exp(0.3000001 * torch.log(input[0]))]", "input_data['E0'] ** 0.3"),
        ("return [torch.sigmoid(input[0]).clamp(min=1e-6)]", "torch.sigmoid(input_data['E0'])"),
        ("return [torch.relu(torch.sigmoid(input[0]) - 1e-9)]", "torch.sigmoid(input_data['E0'])"),
        ("return [torch.exp(input[0])]", "torch.relu(torch.exp(input_data['E0']) - 1e-9)"),
        ("return [torch.tanh(input[0] * 1e6)]", "torch.sign(input_data['E0'])"),
        ("return [torch.where(input[0] >= 0, 1.0, -1.0)]", "torch.sign(input_data['E0'])"),
        ("return [1.0 - input[0]]", "input_data['E0'] - 1.0"),
        ("return [2.0 / input[0]]", "input_data['E0'] / 2.0"),
        (
            "return [torch.log(input[0] * 3 + 1) * 2.5]",
            "(torch.log(input_data['E0'] + 1) + torch.log(torch.ones(1) * 3)) * 2.5",
        ),
        ("return [torch.sqrt(input[0] + 2) * torch.sqrt(input[0] + 3)]", "input_data['E0'] + 2"),
        ("return [input[0] * torch.cos(torch.tensor(0.7853981))]", "input_data['E0'] / 2 ** 0.5"),
        (
            "return [torch.exp(torch.where(input[0] > 0, input[0], -1e9))]",
            "torch.exp(torch.where(input_data['E0'] > 0, input_data['E0'], -torch.inf))",
        ),
    ],
)
def test_what_differs_somewhere_is_not_proved(apply: str, reference: str) -> None:
    """Small constants, ties, signs, ranges and rounding, with inputs that hide them too."""
    for data in ("torch.randn", "torch.rand"):
        assert proved(task_of(apply, reference, data), MAP).answer != "proved"


@pytest.mark.parametrize(
    ("apply", "reference"),
    [
        ("return [torch.exp(input[0]) / (1 + torch.exp(input[0]))]", "torch.sigmoid(input_data['E0'])"),
        ("return [torch.maximum(input[0], -input[0])]", "input_data['E0'].abs()"),
        ("return [2 * torch.sigmoid(2 * input[0]) - 1]", "torch.tanh(input_data['E0'])"),
        ("return [torch.log(torch.exp(input[0]) * 3)]", "torch.log(3 * torch.exp(input_data['E0']))"),
        ("return [input[0] * 0.1]", "input_data['E0'] / 10"),
        ("return [input[0] * 0.2]", "input_data['E0'] * (1 - 0.8)"),
        ("return [torch.logaddexp(input[0], 2 * input[0])]", "input_data['E0'] + torch.log1p(input_data['E0'].exp())"),
        ("return [torch.exp(torch.complex(input[0], 2 * input[0])).real]", "E0.exp() * torch.cos(2 * E0)"),
        ("return [(torch.polar(input[0], input[0])).conj().imag]", "-E0 * torch.sin(E0)"),
        ("return [torch.cos(-input[0] * torch.pi)]", "torch.cos(torch.pi * E0)"),
        (
            "return [torch.exp(torch.where(input[0] > 0, input[0], -1e30))]",
            "torch.exp(torch.where(input_data['E0'] > 0, input_data['E0'], -torch.inf))",
        ),
        ("return [input[0] / 10 ** 0.5]", "input_data['E0'] * 10 ** -0.5"),
        ("return [torch.exp(0.7 * torch.log(input[0] ** 2 + 1))]", "(1 + input_data['E0'] ** 2) ** 0.7"),
        ("return [torch.relu(torch.sigmoid(input[0]))]", "torch.sigmoid(input_data['E0'])"),
        ("return [torch.minimum(-torch.exp(input[0]), torch.zeros(()))]", "-torch.exp(input_data['E0'])"),
        ("return [torch.where(input[0] > 0, 1.0, torch.where(input[0] == 0, 0.0, -1.0))]", "torch.sign(E0)"),
        ("return [torch.rsqrt(input[0] + 2)]", "1 / torch.sqrt(input_data['E0'] + 2)"),
        ("return [torch.sqrt(input[0] ** 2 + 2) * torch.sqrt(input[0] ** 2 + 2)]", "input_data['E0'] ** 2 + 2"),
        ("return [-torch.minimum(-input[0], torch.zeros(()))]", "input_data['E0'].clamp(min=0)"),
        ("return [(1 + torch.exp(input[0])) ** -0.25]", "torch.exp(-torch.nn.functional.softplus(E0) / 4)"),
        ("return [input[0][torch.tensor(0).long()] if input[0].dim() else input[0] + 0]", "input_data['E0']"),
    ],
)
def test_forms_of_one_function_are_proved(apply: str, reference: str) -> None:
    """Exponentials, extremes, logarithms, roots and constants keep their laws."""
    reference = re.sub(r"(?<!')\bE0\b", "input_data['E0']", reference)
    found = proved(task_of(apply, reference, "torch.rand"), MAP)
    assert found.answer == "proved", found.reason


def test_a_difference_that_the_inputs_hide_is_shown() -> None:
    """On positive inputs the float verdict passes; the exact one names an element and both numbers."""
    task = task_of("return [input[0]]", "input_data['E0'].abs()", "torch.rand")
    verdict = verify(task, MAP, exact=True)
    assert verdict.passed and verdict.exact is not None
    assert verdict.exact.answer == "different"
    assert "output S0 at [" in verdict.exact.reason and "of any sign" in verdict.exact.reason
    assert verdict.exact.render().startswith("exact: different at ")


@pytest.mark.parametrize(
    ("apply", "word"),
    [
        ("return [input[0] if input[0] > 0 else input[0]]", "looks at data"),
        ("return [input[0] * float(input[0].numpy() * 0 + 1)]", "looks at data"),
        ("return [input[0] * (input[0].tolist() is not None)]", "looks at data"),
        ("import random; return [input[0] * 1]", "state"),
    ],
)
def test_what_is_not_followed_is_unknown_and_named(apply: str, word: str) -> None:
    """Branches by data, a look into memory, and functions that may keep state."""
    found = proved(task_of(apply, "input_data['E0']"), MAP)
    assert found.answer == "unknown" and word in found.reason


def test_large_formulas_take_several_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one draw of worlds leaves too large an error, the bits of independent draws add up, of six at most."""
    task = task_of("return [torch.exp(input[0]) / (1 + torch.exp(input[0]))]", "torch.sigmoid(input_data['E0'])")
    once = proved(task, MAP)
    monkeypatch.setattr("step_runtime.verification.exact.proof.LEAST_BITS", 2 * once.bits)
    assert replace(proved(task, MAP), steps=()) == replace(once, bits=2 * once.bits, steps=())
    monkeypatch.setattr("step_runtime.verification.exact.proof.LEAST_BITS", 9 * once.bits)
    found = proved(task, MAP)
    assert (
        found.answer == "unknown" and found.reason == f"the formulas are too large: their error is 2^-{6 * once.bits}"
    )
    other = task_of("return [torch.sin(input[0])]", "torch.sin(-input_data['E0'])")
    assert proved(other, MAP).answer != "proved"


def test_the_bound_counts_degrees_below_roots() -> None:
    """A product of roots that is the root of a product."""
    form = " * ".join(f"torch.sqrt(x + {number})" for number in range(1, 41))
    apply, reference = (form.replace("x + ", f"{x} + ") for x in ("input[0]", "input_data['E0']"))
    found = proved(task_of(f"return [{apply}]", reference), MAP)
    assert found.answer == "proved", found.reason
    assert found.bits < residues.WORLDS * (60 - math.log2(40))


def test_several_sizes_have_one_answer() -> None:
    """The worst, with its sizes; a proof has the smallest bound."""
    one, two = ExactVerdict("proved", "equal", 90, ("M=1",)), ExactVerdict("proved", "equal", 70, ("M=2",))
    assert ExactVerdict.joined([one, two]) == ExactVerdict("proved", "equal", 70, ("M=1", "M=2"))
    other = ExactVerdict("unknown", "sort", 0, ("M=3",))
    assert ExactVerdict.joined([one, other]) == other


def test_a_proof_leaves_torchs_compiler_alone() -> None:
    """It is not imported, which takes a second, and an import afterwards finds all of it."""
    statement = ONE.format(apply="return [input[0] + 1]", reference="input_data['E0'] + 1", data="torch.randn")
    code = f"""
import sys
from step_runtime import loads_task, verify
task = loads_task({statement!r}, "one")
for _ in range(2):
    assert verify(task, {MAP!r}, exact=True).exact.answer == "proved"
assert not [name for name in sys.modules if name.startswith("torch._dynamo")]
import torch
assert torch._dynamo.config.fake_tensor_cache_enabled and torch._dynamo.disable(len)([1]) == 1
assert verify(task, {MAP!r}, exact=True).exact.answer == "proved"
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=PROJECT)
