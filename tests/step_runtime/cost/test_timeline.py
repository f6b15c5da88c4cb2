"""Times and queues of random programs agree with an event-by-event simulation of the token semantics.

Emission order, the time of every token and the length of every queue are equal, with empty dims, routing and ties.
"""

from collections import Counter
from random import Random

import numpy as np
import pytest

from step_runtime import primitives as p
from step_runtime.base.errors import RunError
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
from step_runtime.cost.chip import Chip
from step_runtime.cost.model import estimate
from step_runtime.cost.timeline import clocks, queues, timeline
from step_runtime.program.graph import Program
from step_runtime.verification.check import infer_types
from tests.support.events import World, parting_copies, simulate_events, spelled_levels
from tests.support.priced import checked, priced
from tests.support.random_programs import Case, random_case
from tests.support.task_texts import ADD, MATRIX, NEG, SAME, SUM, task_text
from tests.support.tokens import Stop, trace_tokens

CHIP = Chip(rate=1, bandwidth=8)


def operations(fn: Fn) -> int:
    """From none to four cycles a call, by the function's name."""
    return (7 * int(fn.label.removeprefix("fn_")) + 3) % 5


def routed(program: Program, streams: list[list[object]]) -> dict[int, list[list[int]]]:
    """The streams that each index element chooses, by the number of the Partition or Merge."""
    found = {}
    for number, node in enumerate(program.nodes):
        if isinstance(node.op, p.Partition | p.Merge):
            index = streams[node.inputs[-1]]
            values = [token for token in index if not isinstance(token, Stop)]
            found[number] = [[at for at, bit in enumerate(value[0].tolist()) if bit] for value in values]  # type: ignore[index]
    return found


def as_bits(marks: list[list[int]], count: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    bits = np.zeros((len(marks), count), np.bool_)
    for element, chosen in enumerate(marks):
        bits[element, chosen] = True
    return bits


def streams_to(node: p.Primitive, inputs: int, outputs: int) -> int:
    return outputs if isinstance(node, p.Partition) else inputs - 1


def compare(case: Case) -> Counter[str]:
    """Holds one program to the events; returns what was compared."""
    program = case.program
    found, problems = infer_types(program, case.scope)
    types = [kind for kind in found if kind is not None]
    assert not problems and len(types) == len(found)
    sizes = dict(case.scope.sizes)
    try:
        tokens = trace_tokens(program, types, case.data, sizes)
    except RunError:
        return Counter()
    marks = routed(program, tokens)  # type: ignore[arg-type]
    routing = {
        number: as_bits(chosen, streams_to(node.op, len(node.inputs), len(node.outputs)))
        for number, chosen in marks.items()
        for node in [program.nodes[number]]
    }
    calls = [sum(map(operations, node.op.functions())) for node in program.nodes]
    timed = timeline(program, types, case.scope.sizes, calls.__getitem__, CHIP, routing)
    given = {
        stream: [*zip(*(part.tolist() for part in timed.streams[stream]), strict=True)]
        for stream in range(len(program.inputs))
    }
    assert {name: timed.sizes[name] for name in sizes} == sizes
    world = simulate_events(program, types, sizes, marks, given=given, cycles=timed.cycles, step=1)
    for stream, arrays in enumerate(timed.streams):
        assert arrays.levels.tolist() == spelled_levels(tokens[stream], types[stream].rank), f"order of stream {stream}"
        assert [*zip(*(part.tolist() for part in arrays), strict=True)] == world.emitted[stream], f"stream {stream}"
    lengths = {(join.node, join.operand): join.length for join in queues(timed)}
    assert lengths == queues_by_events(program, types, sizes, marks, world)
    cost = estimate(program, types, case.scope.sizes, operations, CHIP, routing)
    end = max(time for stream in world.emitted.values() for _, time in stream)
    assert cost.time == max(end, -(-int(8 * cost.traffic) // (8 * CHIP.bandwidth)))
    sums = sum(added for _, added in timed.path())
    assert sums <= timed.end
    return Counter(programs=1, queues=len(lengths), waiting=sum(map(bool, lengths.values())), **case.primitives())


def queues_by_events(
    program: Program, types: list[StreamType], sizes: dict[str, int], marks: dict[int, list[list[int]]], timed: World
) -> dict[tuple[int, int], int]:
    """The longest queues on the clock of the streams that were copied where the operands' ways part."""
    joins = {number: node for number, node in enumerate(program.nodes) if len(node.inputs) > 1}
    longest = {(number, at): 0 for number, node in joins.items() for at in range(len(node.inputs))}
    for number, join in joins.items():
        for copy in parting_copies(program, join):
            world = World()
            descending = set(program.nodes[copy].outputs)
            for node in program.nodes[copy + 1 :]:
                if descending.intersection(node.inputs):
                    descending.update(node.outputs)
            given = {stream: [(level, 0) for level, _ in tokens] for stream, tokens in timed.emitted.items()}
            given = {stream: tokens for stream, tokens in given.items() if stream not in descending}
            ticks = 0
            clock = []
            for level, _ in timed.emitted[program.nodes[copy].inputs[0]]:
                ticks += level == 0
                clock.append((level, ticks))
            given |= dict.fromkeys(program.nodes[copy].outputs, clock)
            world = simulate_events(program, types, sizes, marks, given=given, cycles=[0] * len(program.nodes), step=0)
            for at, stream in enumerate(join.inputs):
                if stream in descending:
                    longest[number, at] = max(longest[number, at], world.queues[stream][0].longest)
    return longest


def test_random_programs_agree_with_the_events() -> None:
    """Every primitive takes part, and some queues wait."""
    compared: Counter[str] = Counter()
    for seed in range(60):
        compared += compare(random_case(Random(seed)))
    assert compared["programs"] > 50
    assert compared["waiting"] > 2
    assert all(compared[name] > 3 for name in p.PRIMITIVES if name != "RepeatLast"), compared


@pytest.mark.slow
def test_more_random_programs_agree_with_the_events() -> None:
    """The same on more of them."""
    compared: Counter[str] = Counter()
    for seed in range(1_000, 4_000):
        compared += compare(random_case(Random(seed)))
    assert compared["programs"] > 2_400


TASK = task_text([MATRIX, MATRIX.replace("E0", "E1")], [NEG, ADD, SUM], [SAME])
SIZES = {"M": 8, "N": 3}
TOTAL = "E4 = step.Repeat(n=M).apply(step.Accum(fn=fn_sum, b=1).apply(E3))\n"


def lengths(text: str) -> dict[tuple[int, int], int]:
    """The queues that ever wait, by node and operand."""
    cost = priced(TASK, text, SIZES, Chip())
    return {(queue.node, queue.operand): queue.length for queue in cost.queues}


def test_elements_wait_for_their_rows_total() -> None:
    """All but the last, with which the total comes."""
    text = f"E2, E3 = step.Copy().apply(E0)\n{TOTAL}return step.Zip().apply((E2, E4))"
    assert lengths(text) == {(3, 0): 7}


def test_ways_that_part_twice_are_measured_where_they_part_first() -> None:
    text = f"""
E2, E3 = step.Copy().apply(E0)
E5, E6 = step.Copy().apply(E2)
{TOTAL}
E7 = step.Map(fn=fn_add).apply(step.Zip().apply((E5, E4)))
return step.Zip().apply((E6, E7))
"""
    program = checked(TASK, text).program
    join = len(program.nodes) - 1
    assert clocks(program, join) == [0]
    assert lengths(text) == {(4, 0): 7, (join, 0): 7}
