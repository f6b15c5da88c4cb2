"""A program that passes and is unsafe in float32 is found out, one that is as safe as its reference is not."""

import pytest

from step_runtime import Task, Verifier, loads_task

SOFTMAX = """
inputs: [{name: E0, dtype: fp32, dims: [N, M], data_gen: torch.randn}]
fns:
- {name: Max, apply: "return [torch.maximum(state[0], input[0])]", init: [-inf], input_dtype: fp32,
   output_dtype: fp32, func_name: fn_max}
- {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}
- {name: Exp, apply: "return [torch.exp(input[0] - input[1])]", input_dtype: [fp32, fp32], output_dtype: fp32,
   func_name: fn_exp}
- {name: Div, apply: "return [input[0] / input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32, func_name: fn_div}
outputs: [{name: S0, dtype: fp32, dims: [N, M], data_transform: "torch.softmax(input_data['E0'], -1)"}]
"""
PROGRAM = """\
a, b = step.Copy().apply(E0)
a, ref = step.Copy().apply(a)
m = step.RepeatRef().apply((step.Accum(fn=fn_max, b=1).apply(a), ref))
e, f = step.Copy().apply(step.Map(fn=fn_exp).apply((b, m)))
e, ref = step.Copy().apply(e)
s = step.RepeatRef().apply((step.Accum(fn=fn_add, b=1).apply(e), ref))
return step.Map(fn=fn_div).apply((f, s))"""


def codes(task: Task, text: str) -> dict[str, str]:
    verifier = Verifier(task)
    assert verifier.verify(text).passed
    return {finding.code: finding.details[0] for finding in verifier.stress(text)}


def test_a_sum_in_the_place_of_a_maximum_overflows() -> None:
    """Softmax does not depend on what is subtracted, until exp overflows; the right program has no finding."""
    task = loads_task(SOFTMAX, "softmax")
    assert codes(task, PROGRAM) == {}
    assert "as large" in codes(task, PROGRAM.replace("fn_max", "fn_add"))["stress-overflow"]


def of_rows(reference: str, apply: str, more: str = "data_gen: torch.rand") -> Task:
    return loads_task(
        f"inputs: [{{name: E0, dtype: fp32, dims: [N, M], {more}}}]\n"
        f'fns: [{{name: F, apply: "{apply}", input_dtype: "Buffer(fp32, [N])", output_dtype: fp32, func_name: fn}}]\n'
        f'outputs: [{{name: S0, dtype: fp32, dims: [M], data_transform: "{reference}"}}]\n',
        "rows",
    )


MAPPED = "return step.Map(fn=fn).apply(step.Bufferize(a=1).apply(E0))"


def test_cancellation_loses_accuracy() -> None:
    """The variance as a difference of means of squares, against torch's own."""
    apply = "return [(input[0] ** 2).mean() - input[0].mean() ** 2]"
    found = codes(of_rows("input_data['E0'].var(-1, correction=0)", apply), MAPPED)
    assert "shifted" in found["stress-accuracy"]


def test_what_holds_for_the_inputs_given_only_is_another_value() -> None:
    """The reference's abs is dropped, which numbers from 0 to 1 do not show; as assumed, it may be."""
    reference, apply = "input_data['E0'].abs().sum(-1)", "return [input[0].sum()]"
    assert "negative" in codes(of_rows(reference, apply), MAPPED)["stress-value"]
    assert codes(of_rows(reference, apply, "data_gen: torch.rand, assumes: [nonnegative]"), MAPPED) == {}
    assert codes(of_rows(reference, apply, 'data_gen: "uniform(0, 2)"'), MAPPED) == {}


def test_the_far_end_of_a_recurrence_that_decays_shows_in_one_hot_inputs() -> None:
    """A program that reads the last two numbers agrees on the task's own inputs."""
    decayed = "(input_data['E0'] * 1e-5 ** torch.arange(N_value - 1, -1, -1)).sum(-1)"
    task = of_rows(decayed, "return [input[0][-1] + 1e-5 * input[0][-2]]", "data_gen: torch.randn")
    assert "one-hot" in codes(task, MAPPED)["stress-value"]


def test_a_quotient_without_the_epsilon_is_undefined_in_every_precision() -> None:
    """Where inputs are small, NaN in float64 is no overflow; the same quotient of large numbers is."""
    norm = "(input_data['E0'] / (input_data['E0'].abs() + 1e-12)).sum(-1)"
    task = of_rows(norm, "return [(input[0] / input[0].abs()).sum()]", "data_gen: torch.randn")
    assert "all 0" in codes(task, MAPPED)["stress-undefined"]


def test_a_difference_between_equal_numbers_is_named_as_one() -> None:
    """The place of the largest of equal numbers, of which torch gives the first; another value is another value."""
    last = of_rows(
        "input_data['E0'].argmax(-1).double()", "return [(N_value - 1 - input[0].flip(0).argmax()).double()]"
    )
    (finding,) = Verifier(last).stress(MAPPED)
    assert finding.code == "stress-value" and "equal numbers" in str(finding.details)
    (finding,) = Verifier(of_rows("input_data['E0'].abs().sum(-1)", "return [input[0].sum()]")).stress(MAPPED)
    assert finding.code == "stress-value" and "equal numbers" not in str(finding.details)


def test_what_rounding_leaves_of_a_sum_that_cancels_is_no_other_value() -> None:
    """Where all inputs are equal, the reference gives 1e-16 and the program 0; a program that gives 1 is found."""
    reference = (
        "(1.1 * input_data['E0'] - input_data['E0'] - 0.1 * input_data['E0']).sum(-1) + input_data['E0'].var(-1)"
    )
    assert codes(of_rows(reference, "return [input[0].var()]"), MAPPED) == {}
    apply = "return [input[0].var() + (input[0].var() == 0)]"
    assert "all 0" in codes(of_rows(reference, apply), MAPPED)["stress-value"]


