"""Streams meet where the dims that their elements leave over occur in order, elsewhere only for a reason."""

from pipeline.synthesis.type_space import OperandShapes, TypeSpace
from step_runtime.base.shapes import as_dim
from step_runtime.base.types import Buffer, Scalar
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


def test_a_product_of_three_dims_takes_them_together() -> None:
    text = TEXT.replace("['2*K', N]", "[K, M, N, D]").replace("[K, M],", "['K*M*N', D],")
    space = TypeSpace(static_scope(task(text)))
    k, m, n, d = (as_dim(space.scope.dims[name]) for name in "KMND")
    assert OperandShapes(space).rests(space.inputs[1], Buffer(SCALAR, [as_dim(k * m * n)])) == ((d,),)
