"""Landmarks are values that a reference computes from its inputs; a stream reaches one in any order of its dims."""

import pytest
import torch

from pipeline.synthesis import SearchBudget, synthesize
from pipeline.synthesis.observation import Landmarks, ReferenceValue, flat_inputs, reference_values
from pipeline.synthesis.value_blocks import RowLayout
from step_runtime.execution.invocation import default_dtype
from step_runtime.verification.instance import TaskInstance, instances
from tests.support.small_tasks import task

LOOP = """
inputs:
- {name: E0, dtype: fp32, dims: [D, N], data_gen: torch.randn}
fns:
- name: Add
  apply: "return [state[0] + input[0]]"
  init: [0]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn_add
- {name: Sin, apply: "return [torch.sin(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_sin}
outputs:
- name: S0
  dtype: fp32
  dims: [N]
  data_transform:
  - |
    total = torch.zeros(N_value)
    for step in range(D_value):
        total = total + input_data['E0'][:, step]
    torch.sin(total * torch.arange(2.0)[1])
"""


def named(values: list[torch.Tensor]) -> list[ReferenceValue]:
    return [ReferenceValue("", value) for value in values]


def observed() -> TaskInstance:
    return instances(task(LOOP))[0]


def landmarks_of(instance: TaskInstance) -> Landmarks:
    return Landmarks(reference_values(instance, 0), reference_values(instance, 1), flat_inputs(instance, 0))


def test_what_a_loop_computes_is_one_landmark() -> None:
    """The last sum, and all sums together; not the constants or the input."""
    with default_dtype(torch.float64):
        instance = observed()
        landmarks = landmarks_of(instance)
        (data,) = instance.sample_inputs(0)["E0"]
        sums, rows = data.cumsum(1), data.shape[0]
        assert landmarks.finite and landmarks.count >= 2
        assert list(
            landmarks.reached("last", RowLayout(((rows,),)), torch.stack([data[:, 0] + 1, sums[:, -1].flip(0)]))
        ) == [1]
        whole = RowLayout((tuple(sums.shape),))
        assert list(landmarks.reached("all", whole, sums.T.reshape(1, -1))) == [0]
        assert not list(landmarks.reached("all", whole, sums.T.reshape(1, -1))), "a value is found once for a type"
        assert list(landmarks.reached("all", whole, sums.reshape(1, -1))) == [0], "another order of it counts, too"
        for value in (data, torch.zeros_like(data), sums + 1e-3):
            assert not list(landmarks.reached("other", whole, value.reshape(1, -1)))


def test_a_tuple_that_repeats_a_landmark_less_counts_after_one_that_repeats_it() -> None:
    """The same fold, first along a dim that its operands do not have; then no further tuple as rare counts."""
    value = torch.tensor([0.5, 1.5, 2.5]).double()
    landmarks = Landmarks(named([value]), named([value + 1]), [])
    pair, repeated = RowLayout(((3,), (3,))), RowLayout(((3, 2), (3, 2)))
    other = torch.tensor([9.0, 9.0, 9.0]).double()
    wide = torch.cat([other.repeat_interleave(2), value.repeat_interleave(2)]).unsqueeze(0)
    assert list(landmarks.reached("repeated", repeated, wide)) == [0]
    assert list(landmarks.reached("pair", pair, torch.cat([other, value]).unsqueeze(0))) == [0]
    assert not list(landmarks.reached("another", pair, torch.cat([other + 1, value]).unsqueeze(0)))


def test_small_numbers_beside_those_of_a_mask_tell_streams_apart() -> None:
    """A stream that has a landmark's mask alone does not keep the next from having all of it."""
    value = torch.tensor([-1e9, 0.5, -1e9, 1.5, 2.5]).double()
    landmarks = Landmarks(named([value]), named([value + 1]), [])
    near = value + torch.tensor([0.0, 1e-3, 0.0, 0.0, 0.0])
    assert list(landmarks.reached("masked", RowLayout(((5,),)), torch.stack([near, value]))) == [1]


@pytest.mark.parametrize("value", [[0.0, 1.0, 0.0, 1.0], [7.0], [0.25, 0.5]])
def test_values_that_say_little_are_none(value: list[float]) -> None:
    """Bits and single whole numbers, and what is the same for another input."""
    flat = torch.tensor(value)
    others = [flat] if value == [0.25, 0.5] else [flat + 1]
    assert Landmarks(named([flat]), named(others), []).count == 0


def test_a_buffer_that_is_written_into_counts_when_it_is_read() -> None:
    """Slices are written one by one, and no operator gives the whole; what it was before the last write is none."""
    written = (
        LOOP[: LOOP.index("    total = ")]
        + """\
    doubled = torch.zeros(N_value, D_value)
    for step in range(D_value):
        doubled[:, step] = 2 * input_data['E0'][:, step]
    torch.sin(doubled.prod(1))
"""
    )
    with default_dtype(torch.float64):
        instance = instances(task(written))[0]
        (data,) = instance.sample_inputs(0)["E0"]
        values = [value for _, value in reference_values(instance, 0)]
    assert any(torch.equal(value, 2 * data.flatten()) for value in values)
    columns = data.shape[1]
    partly = torch.cat((2 * data[:, : columns - 1], torch.zeros_like(data[:, :1])), 1)
    assert not any(torch.equal(value, partly.flatten()) for value in values)


def test_a_search_starts_again_from_landmarks() -> None:
    """With far fewer candidates than without."""
    given = task(LOOP)
    assert synthesize(given, SearchBudget(seconds=600, candidates=5_000)).impl is not None


def test_lines_whose_values_no_stream_has_are_missed() -> None:
    """By output, number and text, until a stream has a value of theirs."""
    with default_dtype(torch.float64):
        instance = observed()
        landmarks = landmarks_of(instance)
        (data,) = instance.sample_inputs(0)["E0"]
        (line,) = [each for each in landmarks.missed() if "total +" in each]
        assert line == "output S0, line 3: total = total + input_data['E0'][:, step]"
        sums = data.cumsum(1)
        assert list(landmarks.reached("all", RowLayout((tuple(sums.shape),)), sums.reshape(1, -1))) == [0]
        assert line not in landmarks.missed()


def test_bits_and_multiples_are_landmarks_too() -> None:
    """Bits in the order of the value only; numbers up to a factor."""
    bits, numbers = torch.tensor([0.0, 1.0] * 3 + [1.0, 1.0]).double(), torch.linspace(0.5, 2.5, 5).double()
    landmarks = Landmarks(named([bits, numbers]), named([1 - bits, numbers + 1]), [])
    flat = RowLayout(((8,),))
    assert not list(landmarks.reached("bits", flat, bits.flip(0).unsqueeze(0)))
    assert list(landmarks.reached("bits", flat, bits.unsqueeze(0))) == [0]
    assert list(landmarks.reached("scaled", RowLayout(((5,),)), -3 * numbers.flip(0).unsqueeze(0))) == [0]