@pytest.mark.parametrize("reference", ["input_data['E0'].log().sum(-1)", "(1 / (input_data['E0'] - 1e3)).sum(-1)"])
def test_where_the_reference_gives_no_numbers_nothing_is_asked(reference: str) -> None:
    """Logarithms of negative numbers, divisions by zero."""
    apply = reference.replace("input_data['E0']", "input[0]")
    assert codes(of_rows(reference, f"return [{apply}]"), MAPPED) == {}


def test_a_task_may_ask_for_it() -> None:
    """Then it is a stage of the verdict."""
    task = loads_task(SOFTMAX + "stress: true\n", "softmax")
    assert Verifier(task).verify(PROGRAM).passed
    verdict = Verifier(task).verify(PROGRAM.replace("fn_max", "fn_add"))
    assert verdict.stage == "stress" and verdict.diagnostics[0].code == "stress-overflow"


FORMATS = """
inputs: [{name: E0, dtype: %s, dims: [N, M], data_gen: "%s"}]
fns:
- {name: F, apply: "return [%s]", input_dtype: "Buffer(%s, [N])", output_dtype: %s, func_name: fn}
outputs: [{name: S0, dtype: %s, dims: [M], data_transform: "%s"}]
"""


def test_inputs_stay_within_their_format() -> None:
    """Of fp8 and integers too, so that inputs are finite; the same computation has no finding."""
    for kind, generator in (("fp8_e4m3", "torch.randn"), ("fp16", "torch.randn"), ("int8", "integers(-9, 9)")):
        whole = ".to(torch.int32)" if kind == "int8" else ".float()"
        given = "int32" if kind == "int8" else "fp32"
        fields = (kind, generator, f"input[0]{whole}.abs().amax()", kind, given, given)
        task = loads_task(FORMATS % (*fields, f"input_data['E0']{whole}.abs().amax(-1)"), "rows")
        assert codes(task, MAPPED) == {}
        assert "overflow" not in str(codes(task, MAPPED))


def test_a_rounding_is_not_a_finding_and_an_overflow_is() -> None:
    """A sum in fp16 is as exact as its format; squares in fp16 overflow where the reference's, in fp32, do not."""
    fields = ("fp16", "torch.rand", "{}", "fp16", "fp16", "fp16", "{}")
    text = FORMATS % fields
    summed = text.replace("[{}]", "[input[0].sum()]", 1).replace('"{}"', "\"input_data['E0'].float().sum(-1)\"", 1)
    assert codes(loads_task(summed, "sum"), MAPPED) == {}
    root = text.replace("[{}]", "[(input[0] * input[0]).float().sum().sqrt()]", 1)
    root = root.replace('"{}"', "\"input_data['E0'].float().norm(dim=-1)\"", 1)
    assert "as large" in codes(loads_task(root, "norm"), MAPPED)["stress-overflow"]


@pytest.mark.parametrize(
    "generator",
    ["torch.randn(shape)", "2 * torch.randn(shape)", "torch.randn(*shape) / 3 - 1", "3 * torch.rand(shape)",
     "torch.randn(shape).cumsum(-1)", "torch.tril(torch.randn(shape))"],
)  # fmt: skip
def test_data_of_an_expression_is_stressed_too(generator: str) -> None:
    """An exponential overflows on larger numbers, whatever way the task writes its data."""
    text = SOFTMAX.replace("data_gen: torch.randn", f'data_gen: "{generator}"')
    assert text != SOFTMAX
    assert "as large" in codes(loads_task(text, "softmax"), PROGRAM.replace("fn_max", "fn_add"))["stress-overflow"]


@pytest.mark.parametrize(
    ("generator", "kept"),
    [
        ("torch.randn(shape).abs()", "(input[0] >= 0).all()"),
        ("torch.rand(shape).cumsum(-1)", "(input[0].diff() >= 0).all()"),
        ("0.5 + torch.rand(shape)", "((input[0] >= 0.5) & (input[0] <= 1.5)).all()"),
        ("torch.randn(shape) * (torch.arange(N_value) > 2)", "(input[0][:3] == 0).all()"),
        ("torch.randint(0, 5, shape).double()", "((input[0] >= 0) & (input[0] < 5)).all()"),
        ("torch.linspace(0, 1, N_value).expand(shape)", "(input[0].amax() <= 1).all()"),
    ],
)
def test_stressed_data_of_an_expression_keeps_what_it_shows(generator: str, kept: str) -> None:
    """Its sign, its order, its range, and the places that hold one number."""
    reference = "input_data['E0'].sum(-1)"
    task = of_rows(reference, f"return [input[0].sum() + ~({kept})]", f'data_gen: "{generator}"')
    assert codes(task, MAPPED) == {}


def test_an_index_keeps_its_bits_where_equal_numbers_are_moved_apart() -> None:
    """A Multihot has no generator whose numbers could be moved; another value beside one is a finding."""
    task = loads_task(
        "inputs:\n- {name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}\n"
        "- {name: I, dtype: 'Multihot(fp32, 2)', dims: [M], min: 1, max: 1}\n"
        'fns: [{name: F, apply: "return [input[0] * input[1][0]]", input_dtype: [fp32, "Multihot(fp32, 2)"],'
        " output_dtype: fp32, func_name: fn}]\n"
        "outputs: [{name: S0, dtype: fp32, dims: [M],"
        " data_transform: \"input_data['E0'].abs() * input_data['I'][:, 0]\"}]\n"
    )
    assert "stress-value" in codes(task, "return step.Map(fn=fn).apply((E0, I))")
