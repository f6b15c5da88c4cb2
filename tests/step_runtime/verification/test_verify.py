"""The reward: 1 for a program that keeps the affine rule and computes its task's outputs, else a verdict with a stage.

Invariants: a candidate never raises and never reaches the reference; both sides compute in float64 whatever a
snippet hard-codes; a program that is right at one set of sizes or one draw alone does not pass.

A graph that ran is not run again, whatever the text; places are those of the text; memory that is refused is a verdict.
"""

import json
import threading
import time
from functools import cache

import pytest
import torch

from step_runtime import Limits, Task, TaskCodeError, TaskError, Verdict, Verifier, loads_task, verify
from step_runtime.base.errors import STAGES
from step_runtime.verification.instance import TaskInstance
from tests.support.samples import GENERAL_SOLUTION, general, general_verifier
from tests.support.scripted_answers import RIGHT, TASK, WRONG


def task_of(reference: str, *fns: str, inputs: str = "", dtype: str = "fp32", extra: str = "") -> Task:
    """A task from E0, fp32 [M, N], whose functions fn_0, fn_1, … are scalar and stateless unless they use `state`."""
    listed = "".join(
        f"- {{name: F{i}, apply: {json.dumps(body)}, {'init: [0], ' if 'state' in body else ''}input_dtype: fp32, "
        f"output_dtype: fp32, func_name: fn_{i}}}\n"
        for i, body in enumerate(fns)
    )
    return loads_task(
        f"inputs:\n- {{name: E0, dtype: {dtype}, dims: [M, N], data_gen: torch.randn}}\n{inputs}"
        f"fns:\n{listed or '[]'}\n".replace("fns:\n[]", "fns: []")
        + f"outputs:\n- {{name: S0, dtype: fp32, dims: [M, N], data_transform: {json.dumps(reference)}}}\n{extra}"
    )


MAP = "return step.Map(fn=fn_0).apply(E0)"

STAGED = {
    "parse": "E4 = step.Map(fn=fn_nothing).apply(E0)\nreturn E4",
    "type": "E4 = step.Accum(fn=fn_sum, b=2).apply(E0)\nreturn E4, E4",
    "affine": GENERAL_SOLUTION.replace("apply(E5)", "apply(E4)"),
    "limits": "E4 = step.Repeat(n=1000000000).apply(E0)\nreturn E4, E4",
    "shape": GENERAL_SOLUTION.replace("E6, E7", "E7, E6"),
    "run": "a, b = step.Copy().apply(E2)\nc = step.Partition(N=3).apply((E3, a))\n"
    "d = step.Merge(fn=fn_sum).apply(([c[1], c[0], c[2]], b))\ne = step.Map(fn=fn_square).apply(E0)\nreturn d, e",
    "value": GENERAL_SOLUTION.replace("fn_square", "fn_a"),
    "cost": GENERAL_SOLUTION.replace("apply(E4)", "apply(step.Streamify().apply(step.Bufferize(a=1).apply(E4)))"),
}


@cache
def limited_verifier() -> Verifier:
    """A verifier of the same task, whose programs may hold one number."""
    return Verifier(general().model_copy(update={"limits": {"memory": 4}}))


@pytest.mark.parametrize("stage", [stage for stage in STAGES if stage != "stress"])
def test_a_wrong_program_fails_at_its_stage(stage: str) -> None:
    """Every stage has its own mistakes, each with a place in the text; `stress` has those of test_stress."""
    verifier = limited_verifier()
    assert verifier.verify(GENERAL_SOLUTION).passed
    verdict = verifier.verify(STAGED[stage])
    assert not verdict.passed and verdict.stage == stage, verdict.render(STAGED[stage])
    assert all(d.span is not None for d in verdict.diagnostics)
    assert verdict.seconds > 0


def test_the_first_stage_that_fails_names_the_verdict() -> None:
    """Findings of parse, type and affine are all collected; the verdict's stage is the first of them."""
    text = (
        "a = step.Map(fn=fn_foo).apply(E3)\nb = step.Accum(fn=fn_sum, b=3).apply(E0)\n"
        "c = step.Map(fn=fn_a).apply(E0)\nreturn c"
    )
    verdict = general_verifier().verify(text)
    assert verdict.stage == "parse" and [d.stage for d in verdict.diagnostics] == ["parse", "type", "affine"]


