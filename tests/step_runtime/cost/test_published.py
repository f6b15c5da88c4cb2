"""Costs agree with published ones: STeP's tilings of SwiGLU, and the queues of attention on streaming dataflow.

- STeP (arXiv 2511.07776), Figure 8: traffic and on-chip memory of a SwiGLU expert for 15 sizes of tiles
- arXiv 2404.16629: naive attention needs a queue of about N before its division, reordered attention a short one
"""

import pytest

from step_runtime.cost.calibration import Measured, fitted, predicted
from step_runtime.cost.chip import Chip
from step_runtime.cost.model import estimate
from step_runtime.tasks.reader import loads_task
from step_runtime.verification.task_costs import TaskCosts
from step_runtime.verification.verify import verify
from tests.support.priced import checked, priced
from tests.support.task_texts import DIV, EXP, SUM, task_text

SWIGLU = """
inputs:
- {name: E0, dtype: "Buffer(fp32, [D, M])", dims: [P, Q], data_gen: torch.randn}
- {name: E1, dtype: "Buffer(fp32, [N, D])", dims: [P, Q], data_gen: torch.randn}
- {name: E2, dtype: "Buffer(fp32, [N, D])", dims: [P, Q], data_gen: torch.randn}
- {name: E3, dtype: "Buffer(fp32, [D, N])", dims: [P, Q], data_gen: torch.randn}
fns:
- {name: Product, apply: "return [state[0] + input[0] @ input[1]]", init: [0],
   input_dtype: ["Buffer(fp32, [D, M])", "Buffer(fp32, [N, D])"], output_dtype: "Buffer(fp32, [N, M])",
   func_name: fn_up}
- {name: Gate, apply: "return [torch.nn.functional.silu(input[0]) * input[1]]",
   input_dtype: ["Buffer(fp32, [N, M])", "Buffer(fp32, [N, M])"], output_dtype: "Buffer(fp32, [N, M])",
   func_name: fn_gate}
- {name: Down, apply: "return [state[0] + input[0] @ input[1]]", init: [0],
   input_dtype: ["Buffer(fp32, [N, M])", "Buffer(fp32, [D, N])"], output_dtype: "Buffer(fp32, [D, M])",
   func_name: fn_down}
outputs:
- name: S0
  dtype: Buffer(fp32, [D, M])
  dims: [Q]
  data_transform: |
    x, w1, w3, w2 = (input_data[name] for name in ('E0', 'E1', 'E2', 'E3'))
    (torch.nn.functional.silu(x @ w1) * (x @ w3) @ w2).sum(1)
sizes: {P: [2, 3], Q: [4, 2]}
"""
TILED = """
E4, E5 = step.Copy().apply(E0)
E6 = step.Accum(fn=fn_up, b=1).apply(step.Promote(b=0).apply(step.Zip().apply((E4, E1))))
E7 = step.Accum(fn=fn_up, b=1).apply(step.Promote(b=0).apply(step.Zip().apply((E5, E2))))
E8 = step.Map(fn=fn_gate).apply((E6, E7))
return step.Accum(fn=fn_down, b=1).apply(step.Zip().apply((E8, E3)))
"""
B, D, INNER = 64, 256, 512
TILES = [(m, n) for m in (16, 32, 64) for n in (16, 32, 64, 128, 256)]


def test_tiled_swiglu_is_right() -> None:
    """The program whose cost is compared computes the operator."""
    task = loads_task(SWIGLU, "swiglu")
    verdict = verify(task, TILED)
    assert verdict.passed, verdict.render(TILED)


