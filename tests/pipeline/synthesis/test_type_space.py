"""Types and paths hold these.

- A path's chain of primitives leads from its one end to the other, type by type.
- Two paths between the same ends do the same to the data, so that the shortest one suffices.
- No type holds a dim that the task does not know, or one more often than the task does.
"""

import torch

from pipeline.synthesis.type_space import TypeSpace
from pipeline.synthesis.value_blocks import RowLayout, operand
from step_runtime.base.shapes import as_dim, evaluate
from step_runtime.base.types import Buffer, Scalar, StreamType
from step_runtime.execution.applier import Applier
from step_runtime.primitives import Frame, Rules
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.instance import instances
from tests.support.small_tasks import task

MATRIX = """
inputs:
- {name: E0, dtype: fp32, dims: [K, M], data_gen: torch.randn}
- {name: E1, dtype: fp32, dims: [N], data_gen: torch.randn}
fns:
- name: Sum
  apply: return [input[0].sum(0)]
  input_dtype: Buffer(fp32, [K])
  output_dtype: fp32
  func_name: fn_sum
outputs:
- name: S0
  dtype: fp32
  dims: [M]
  data_transform: "input_data['E0'].sum(-1)"
"""


def test_a_path_is_a_chain_of_primitives_that_the_language_accepts() -> None:
    """Each op gives the next type from the one before."""
    space = TypeSpace(static_scope(task(MATRIX)))
    rules = Rules(space.scope.sizes)
    k, m, n = (as_dim(space.scope.dims[name]) for name in "KMN")
    shapes = [(k, m), (k, n, m), (n, k, m), (k, m, n), (n, k, m, as_dim(1)), (as_dim(1), k, m)]
    paths = [path for shape in shapes for path in space.ways(space.inputs[0], StreamType(Scalar("float"), shape))]
    assert [path.target.shape for path in paths] == shapes
    for path in paths:
        assert path.steps[0] == space.types[path.source]
        for op, before, after in zip(path.ops, path.steps[:-1], path.steps[1:], strict=True):
            assert op.infer((before,), rules) == (after,)


def test_a_type_holds_only_dims_of_the_task_and_none_too_often() -> None:
    """A second dim of one name, or a second placeholder, leads nowhere that a task without such would go."""
    space = TypeSpace(static_scope(task(MATRIX)))
    k, m = map(as_dim, (space.scope.dims["K"], space.scope.dims["M"]))
    one = as_dim(1)
    scalar = Scalar("float")
    assert space.allowed(StreamType(scalar, (k, m, one)))
    assert not space.allowed(StreamType(scalar, (k, k, m)))
    assert not space.allowed(StreamType(scalar, (one, m, one)))
    assert not space.allowed(StreamType(scalar, (as_dim(3), m)))


def test_a_path_knows_where_its_result_is_constant() -> None:
    """By place, as a dim may occur twice; every value is then the same along those dims, and no others."""
    space = TypeSpace(static_scope(task(MATRIX)), spare=1)
    k, m = as_dim(space.scope.dims["K"]), as_dim(space.scope.dims["M"])
    source = space.types[space.inputs[0]]
    values = torch.rand(1, 45, dtype=torch.float64)
    inner, outer = space.ways(space.inputs[0], StreamType(Scalar("float"), (k, k, m)))
    assert {inner.repeated, outer.repeated} == {frozenset({0}), frozenset({1})}
    for path in (inner, outer):
        frame = Frame(dict(space.scope.sizes), Applier(torch.float64))
        stream = operand(source, RowLayout.of(source, space.scope.sizes), values)
        for op in path.ops:
            made = op.infer((stream.type,), Rules(space.scope.sizes))
            stream = type(stream)(made[0], op.run((stream,), made, frame)[0])
        found = stream.data[0][0].permute(2, 1, 0)
        assert [torch.equal(found, found.select(place, 0).unsqueeze(place).expand_as(found)) for place in range(3)] == [
            place in path.repeated for place in range(3)
        ]


def test_a_split_that_does_not_divide_is_no_path() -> None:
    """A dim that is odd at the observed sizes is not split in halves, and the search goes on."""
    space = TypeSpace(instances(task(MATRIX))[0].scope)
    total = space.scope.dims["M"] + space.scope.dims["N"]
    odd = next(dim for dim in (as_dim(total), as_dim(total + 1)) if evaluate(dim, space.scope.sizes) % 2)
    halves = StreamType(Buffer(Scalar("float"), (as_dim(2),)), (as_dim(odd / 2),))
    assert space.ways(space.intern(StreamType(Scalar("float"), (odd,))), halves) == ()