def test_a_value_is_reported_with_both_sides_and_where() -> None:
    """The first number that differs is shown with what was expected, at which sizes and seed."""
    text = "a = step.Copy().apply(E0)\nreturn step.Accum(fn=fn_sum, b=1).apply(a[0]), step.Map(fn=fn_c).apply(a[1])"
    (finding,) = general_verifier().verify(text).diagnostics
    assert finding.message.startswith("output S1 differs from the reference in 35 of 35 numbers; first at [0, 0]: ")
    assert finding.details == ("at M=5, N=7, D=16, E=3, seed 0",)


def test_the_tasks_own_program_is_judged_where_none_is_given() -> None:
    """A task file with an `impl` needs no program; one without says so."""
    assert verify(general().model_copy(update={"impl": GENERAL_SOLUTION})).passed
    with pytest.raises(ValueError, match="no impl"):
        verify(general())


NARROW = [
    "x.float()", "x.to(torch.float32)", "x.to(dtype=torch.float)", "x.to('cpu', torch.float32)",
    "x.type(torch.float32)", "x.type('torch.FloatTensor')", "x.type(torch.FloatTensor)", "x.half()", "x.bfloat16()",
    "x.to(torch.float16)", "torch.Tensor.float(x)", "torch.zeros_like(x, dtype=torch.float32) + x.to(torch.float32)",
    "torch.stack([x.float(), x.float()])[0]", "x.to(torch.zeros(1, dtype=torch.float32).dtype)",
    "x.to(torch.get_default_dtype())", "x.to(torch.tensor(1.0).dtype)", "x.to(torch.Tensor([1.0]).dtype)",
    "x.to(torch.FloatTensor([1.0]).dtype)", "x.to(torch.ones(()))", "x.to(float32)", "x.to(th.float32)", "narrow(x)",
]  # fmt: skip
HELPERS = "global: |\n  import torch as th\n  from torch import float32\n  narrow = lambda x: x.to(torch.float32)\n"


@pytest.mark.parametrize("narrow", NARROW)
def test_both_sides_compute_in_float64_whatever_a_snippet_hard_codes(narrow: str) -> None:
    """A narrower float in a function, in the reference or in `global` costs no precision."""
    # In float32 the sum would be off by 1e-4.
    function = f"x = input[0]\nreturn [({narrow}) + 4096 - 4096]"
    verdict = verify(task_of("input_data['E0'] + 0", function, extra=HELPERS), MAP)
    assert verdict.passed, verdict.render(MAP)
    reference = f"x = input_data['E0']\n({narrow}) + 4096 - 4096"
    verdict = verify(task_of(reference, "return [input[0]]", extra=HELPERS), MAP)
    assert verdict.passed, verdict.render(MAP)


def test_a_small_error_is_an_error() -> None:
    """What rounding to float32 would hide is seen."""
    assert verify(task_of("input_data['E0'] / 3", "return [input[0] / 3 * (1 + 1e-5)]"), MAP).stage == "value"
    assert verify(task_of("input_data['E0'] / 3", "return [input[0] / 3 + 1e-5]"), MAP).stage == "value"


ODD = [
    ("input_data['E0']", "return [input[0] / 0]", False),
    ("input_data['E0']", "return [input[0] * float('nan')]", False),
    ("torch.sqrt(input_data['E0'])", "return [torch.sqrt(input[0])]", True),
    ("torch.sqrt(input_data['E0'])", "return [torch.sqrt(input[0].abs())]", False),
    ("torch.sqrt(input_data['E0'].abs())", "return [torch.sqrt(input[0])]", False),
    ("input_data['E0'] / 0", "return [input[0] / 0]", True),
    ("input_data['E0'] / 0", "return [-input[0] / 0]", False),
    ("input_data['E0'] / 0", "return [input[0] * float('nan')]", False),
]


