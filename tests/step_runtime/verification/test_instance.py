"""A task at one set of sizes: data, functions and references.

Invariants: the same seed gives the same data; `ctx` as `global` leaves it decides the sizes; a multihot has as
many ones as its input allows.
"""

import pytest
import torch

from step_runtime import TaskError, loads_task
from step_runtime.verification.instance import TaskInstance, instances
from tests.support.samples import TUPLES, general

HEAD = "inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.rand}]\n"
TAIL = "outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: \"input_data['E0']\"}]\n"


def sizes_of(global_: str, sizes: str = "{}") -> dict[str, int]:
    code = "".join(f"  {line}\n" for line in global_.splitlines())
    return instances(loads_task(f"global: |\n{code}{HEAD}{TAIL}sizes: {sizes}\n"))[0].sizes


@pytest.mark.parametrize(
    ("global_", "sizes", "expected"),
    [
        ("pass", "{E: 4}", 4), ("E_value = 3", "{}", 3), ("ctx[E] = 3", "{}", 3),
        ("E_value = 3\nctx[E] = E_value", "{}", 3), ("E_value = 3\nctx[E] = 5", "{}", 5), ("ctx[E] = 5", "{E: 4}", 5),
        ("E_value = 5", "{E: 4}", 5), ("E = Symbol('E')\nE_value = 3\nctx[E] = E_value", "{}", 3),
        ("ctx[E] = M_value // 2", "{}", 2), ("ctx.update({E: 6})", "{}", 6),
    ],
)  # fmt: skip
def test_what_global_binds_in_ctx_wins(global_: str, sizes: str, expected: int) -> None:
    """`global` runs after the sizes are bound, and what it leaves in ctx is what holds, in its snippets too."""
    assert sizes_of(global_, sizes)["E"] == expected


@pytest.mark.parametrize("global_", ["ctx[E] = 0", "ctx[E] = -1", "ctx[E] = 1.5", "ctx[E] = '3'"])
def test_a_size_that_is_none_is_refused(global_: str) -> None:
    """Sizes are ints of 1 or more."""
    with pytest.raises(TaskError, match="E to be an int of 1 or more"):
        sizes_of(global_)


def test_the_same_seed_gives_the_same_data() -> None:
    """Data depends on the seed alone: not on torch's state, nor on what was drawn before."""
    one, other = (TaskInstance(general(), general().size_sets()[0]) for _ in range(2))
    first = one.sample_inputs(0)
    torch.rand(5)
    other.sample_inputs(1)
    again = other.sample_inputs(0)
    assert all(torch.equal(a, b) for name in first for a, b in zip(first[name], again[name], strict=True))
    assert any(
        not torch.equal(a, b) for name in first for a, b in zip(first[name], other.sample_inputs(1)[name], strict=True)
    )


def test_snippets_find_a_stream_of_tuples_as_a_list() -> None:
    """One tensor per component, sampled, replaced and given alike."""
    task = loads_task(TUPLES, "tuples")
    instance = TaskInstance(task, task.size_sets()[0])
    weight, rows = instance.sample_inputs(0)["G"]
    expected = torch.einsum("mn,mnd->md", weight, rows)
    assert torch.allclose(instance.reference()[0][0], expected)
    assert instance.change_input(task.inputs[0])
    assert not torch.allclose(instance.reference()[0][0], expected)
    given = instance.use_inputs({"G": (weight * 2, rows)})["G"]
    assert torch.equal(given[0], weight * 2) and torch.allclose(instance.reference()[0][0], 2 * expected)


@pytest.mark.parametrize(
    ("bounds", "allowed"),
    [
        ("min: 1, max: 1", {1}),
        ("min: 0, max: 0", {0}),
        ("min: 2", {2, 3, 4}),
        ("max: 2", {0, 1, 2}),
        ("min: 4, max: 4", {4}),
    ],
)
def test_multihots_have_as_many_ones_as_allowed(bounds: str, allowed: set[int]) -> None:
    """`min` and `max` bound the ones of each element; every number and every place comes up."""
    task = loads_task(f"inputs: [{{name: E0, dtype: 'Multihot(fp32, 4)', dims: [M], {bounds}}}]\n"
                      + TAIL.replace("['E0']", "['E0'].sum(-1)")
                      + "sizes: {M: 300}\n")  # fmt: skip
    (bits,) = TaskInstance(task, task.size_sets()[0]).sample_inputs(0)["E0"]
    assert set(bits.sum(-1).int().tolist()) == allowed
    assert allowed == {0} or bits.any(0).all()