@pytest.mark.parametrize(("m", "n"), TILES)
def test_swiglu_costs_what_figure_8_has(m: int, n: int) -> None:
    """Traffic, and on-chip memory with one tile for each transfer.

    STeP has operators that load and store a tile; here those tiles are the cost's `staging`. Its product of two tiles
    holds the tile that it makes, as an Accum does here.
    """
    sizes = {"M": m, "N": n, "D": D, "P": INNER // n, "Q": B // m}
    cost = priced(SWIGLU, TILED, sizes, Chip(bandwidth=1024))
    assert cost.traffic == 4 * B * D * (INNER // n) + 12 * D * INNER * (B // m) + 4 * B * D
    assert cost.memory + cost.staging == 4 * (3 * m * D + 3 * n * D + 2 * m * n)
    assert cost.queue == 0


def test_figures_named_in_the_paper() -> None:
    """The smallest and the largest tile."""
    for (m, n), traffic, memory in (((16, 16), 8_454_144, 100_352), ((64, 256), 1_769_472, 1_114_112)):
        sizes = {"M": m, "N": n, "D": D, "P": INNER // n, "Q": B // m}
        cost = priced(SWIGLU, TILED, sizes, Chip())
        assert (cost.traffic, cost.memory + cost.staging) == (traffic, memory)


WEIGHTED = """
  name: Weighted
  apply: "return [state[0] + input[0] * input[1]]"
  init: [0]
  input_dtype: [fp32, "Buffer(fp32, [D])"]
  output_dtype: Buffer(fp32, [D])
  func_name: fn_weighted
"""
SCALE = """
  name: Scale
  apply: "return [input[1] / input[0]]"
  input_dtype: [fp32, "Buffer(fp32, [D])"]
  output_dtype: Buffer(fp32, [D])
  func_name: fn_scale
"""
ATTENTION = task_text(
    [
        "{name: E0, dtype: fp32, dims: [M, N], data_gen: torch.randn}",
        '{name: E1, dtype: "Buffer(fp32, [D])", dims: [M, N], data_gen: torch.randn}',
    ],
    [EXP, SUM, DIV, WEIGHTED, SCALE],
    [
        """
  name: S0
  dtype: Buffer(fp32, [D])
  dims: [N]
  data_transform: "torch.einsum('nm,nmd->nd', torch.softmax(input_data['E0'], -1), input_data['E1'])"
"""
    ],
)
NAIVE = """
E2, E3 = step.Copy().apply(step.Map(fn=fn_exp).apply(E0))
E4 = step.Repeat(n=M).apply(step.Accum(fn=fn_sum, b=1).apply(E2))
E5 = step.Map(fn=fn_div).apply(step.Zip().apply((E3, E4)))
return step.Accum(fn=fn_weighted, b=1).apply(step.Zip().apply((E5, E1)))
"""
REORDERED = """
E2, E3 = step.Copy().apply(step.Map(fn=fn_exp).apply(E0))
E4 = step.Accum(fn=fn_sum, b=1).apply(E2)
E5 = step.Accum(fn=fn_weighted, b=1).apply(step.Zip().apply((E3, E1)))
return step.Map(fn=fn_scale).apply(step.Zip().apply((E4, E5)))
"""
FIFO = 2
"""The places that any FIFO has there: for the element that arrives and the one that leaves."""


@pytest.mark.parametrize("text", [NAIVE, REORDERED])
def test_both_attentions_are_right(text: str) -> None:
    verdict = verify(loads_task(ATTENTION, "attention"), text)
    assert verdict.passed, verdict.render(text)


@pytest.mark.parametrize("n", [16, 1024])
def test_naive_attention_needs_a_queue_of_n_and_reordered_attention_none(n: int) -> None:
    """With the FIFO's own places N + 1 against 2.

    Both take an element a cycle: only the last row's wait, and a few cycles of latency, separate them.
    """
    rows = 8
    chip, sizes = Chip(rate=1, bandwidth=1024), {"M": n, "N": rows, "D": 16}
    naive, reordered = (priced(ATTENTION, text, sizes, chip) for text in (NAIVE, REORDERED))
    assert (naive.queue + FIFO, reordered.queue + FIFO) == (n + 1, 2)
    assert naive.time == rows * n + n + 3
    assert reordered.time == rows * n + 3
    assert naive.memory == 4 * (1 + 1 + 16) + 4 * (n - 1)
    assert reordered.memory == 4 * (1 + 16)


def test_the_cost_at_the_published_size_is_exact_too() -> None:
    """All N rows of N=256: N² elements, one a cycle."""
    program, types = checked(ATTENTION, REORDERED)
    cost = estimate(program, types, {"M": 256, "N": 256, "D": 64}, lambda fn: 1, Chip(rate=1, bandwidth=1024))
    assert cost.time == 256 * 256 + 3


def test_a_chip_fits_the_published_cycles_of_kernels_that_loads_bind() -> None:
    """The law of STeP's simulator: bytes loaded / 64 + 13 + bytes of the largest tile / 128.

    Of 16 kernels, 15 are within a cycle of it, and one is not. The two that are published with their loads come out
    exactly: an addition of 213 cycles, and a product of matrices of 789, with its reloads.
    """
    published = [Measured("element_wise_add", 213, 12_288, 1_024), Measured("gemm", 789, 49_152, 1_024)]
    sizes = [(rows * tile, tile) for rows, tile in zip((12, 20, 9, 40, 16, 33, 50) * 2, (512, 4096) * 7, strict=True)]
    law = [round(loaded / 64 + 13 + tile / 128) for loaded, tile in sizes]
    rows = [Measured(f"k{at}", law[at] + (at % 5 == 2), *size) for at, size in enumerate(sizes[:13])]
    rms_norm = Measured("rms_norm", 246, 9_728, 1_024)
    chip = fitted([*published, *rows, rms_norm], Chip())
    assert (chip.bandwidth, chip.latency, chip.drain) == (64, 13, 128)
    assert [predicted(row, chip) for row in published] == [213, 789] and predicted(rms_norm, chip) == 173
    assert all(abs(predicted(row, chip) - row.cycles) <= 1 for row in rows)


def test_parameters_are_loaded_once_and_held() -> None:
    """Those that the program's functions read; without them a matrix in a function would cost nothing."""
    task = loads_task(
        "inputs: [{name: X, dtype: 'Buffer(fp32, [K])', dims: [M], data_gen: torch.randn}]\n"
        "parameters: [{name: W, dtype: fp32, dims: [N, K], data_gen: torch.randn}]\n"
        "fns: [{name: F, apply: \"return [input[0] @ input_data['W']]\", input_dtype: 'Buffer(fp32, [K])',"
        " output_dtype: 'Buffer(fp32, [N])', func_name: fn}]\n"
        "outputs: [{name: Y, dtype: 'Buffer(fp32, [N])', dims: [M],"
        " data_transform: \"input_data['X'] @ input_data['W']\"}]\n"
        "sizes: {M: [2, 3], K: [4, 5], N: [8, 6]}\n"
    )
    found = TaskCosts(task).price("return step.Map(fn=fn).apply(X)")
    assert (found.cost.parameters, found.cost.memory, found.cost.traffic) == (128, 128, 128 + 4 * 2 * (4 + 8))
    assert found.bound.traffic == found.cost.traffic