@pytest.mark.parametrize(("reference", "body", "passes"), ODD)
def test_nan_and_infinity_count_where_the_reference_has_them(reference: str, body: str, passes: bool) -> None:
    """NaN or infinite outputs fail unless the reference has the same at the same places."""
    verdict = verify(task_of(reference, body), MAP)
    assert verdict.passed == passes and (passes or verdict.stage == "value")


ODD_FUNCTIONS = [
    ("input[0].mul_(2)\nreturn [input[0]]", "input_data['E0'] * 2"),
    ("input[0] += 1\nreturn [input[0] * 2]", "(input_data['E0'] + 1) * 2"),
    ("x = input[0]\nx[()] = 3 * x\nreturn [x]", "input_data['E0'] * 3"),
    ("if input[0] > 0:\n    return [input[0]]\nreturn [-input[0]]", "input_data['E0'].abs()"),
    ("return [torch.tensor(abs(input[0].item()))]", "input_data['E0'].abs()"),
    ("return [abs(float(input[0]))]", "input_data['E0'].abs()"),
    ("x = input[0].clone()\nfor i in range(3):\n    x = x * 2\nreturn (x,)", "input_data['E0'] * 8"),
    ("return [torch.where(input[0] > 0, input[0], 0)]", "input_data['E0'].clamp(min=0)"),
    ("import math\nreturn [math.exp(input[0])]", "input_data['E0'].exp()"),
    ("return [torch.as_tensor(input[0].numpy() * 2)]", "input_data['E0'] * 2"),
    ("return [input[0] + torch.rand(()) * 0]", "input_data['E0'] + 0"),
    ("import random\nreturn [input[0] + 0 * random.random()]", "input_data['E0'] + 0"),
    ("return [(input[0] > 0)]", "(input_data['E0'] > 0)"),
    ("return [input[0].detach().requires_grad_()]", "input_data['E0'] + 0"),
    ("return [input[0].expand(1)[0]]", "input_data['E0'] + 0"),
]


@pytest.mark.parametrize(("body", "reference"), ODD_FUNCTIONS)
def test_functions_may_be_any_python(body: str, reference: str) -> None:
    """Functions that branch on data, write into their input, or leave torch compute what they would one by one."""
    verdict = verify(task_of(reference, body), MAP)
    assert verdict.passed, verdict.render(MAP)
    copied = "a, b = step.Copy().apply(E0)\nc = step.Map(fn=fn_0).apply(a)\nreturn step.Map(fn=fn_1).apply(b)"
    assert verify(task_of("input_data['E0'] + 1", body, "return [input[0] + 1]"), copied).passed


def test_a_stateful_function_that_writes_into_its_state_spoils_nothing() -> None:
    """State written in place is the fold's own: each fold starts again from the initial state."""
    task = task_of("torch.cumsum(input_data['E0'], -1)", "state[0].add_(input[0])\nreturn [state[0]]")
    verdict = verify(task, "return step.Scan(fn=fn_0, b=1).apply(E0)")
    assert verdict.passed, verdict.render("")


DENSE = "expected a dense tensor of real numbers on the CPU"
FAILING = [
    ("return [input[0] / {}['a']]", "function fn_0 raised KeyError"),
    ("return [input[0].reshape(1)]", r"has shape (1,); expected ()"),
    ("def f(x):\n    return f(x)\nreturn [f(input[0])]", "RecursionError"),
    ("raise type('Evil', (Exception,), {'__str__': lambda s: 1/0})()", "fn_0 raised Evil: it cannot say why"),
    ("raise type('Evil', (RuntimeError,), {'__str__': lambda s: s})()", "fn_0 raised Evil: it cannot say why"),
    ("raise ValueError('one\\ntwo\\udc80')", r"fn_0 raised ValueError: one two\udc80"),
    ("raise type('Evil', (BaseException,), {})()", "fn_0 raised Evil"),
    ("import sys\nsys.exit(0)", "fn_0 raised SystemExit: 0"),
    (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "return [torch.masked.masked_tensor(input[0], torch.tensor(True))]",
        f"component 0 of apply: {DENSE}, found a MaskedTensor",
    ),
    ("return [10**400]", "component 0 of apply cannot be converted to a number: OverflowError"),
    ("return [input[0].to_sparse()]", f"component 0 of apply: {DENSE}, found the layout torch.sparse_coo"),
    ("return [input[0] * 1j]", f"component 0 of apply: {DENSE}, found the dtype torch.complex128"),
    ("return [input[0].to('meta')]", f"component 0 of apply: {DENSE}, found the device meta"),
    (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "return [torch._empty_affine_quantized([], scale=1.0, zero_point=0, dtype=torch.quint8)]",
        f"component 0 of apply: {DENSE}, found the dtype torch.quint8",
    ),
    (
        "import warnings\nwarnings.simplefilter('ignore')\nreturn [torch.nested.nested_tensor([input[0]])]",
        f"component 0 of apply: {DENSE}, found a nested tensor",
    ),
]


