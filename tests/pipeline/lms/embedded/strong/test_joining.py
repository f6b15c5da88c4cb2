"""Moves that do not exclude each other are made at once."""

from __future__ import annotations

from pipeline.lms.embedded.strong.beam_search import BeamSearch
from pipeline.lms.embedded.strong.joining import joined
from pipeline.lms.embedded.strong.levels import Levels, State
from tests.support.beams import search_of

TASK = """
inputs:
- {name: x, dtype: fp32, dims: [N], data_gen: torch.randn}
- {name: y, dtype: fp32, dims: [N], data_gen: torch.randn}
fns:
- {name: Exp, apply: "return [torch.exp(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_exp}
- {name: Root, apply: "return [torch.sqrt(input[0])]", input_dtype: fp32, output_dtype: fp32, func_name: fn_root}
- {name: Mul, apply: "return [input[0] * input[1]]", input_dtype: [fp32, fp32], output_dtype: fp32, func_name: fn_mul}
outputs:
- {name: O, dtype: fp32, dims: [N], data_transform: ["torch.exp(input_data['x']) * torch.sqrt(input_data['y'])"]}
sizes: {N: 3}
"""


def moves(search: BeamSearch, streams: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    made = [search._pool.move(stream) for stream in streams]
    return sorted((fn.label, move.sources) for move in made for fn in move.functions())


def test_all_needed_values_that_one_move_gives_are_joined() -> None:
    """Those that the reference does not compute, or not of these streams, are left to drafts of their own."""
    search = search_of(TASK)
    levels = Levels(search._pool, 0.0)
    start = State(tuple(range(search._pool.first)), frozenset(), (0,) * 3, 0.0)
    search._continue([start], levels, 1, 40)
    (found,) = joined(search._pool, levels.best(1, 40))
    assert moves(search, found.fresh) == [("fn_exp", (0,)), ("fn_root", (1,))]
    search.run()
    assert search.finished[-1].computes
