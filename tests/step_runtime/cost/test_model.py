"""The cost of whole programs, worked by hand: every rule of `docs/cost.md` on memory, traffic, operations and time."""

import pytest

from step_runtime.cost.chip import Chip
from step_runtime.cost.model import Cost
from tests.support.priced import priced
from tests.support.task_texts import NEG, SUM, task_text

ADD = """
  name: Add
  apply: "return [state[0] + input[0]]"
  init: [0]
  input_dtype: Buffer(fp32, [D])
  output_dtype: Buffer(fp32, [D])
  func_name: fn_add
"""
TASK = task_text(
    [
        "{name: E0, dtype: fp32, dims: [D, N], data_gen: torch.rand}",
        '{name: E1, dtype: "Multihot(fp32, E)", dims: [N]}',
    ],
    [NEG, SUM, ADD],
    ["{name: S0, dtype: fp32, dims: [N], data_transform: \"input_data['E0'].sum(1)\"}"],
    "sizes: {E: 3}\n",
)
SIZES = {"D": 4, "N": 5, "E": 3}
CHIP = Chip(rate=1, bandwidth=16)


def cost(text: str, chip: Chip = CHIP, operations: int = 2) -> Cost:
    return priced(TASK, text, SIZES, chip, operations)


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("return step.Map(fn=fn_neg).apply(E0)", 0),
        ("return step.Copy().apply(E0)", 0),
        ("return step.Promote(b=0).apply(E0)", 0),
        ("return step.Flatten(L=[1]).apply(E0)", 0),
        ("return step.Reshape(L=[0], S=2).apply(E0)", 0),
        ("return step.Accum(fn=fn_sum, b=1).apply(E0)", 4),
        ("return step.Scan(fn=fn_sum, b=1).apply(E0)", 4),
        ("return step.Repeat(n=7).apply(E0)", 4),
        ("return step.Repeat(n=7).apply(E1)", 3 / 8),
        ("E2, E3 = step.Copy().apply(E0)\nreturn step.RepeatRef().apply((E2, step.Repeat(n=2).apply(E3)))", 4 + 4),
        ("return step.Bufferize(a=1).apply(E0)", 4 + 2 * 16),
        ("return step.Streamify().apply(step.Bufferize(a=1).apply(E0))", 4 + 2 * 16),
    ],
)  # fmt: skip
def test_memory_of_primitives(text: str, memory: float) -> None:
    """Only folds, repeats and buffers hold data; a Multihot takes a bit for each of its places."""
    assert cost(text).memory == memory


def test_traffic_is_every_input_read_and_every_result_written_once() -> None:
    """An input that is not read costs nothing."""
    found = cost("return step.Accum(fn=fn_sum, b=1).apply(E0)")
    assert found.traffic == 4 * 20 + 4 * 5
    assert found.staging == 4 + 4
    assert cost("return E1").traffic == 2 * 5 * 3 / 8


def test_operations_are_those_of_all_calls() -> None:
    """A fold calls its function once per element."""
    text = "return step.Accum(fn=fn_sum, b=1).apply(step.Map(fn=fn_neg).apply(E0))"
    found = cost(text, operations=7)
    assert [node.operations for node in found.nodes] == [140, 140]
    assert found.operations == 280


def test_time_of_a_slow_map_is_that_of_its_calls() -> None:
    """The first element arrives in the first cycle; each call takes two."""
    found = cost("return step.Map(fn=fn_neg).apply(E0)")
    assert found.time == 1 + 20 * 2
    assert (found.nodes[0].busy, found.nodes[0].added, found.path) == (40, 41 - 20, (0,))


@pytest.mark.parametrize(("lanes", "time"), [(1, 23), (2, 21), (3, 21), (4, 20), (9, 20)])
def test_streamify_takes_values_by_lanes(lanes: int, time: int) -> None:
    """The last buffer of four numbers comes in cycle 20, when the one before it is out."""
    text = "return step.Streamify().apply(step.Bufferize(a=1).apply(E0))"
    assert cost(text, Chip(rate=1, bandwidth=16, lanes=lanes)).time == time


def test_traffic_may_take_longer_than_the_program() -> None:
    """Then no primitive is critical."""
    found = cost("return step.Repeat(n=7).apply(E0)", Chip(rate=1, bandwidth=1))
    assert found.time == found.traffic == 4 * 20 * 8
    assert found.path == ()


ROUTED = """
E2, E3 = step.Copy().apply(E1)
E4 = step.Bufferize(a=1).apply(E0)
E5 = step.Partition(N=E).apply((E4, E2))
return step.Merge(fn=fn_add).apply((E5, E3))
"""


def test_dims_that_depend_on_the_data_count_as_their_bounds() -> None:
    """Every index element may choose every stream."""
    found = cost(ROUTED)
    assert found.bounded
    assert found.memory == (4 + 2 * 16) + 16
    assert found.nodes[-1].operations == 2 * 3 * 5
    assert not cost("return E0").bounded


def test_the_state_of_a_merge_is_read_and_written_at_every_element_off_chip() -> None:
    found = cost(ROUTED, Chip(rate=1, bandwidth=16, sram=10))
    assert found.memory == 0
    assert [spill.moved / 8 for spill in found.spills] == [2 * 20 * 4, 2 * 16 * 3 * 5]


SOFT = """
E2, E3 = step.Copy().apply(E0)
E4 = step.Repeat(n=D).apply(step.Accum(fn=fn_sum, b=1).apply(E3))
return step.Zip().apply((E2, E4))
"""


def test_queues_take_memory() -> None:
    found = cost(SOFT)
    assert found.memory == 4 + 4 + 3 * 4
    assert [(queue.node, queue.length, queue.bits) for queue in found.queues] == [(3, 3, 96)]
    assert found.queue == 3


@pytest.mark.parametrize(
    ("sram", "memory", "spilled", "moved"),
    [
        (20, 20, [], 0),
        (19, 8, [(3, 0)], 2 * 4 * 20),  # the queue: every element that passes through it
        (7, 4, [(3, 0), (1, None)], 160 + 2 * 20 * 4),  # the state of the Accum, at every element
        (3, 0, [(3, 0), (1, None), (2, None)], 160 + 160 + (5 + 20) * 4),  # the repeated element
    ],
)
def test_what_does_not_fit_is_written_and_read_off_chip(
    sram: int, memory: int, spilled: list[tuple[int, int | None]], moved: int
) -> None:
    """The largest first, until the rest fits."""
    found = cost(SOFT, Chip(rate=1, bandwidth=16, sram=sram))
    assert found.memory == memory
    assert [(spill.node, spill.operand) for spill in found.spills] == spilled
    assert found.traffic == cost(SOFT).traffic + moved