@pytest.mark.parametrize(("body", "quoted"), FAILING)
def test_a_function_that_fails_is_a_verdict(body: str, quoted: str) -> None:
    """What a function raises or returns wrongly is reported at the primitive that ran it, as the task's own."""
    verdict = verify(task_of("input_data['E0']", body), MAP)
    (finding,) = verdict.diagnostics
    assert verdict.stage == "run" and quoted in finding.message and finding.hint, verdict.render(MAP)
    assert finding.span is not None and finding.span.column == 8


RANDOM = "a function of the task uses random numbers"


@pytest.mark.parametrize(
    ("body", "random"),
    [
        ("return [input[0] + torch.rand(())]", True),
        ("return [input[0] + 1]", False),
        ("return [input[0] + 1 if input[0] > 0 else input[0]]", False),
    ],
)
def test_random_numbers_are_reported_where_a_value_is_wrong(body: str, random: bool) -> None:
    """The program may be right then; a function that draws none, or always the same ones, is not suspected."""
    (finding,) = verify(task_of("input_data['E0']", body), MAP).diagnostics
    assert finding.stage == "value" and (RANDOM in finding.details) == random
    assert finding.details[0] == "at M=5, N=7, seed 0"


def test_a_run_that_takes_too_long_is_a_verdict() -> None:
    """A slow function ends at the limit, and the limit is reported."""
    task = task_of("input_data['E0']", "x = input[0].item()\nfor _ in range(10000): x = x * 1\nreturn [input[0]]")
    start = time.perf_counter()
    verdict = verify(task, MAP, limits=Limits(seconds=0.001))
    assert verdict.stage == "run" and verdict.diagnostics[0].code == "time-limit" and time.perf_counter() - start < 60
    folds = "a = step.Repeat(n=1000000).apply(E0)\nreturn step.Accum(fn=fn_0, b=1).apply(a)"
    slow = task_of("input_data['E0'] * 1000000", "return [torch.sin(state[0]) + input[0]]")
    start = time.process_time()
    verdict = verify(slow, folds, limits=Limits(seconds=0.3))
    assert verdict.stage == "run" and verdict.diagnostics[0].code == "time-limit" and time.process_time() - start < 3


def test_a_broken_reference_is_an_error_of_the_task() -> None:
    """The candidate is not to blame: the task's error is raised, naming task and snippet."""
    evil = "x = 1\nraise type('Evil', (RuntimeError,), {'__str__': lambda s: 1/0})()\nx"
    with pytest.raises(
        TaskCodeError, match="data_transform 0 of output S0: line 2 of the snippet raised Evil: it cannot say why"
    ):
        verify(task_of(evil, "return [input[0]]"), MAP)
    with pytest.raises(TaskCodeError, match="data_transform 0 of output S0"):
        verify(task_of("input_data['nothing']", "return [input[0]]"), MAP)
    with pytest.raises(TaskError, match="shape"):
        verify(task_of("input_data['E0'][0]", "return [input[0]]"), MAP)


