"""Folds that their tasks' data does not show to be deep.

Invariant: a task loads with a warning where one end of a dim changes numbers of an output and no comparison sees it, so
that a program which reads the other end alone passes; operators whose numbers depend on all of a dim load without.
"""

import warnings
from pathlib import Path

import pytest

from step_runtime import load_task

RECURRENCE = """
inputs:
- name: X
  dtype: fp32
  dims: [T, B]
  data_gen: torch.randn
fns:
- name: Step
  apply: return [{decay} * state[0] + input[0]]
  init: [0]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn_step
outputs:
- name: Y
  dtype: fp32
  dims: [{dims}]
  data_transform:
  - |
    state, states = 0, []
    for x in input_data['X'].unbind(-1):
        state = {decay} * state + x
        states.append(state)
    {result}
sizes: {{T: [8, {shorter}], B: [5, 3]}}
"""


def warned(tmp_path: Path, text: str) -> list[str]:
    """What loading a task says of ends of its dims."""
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_task(path)
    return [each for each in (str(one.message) for one in caught) if "elements of input" in each]


def recurrence(decay: float, *, states: bool = False, shorter: int = 6) -> str:
    """A task whose output is a decaying sum along T: the last one, or all."""
    dims, result = ("T, B", "torch.stack(states, -1)") if states else ("B", "state")
    return RECURRENCE.format(decay=decay, dims=dims, result=result, shorter=shorter)


@pytest.mark.parametrize("states", [False, True])
@pytest.mark.parametrize("shorter", [2, 6])
def test_a_recurrence_that_forgets_within_the_tolerance_is_reported(tmp_path: Path, states: bool, shorter: int) -> None:
    """Its first elements change the last outputs by less than is compared: two elements are enough for a program."""
    [found] = warned(tmp_path, recurrence(1e-4, states=states, shorter=shorter))
    assert "the first elements of input X along T change part of an output" in found


@pytest.mark.parametrize("decay", [1e-4, 0.5])
def test_a_dim_of_buffers_is_a_dim_as_well(tmp_path: Path, decay: float) -> None:
    """A function that folds a Buffer's elements may leave some out, too."""
    text = recurrence(decay).replace("  dtype: fp32\n  dims: [T, B]", '  dtype: "Buffer(fp32, [T])"\n  dims: [B]')
    found = warned(tmp_path, text)
    assert len(found) == (decay < 0.1) and all("the first elements of input X along T" in one for one in found)


@pytest.mark.parametrize("decay", [0.5, 0.9, 1.0, 1.1])
def test_a_recurrence_whose_data_shows_its_depth_is_not(tmp_path: Path, decay: float) -> None:
    """No warning where a set of sizes makes each element count."""
    assert warned(tmp_path, recurrence(decay)) == []


@pytest.mark.parametrize("reference", ["input_data['X'].amax(-1)", "input_data['X'][:, -1]", "input_data['X'].sum(-1)"])
def test_what_an_output_ignores_or_sees_is_not(tmp_path: Path, reference: str) -> None:
    """An element that changes nothing at all is no doubt about depth, nor is a maximum that rarely depends on it."""
    text = recurrence(1.0)
    assert warned(tmp_path, text.replace("    state\n", f"    {reference}\n")) == []
