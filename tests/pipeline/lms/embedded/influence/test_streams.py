"""Primitives move sources as they move data."""

from __future__ import annotations

import numpy as np

from pipeline.lms.embedded.influence.arrays import unknown
from pipeline.lms.embedded.influence.streams import UNREAD, Stream, Streams
from pipeline.lms.embedded.influence.task_influence import TaskInfluence
from step_runtime.primitives import (
    Accum,
    Bufferize,
    Copy,
    Flatten,
    Map,
    Merge,
    Partition,
    Promote,
    Repeat,
    Reshape,
    Scan,
    Streamify,
    Zip,
)
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope

TASK = loads_task(
    """
inputs:
- {name: x, dtype: fp32, dims: [4, 2], data_gen: torch.randn}
- {name: i, dtype: 'Multihot(fp32, 2)', dims: [2]}
fns:
- {name: Add, apply: "return [state[0] + input[0]]", init: [0], input_dtype: fp32, output_dtype: fp32,
   func_name: fn_add}
- {name: Half, apply: "return [input[0][:2]]", input_dtype: 'Buffer(fp32, [4])', output_dtype: 'Buffer(fp32, [2])',
   func_name: fn_half}
- {name: Shift, apply: "return [torch.cat((state[0][1:], input))]", init: [0], input_dtype: fp32,
   output_dtype: 'Buffer(fp32, [2])', func_name: fn_shift}
- {name: Count, apply: "return [state[0] + 1, input[0]]", init: [-1, 0], input_dtype: fp32, output_dtype: [fp32, fp32],
   func_name: fn_count}
- {name: Early, apply: "return [torch.where(input[0] < 2, input[1], 0.0)]", input_dtype: [fp32, fp32],
   output_dtype: fp32, func_name: fn_early}
outputs:
- {name: O, dtype: fp32, dims: [4, 2], data_transform: "input_data['x']"}
"""
)
FNS = static_scope(TASK).fns


def made() -> tuple[Streams, int]:
    """Streams, and the number of [[1, 2, 4, 8], [16, 32, 64, 128]]."""
    streams = TaskInfluence(TASK).streams
    x = unknown(np.left_shift(np.uint64(1), np.arange(8, dtype=np.uint64)).reshape(2, 4))
    return streams, streams.number(Stream((x,), (0,), 0))


def shown(streams: Streams, number: int, part: int = 0) -> object:
    stream = streams.stream(number)
    return None if stream is None else stream.parts[part].sources.tolist()


def test_structure_keeps_every_element() -> None:
    """Splitting, merging, collecting and taking out again."""
    streams, x = made()
    (split,) = streams.add(Reshape((0,), 2), x)
    assert shown(streams, split) == [[[1, 2], [4, 8]], [[16, 32], [64, 128]]]
    assert shown(streams, streams.add(Flatten((1,)), split)[0]) == shown(streams, x)
    (opened,) = streams.add(Streamify(), streams.add(Bufferize(1), x)[0])
    assert shown(streams, opened) == shown(streams, x) and streams.rank(opened) == streams.rank(x)
    one, other = streams.add(Copy(), x)
    assert one == other and shown(streams, one) == shown(streams, x)
    (repeated,) = streams.add(Repeat(2), streams.add(Promote(0), x)[0])
    assert streams.rank(repeated) == 4


def test_what_functions_make_of_the_same_is_the_same() -> None:
    """Also where the operands were arranged in other ways."""
    streams, x = made()
    (opened,) = streams.add(Streamify(), streams.add(Bufferize(1), x)[0])
    assert streams.add(Accum(FNS["fn_add"], 1), opened) == streams.add(Accum(FNS["fn_add"], 1), x)


def test_folds_gather_and_scans_gather_up_to_each_element() -> None:
    """Over the inner dims."""
    streams, x = made()
    add = FNS["fn_add"]
    assert shown(streams, streams.add(Accum(add, 1), x)[0]) == [15, 240]
    assert shown(streams, streams.add(Scan(add, 1), x)[0]) == [[1, 3, 7, 15], [16, 48, 112, 240]]


def test_a_window_forgets() -> None:
    """A state that shifts depends on the last elements only."""
    streams, x = made()
    windows = streams.add(Scan(FNS["fn_shift"], 1), x)[0]
    assert shown(streams, windows) == [[[0, 1], [1, 2], [2, 4], [4, 8]], [[0, 16], [16, 32], [32, 64], [64, 128]]]


def test_counts_are_known() -> None:
    """A function that compares them leaves nothing of what it drops."""
    streams, x = made()
    early = streams.add(Map(FNS["fn_early"]), streams.add(Scan(FNS["fn_count"], 1), x)[0])[0]
    assert shown(streams, early) == [[1, 2, 0, 0], [16, 32, 0, 0]]


def test_buffers_are_read_as_they_are() -> None:
    """A slice of a Buffer takes its part of it."""
    streams, x = made()
    (half,) = streams.add(Map(FNS["fn_half"]), streams.add(Bufferize(1), x)[0])
    assert shown(streams, half) == [[1, 2], [16, 32]]


def test_a_routing_depends_on_its_index() -> None:
    """Each element may be any of those that are folded."""
    streams, x = made()
    index = streams.number(Stream((unknown(np.array([[256], [512]], np.uint64)),), (1,), 1))
    pieces = streams.add(Partition(2), x, index)
    assert shown(streams, streams.add(Merge(FNS["fn_add"]), *pieces, index)[0]) == [
        [257, 258, 260, 264], [528, 544, 576, 640]]  # fmt: skip
    assert streams.add(Accum(FNS["fn_add"], 2), pieces[0]) == (UNREAD,)


def test_what_does_not_fit_is_unread() -> None:
    """And all that is made of it."""
    streams, x = made()
    (folded,) = streams.add(Accum(FNS["fn_add"], 1), x)
    (zipped,) = streams.add(Zip(), x, folded)
    assert zipped == UNREAD and streams.add(Map(FNS["fn_early"]), zipped) == (UNREAD,)
    assert shown(streams, UNREAD) is None and streams.rank(UNREAD) == 0