def test_no_candidate_reaches_the_reference_or_the_next_candidate() -> None:
    """Functions that write into all they can reach change neither inputs nor reference nor a later verdict."""
    spoil = (
        "for x in input_data.values():\n    x.mul_(0)\ninput_data.clear()\n"
        "torch.manual_seed(1)\ntorch.set_default_dtype(torch.float16)\nreturn [input[0] * 0]"
    )
    task = task_of("input_data['E0'] * 2", "return [input[0] * 2]", spoil)
    verifier = Verifier(task)
    double = "return step.Map(fn=fn_0).apply(E0)"
    zero = "return step.Map(fn=fn_1).apply(E0)"
    verdicts = [verifier.verify(text) for text in (zero, double, zero, double)]
    assert [(v.passed, v.stage) for v in verdicts] == [(False, "value"), (True, None)] * 2, verdicts[1].render(double)


def test_the_process_is_left_as_it_was() -> None:
    """The default type and random state of torch outlive a verification."""
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    assert verify(task_of("input_data['E0'] + 0", "torch.rand(2)\nreturn [input[0]]"), MAP).passed
    assert torch.equal(torch.rand(3), expected) and torch.get_default_dtype() == torch.float32


def test_right_at_one_set_of_sizes_only_is_wrong() -> None:
    """Sizes that happen to fit in the first set do not in the second."""
    task = task_of("input_data['E0'] * 2", "return [input[0] * 2]")
    text = "for i in range(M_value - 4):\n    E0 = step.Map(fn=fn_0).apply(E0)\nreturn E0"
    verdict = verify(task, text)
    assert verdict.stage == "value" and verdict.diagnostics[0].details == ("at M=6, N=4, seed 0",)


def test_right_for_one_draw_only_is_wrong() -> None:
    """A second seed tells what a lucky draw hides."""
    task = loads_task(
        "inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: binary}]\n"
        "fns: [{name: Zero, apply: 'return [0 * input[0]]', input_dtype: fp32, output_dtype: fp32, func_name: fn_0}]\n"
        "outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: \"1 - input_data['E0']\"}]\nsizes: {M: 1}\n"
    )
    instance = TaskInstance(task, task.size_sets()[0])
    draws = [bool(instance.sample_inputs(seed)["E0"][0].item()) for seed in range(20)]
    lucky, unlucky = draws.index(True), draws.index(False)
    assert verify(task, MAP, seeds=(lucky,)).passed
    assert verify(task, MAP, seeds=(lucky, unlucky)).stage == "value"


