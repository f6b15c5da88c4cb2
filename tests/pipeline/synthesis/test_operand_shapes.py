"""Streams meet where the dims that their elements leave over occur in order, elsewhere only for a reason."""

from pipeline.synthesis.operand_shapes import OperandShapes
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.base.shapes import as_dim
from step_runtime.base.types import Buffer, Scalar, StreamType
from step_runtime.tasks.scope import static_scope
from tests.support.small_tasks import task

TEXT = """
inputs:
- {name: E0, dtype: fp32, dims: [K, M], data_gen: torch.randn}
- {name: E1, dtype: fp32, dims: ['2*K', N], data_gen: torch.randn}
outputs:
- {name: S0, dtype: fp32, dims: [K, M], data_transform: "input_data['E0']"}
"""
SCALAR = Scalar("float")
SPACE = TypeSpace(static_scope(task(TEXT)), spare=1)
K, M, N = (as_dim(SPACE.scope.dims[name]) for name in "KMN")
SHAPES = OperandShapes(SPACE, invented=1)
ROWS, LONG = SPACE.inputs


def test_what_is_left_of_a_stream_when_its_elements_are_buffers() -> None:
    """Inner dims as they are, part of a product, or new ones; never dims from further out."""
    assert SHAPES.rests(ROWS, SCALAR) == ((K, M),)
    assert SHAPES.rests(ROWS, Buffer(SCALAR, [K])) == ((M,),)
    assert (as_dim(2), N) in SHAPES.rests(LONG, Buffer(SCALAR, [K]))
    assert SHAPES.rests(ROWS, Buffer(SCALAR, [N])) == ((K, M),)


def shapes(*sources: int, split: bool = False, grown: bool = False) -> list[tuple[object, ...]]:
    """Where streams meet as scalars, each shape once."""
    parts = (SHAPES.part(SCALAR),) * len(sources)
    meetings = SHAPES.meetings(sources, parts, split=split, grown=grown)
    return list(dict.fromkeys(paths[0].target.shape for paths in meetings))


def test_two_streams_meet_at_common_supersequences() -> None:
    """Also where a product is split; and, if a dim may occur twice, where all its elements meet."""
    row = SPACE.intern(StreamType(SCALAR, (M,)))
    assert shapes(ROWS, row) == [(K, M), (K, M, M)]
    assert (K, as_dim(2), M, N) in shapes(ROWS, LONG)


def test_paths_lead_to_a_shape_in_every_way_that_differs() -> None:
    """Each of two equal streams is repeated inside its elements, or outside."""
    part = SHAPES.part(SCALAR)
    ways = list(SHAPES.meetings((ROWS, ROWS), (part, part), split=False, grown=False))
    found = [paths[0].target.shape for paths in ways]
    assert (found.count((K, M)), found.count((K, K, M)), found.count((K, M, M))) == (1, 4, 4)


def test_only_a_state_meets_more_dims() -> None:
    """A placeholder to fold everything and a split dim, or one that the stream is repeated along."""
    assert shapes(LONG) == [(2 * K, N)]
    assert set(shapes(LONG, split=True)) >= {(2 * K, N, as_dim(1)), (K, as_dim(2), N)}
    assert (M, 2 * K, N) in shapes(LONG, grown=True)


def test_a_product_of_three_dims_takes_them_together() -> None:
    text = TEXT.replace("['2*K', N]", "[K, M, N, D]").replace("[K, M],", "['K*M*N', D],")
    space = TypeSpace(static_scope(task(text)))
    k, m, n, d = (as_dim(space.scope.dims[name]) for name in "KMND")
    assert OperandShapes(space).rests(space.inputs[1], Buffer(SCALAR, [as_dim(k * m * n)])) == ((d,),)
