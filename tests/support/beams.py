"""A task with a loop, and what a beam search works with there."""

from __future__ import annotations

from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.beam_search import BeamSearch
from pipeline.lms.embedded.strong.search_style import SearchStyle
from pipeline.lms.embedded.strong.strong_proposer import learned_for
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task

ROUNDS = """
inputs:
- {name: x, dtype: fp32, dims: [M, N], data_gen: torch.randn}
- {name: low, dtype: fp32, dims: [N], data_gen: torch.rand}
- {name: high, dtype: fp32, dims: [N], data_gen: torch.rand}
fns:
- name: Decay
  apply: return [input[1] * state[0] + input[0], state[0]]
  init: [0, 0]
  input_dtype: [fp32, fp32]
  output_dtype: [fp32, fp32]
  func_name: fn_decay
- {name: First, apply: "return [input[0]]", input_dtype: [fp32, fp32], output_dtype: fp32, func_name: fn_first}
outputs:
- name: O
  dtype: fp32
  dims: [M, N]
  data_transform:
  - |
    y = input_data['x']
    for name in ('low', 'high'):
        state, ys = torch.zeros(N_value), []
        for t in range(M_value):
            state = input_data[name] * state + y[:, t]
            ys.append(state)
        y = torch.stack(ys, 1)
    y
"""
"""Two filters in a row, each with its own factors; the second is a repetition of the first."""
VIEW = TaskView(loads_task(ROUNDS))


def beam_search(seed: int = 0, steps: int = 10**6, trust: float = 1.0) -> BeamSearch:
    """A beam search for that task."""
    edges = learned_for(VIEW, ((), ())).edge_model
    return BeamSearch(VIEW, edges, SeededChoice(seed, 1.0), StepLimit(steps), (), style=SearchStyle(trust))


def search_of(text: str) -> BeamSearch:
    """A beam search for a task."""
    view = TaskView(loads_task(text))
    edges = learned_for(view, ((), ())).edge_model
    return BeamSearch(view, edges, SeededChoice(0, 1.0), StepLimit(10**6), (), style=SearchStyle())