@pytest.mark.parametrize("dims", ["[M]", "[M, M, M]"])
def test_streams_beyond_the_limit_are_refused(dims: str) -> None:
    """Before any data is drawn, which memory would not hold; the size is named that is to blame."""
    task = loads_task(HEAD.replace("[M]", dims) + TAIL + f"sizes: {{M: {10**9}}}\n")
    found = "1,000,000,000" if dims == "[M]" else r"2\*\*63 or more"
    expected = rf"sizes.M: inputs\[0\] would hold {found} numbers at M=10{{9}}; the limit is 134,217,728"
    with pytest.raises(TaskError, match=expected):
        TaskInstance(task, task.size_sets()[0])


def of_format(dtype: str, generator: str, reference: str = "input_data['E0']") -> TaskInstance:
    task = loads_task(
        f'inputs: [{{name: E0, dtype: {dtype}, dims: [M, N], data_gen: "{generator}"}}]\n'
        f'outputs: [{{name: S0, dtype: {dtype}, dims: [M, N], data_transform: "{reference}"}}]\n',
        "t",
    )
    return TaskInstance(task, task.size_sets()[0])


@pytest.mark.parametrize(
    ("dtype", "generator", "torch_dtype"),
    [
        ("bf16", "uniform(1, 2)", torch.bfloat16),
        ("fp8_e4m3", "torch.rand", torch.float8_e4m3fn),
        ("int8", "integers(-128, 127)", torch.int8),
        ("int32", "sorted(ids(M))", torch.int32),
        ("bool", "binary", torch.bool),
        ("bool", "torch.rand(shape) < 0.1", torch.bool),
    ],
)
def test_inputs_and_references_have_their_format(dtype: str, generator: str, torch_dtype: torch.dtype) -> None:
    """Both sides see torch's type of the format, with numbers that differ; other inputs are given in it too."""
    instance = of_format(dtype, generator)
    for data in (instance.sample_inputs(0), instance.use_inputs(instance.sampled(1))):
        assert data["E0"][0].dtype == instance.reference()[0][0].dtype == torch_dtype
        assert len(data["E0"][0].double().unique()) > 1


@pytest.mark.parametrize(
    ("dtype", "generator", "reference", "message"),
    [
        ("int8", "integers(0, 200)", "input_data['E0']", "int8 holds whole numbers from -128 to 127"),
        ("fp8_e4m3", "uniform(500, 600)", "input_data['E0']", "fp8_e4m3 holds numbers from -448 to 448"),
        ("int32", "torch.rand(shape)", "input_data['E0']", "expected integers for int32, found floating-point numbers"),
        ("bool", "torch.randint(2, shape)", "input_data['E0']", "expected a tensor of bool, found int64"),
        ("int8", "binary", "input_data['E0'] / 2", "expected integers for int8, found floating-point numbers"),
        ("bool", "binary", "input_data['E0'].int()", "expected a tensor of bool, found int32"),
    ],
)
def test_data_and_references_of_another_kind_are_refused(
    dtype: str, generator: str, reference: str, message: str
) -> None:
    """What a format does not hold is an error of the task, which says what it holds."""
    instance = of_format(dtype, generator, reference)
    with pytest.raises(TaskError, match=message):
        instance.sample_inputs(0)
        instance.reference()


def test_large_samples_are_drawn_anew_instead_of_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task of large data needs memory for few samples; each seed gives the same numbers again."""
    monkeypatch.setattr("step_runtime.verification.instance._KEPT", 0)
    instance = TaskInstance(general(), general().size_sets()[0])
    first = instance.sampled(0)["E0"][0]
    instance.sampled(1)
    assert list(instance._sampled) == [1] and torch.equal(instance.sampled(0)["E0"][0], first)