def test_verdicts_are_the_same_from_many_threads() -> None:
    """One verifier serves several threads, each with the verdict it would get alone."""
    programs = [GENERAL_SOLUTION, *STAGED.values()] * 3
    verdicts: dict[int, Verdict] = {}
    verifier = limited_verifier()

    def work(index: int) -> None:
        verdicts[index] = verifier.verify(programs[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(programs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [verdicts[i].stage for i in range(len(programs))] == [None, *STAGED] * 3


def test_a_run_rule_that_only_the_data_breaks_is_a_verdict() -> None:
    """A routed dim that `S` does not divide is found when it is known."""
    text = (
        "a, b, c = step.Partition(N=3).apply((E3, E2))\nd = [step.Reshape(L=[0], S=50).apply(x) for x in (a, b, c)]\n"
        + GENERAL_SOLUTION
    )
    verdict = general_verifier().verify(text)
    assert verdict.stage == "run" and verdict.diagnostics[0].code == "reshape-divides"


SUM_TIMES_N = task_of("input_data['E0'] * N_value", "return [state[0] + input[0]]")
TIMES = "return step.Accum(fn=fn_0, b=1).apply(step.Repeat(n={}).apply(E0))"


THROUGH_THREE = "82 - 25*M{0} + 2*M{0}*M{0}"
"""N at both default sets and at the further one, at which M is 7 and N is 5."""


@pytest.mark.parametrize(
    "factor", ["22 - 3*M", "22 - 3*M_value", THROUGH_THREE.format(""), THROUGH_THREE.format("_value")]
)
def test_a_factor_that_fits_the_sizes_alone_fails_beyond_them(factor: str) -> None:
    """A line through both default sets, a parabola through the further one, too; the verdict names the sizes."""
    verifier, text = Verifier(SUM_TIMES_N), TIMES.format(factor)
    assert verifier.verify(TIMES.format("N_value")).passed  # whose graphs at the default sizes may be the same
    verdict = verifier.verify(text)
    assert not verdict.passed
    rendered = verdict.render(text)
    assert ("M=7, N=5" in rendered) is ("22" in factor) and "beyond the task's own" in rendered
    assert "the reference" in (verifier.explain_values(text) or "")


def test_a_program_names_only_dims_that_something_in_the_task_has() -> None:
    """K has a default size, at which a program that names it could be right by chance; the message has the dims."""
    for factor in ("K - 2", "K_value - 2"):
        (finding,) = Verifier(SUM_TIMES_N).verify(TIMES.format(factor)).diagnostics
        assert finding.code == "name" and finding.hint == "nothing in the task is of size K; its dims are M, N"


def test_sizes_that_the_tasks_code_does_not_allow_are_not_tried() -> None:
    """A reference that works at its own sizes alone costs no right program its verdict."""
    reference = "assert N_value in (4, 7)\ninput_data['E0'] * 2"
    task = task_of(reference, "return [2 * input[0]]")
    assert Verifier(task).verify(MAP).passed and len(Verifier(task).scopes) == 2


def test_a_function_that_fails_beyond_the_own_sizes_says_nothing_of_a_program() -> None:
    """The task promises its functions at its own sizes."""
    task = task_of("input_data['E0'] * 2", "assert N_value in (4, 7)\nreturn [2 * input[0]]")
    assert Verifier(task).verify(MAP).passed and len(Verifier(task).scopes) == 3


REORDERED = "c = step.Copy().apply(E0)\na = step.Identity().apply(c[1])\nreturn step.Map(fn=fn_mul).apply((c[0], a))"


class Counting(Verifier):
    """Counts the graphs that it runs at the task's own sizes."""

    runs = 0

    def _run_all(self, places: object, *args: object) -> object:  # type: ignore[override]
        self.runs += places is self._instances
        return super()._run_all(places, *args)  # type: ignore[arg-type]


def with_function(apply: str) -> Task:
    task = loads_task(TASK, "square/0")
    return task.model_copy(update={"fns": [task.fns[0].model_copy(update={"apply": apply})]})


def test_a_graph_is_run_once() -> None:
    """Another text of it gets the same verdict at once."""
    verifier = Counting(loads_task(TASK, "square/0"))
    assert verifier.verify(RIGHT).passed
    assert verifier.verify(REORDERED).passed
    assert verifier.runs == 1


def test_a_wrong_graph_is_reported_at_the_text_s_own_place() -> None:
    """Its result stands on another line there."""
    verifier = Counting(loads_task(TASK, "square/0"))
    first, second = verifier.verify(WRONG), verifier.verify(f"# text\n{WRONG}")
    assert verifier.runs == 1
    spans = [verdict.diagnostics[0].span for verdict in (first, second)]
    assert spans[0] is not None
    assert spans[1] is not None
    assert spans[1].line == spans[0].line + 1
    assert first.diagnostics[0].message == second.diagnostics[0].message


def test_a_failure_while_running_is_found_again() -> None:
    """As it tells a place in the text."""
    verifier = Counting(with_function("raise ValueError('on purpose')"))
    for text in (RIGHT, f"# text\n{RIGHT}"):
        verdict = verifier.verify(text)
        assert verdict.stage == "run"
        assert "^^^" in verdict.render(text)
        assert "fn_mul" in verdict.render(text)
    assert verifier.runs == 2


@pytest.mark.parametrize("apply", ["return [torch.ones(2**58)]", "raise MemoryError"])
def test_memory_that_is_refused_is_a_verdict(apply: str) -> None:
    """With a code of its own, whoever refused it."""
    verdict = Verifier(with_function(apply)).verify(RIGHT)
    assert isinstance(verdict, Verdict)
    assert [diagnostic.code for diagnostic in verdict.diagnostics] == ["memory-limit"]
