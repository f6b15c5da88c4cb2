"""Sub-tasks hold these: each is a task of its own, with the part of the reference and the functions that it needs."""

from pipeline.splitting.cuts import find_cuts
from pipeline.splitting.subtasks import SubtaskWriter, typed
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task, dump_task
from tests.pipeline.splitting.layers import TEXT, layer


def writer(task: Task) -> SubtaskWriter:
    return SubtaskWriter(task, find_cuts(task.name, task.statement))


def test_a_subtask_reads_as_its_author_would_write_it() -> None:
    found = writer(layer()).subtask("gate", ["n"])
    assert found is not None and found.name == "layer.gate"
    assert [spec.name for spec in found.inputs] == ["n"] and [spec.name for spec in found.parameters] == ["Wg"]
    assert found.outputs[0].data_transform == [
        "n = input_data['n']\ngate = torch.sigmoid(n @ input_data['Wg'].T)\ngate"
    ]
    assert loads_task(dump_task(found), found.name) == found


def test_functions_that_read_other_parameters_or_have_other_dims_are_left_out() -> None:
    own = writer(layer())
    norm, gate = own.subtask("n", []), own.subtask("gate", ["n"])
    assert norm is not None and [fn.func_name for fn in norm.fns] == ["fn_meansquare", "fn_scale"]
    assert gate is not None and "fn_up" not in [fn.func_name for fn in gate.fns]


def test_there_is_none_where_no_function_reads_a_parameter_that_it_needs() -> None:
    assert writer(layer()).subtask("gate", ["n"], without=["fn_gate"]) is None


def test_axes_in_another_order_are_permuted_on_both_sides() -> None:
    text = TEXT.replace("n @ input_data['Wg'].T)", "torch.einsum('bnd,fd->bfn', n, input_data['Wg']))")
    own = writer(layer(text.replace("gate * (n", "gate.flip(0).transpose(1, 2) * (n")))
    gate, rest = own.subtask("gate", ["n"]), own.subtask("y", ["n", "gate"])
    assert gate is not None and gate.outputs[0].data_transform[0].endswith("gate.permute(0, 2, 1)")
    assert rest is not None and "gate = input_data['gate'].permute(0, 2, 1)" in rest.outputs[0].data_transform[0]


def test_a_product_of_dims_that_stays_whole_is_a_dim() -> None:
    text = TEXT.replace("dims: [N, B]", "dims: [N*B]")
    task = layer(text)
    found = writer(task).subtask("n", [])
    assert found is not None and found.inputs[0].dims == ["BN"] and found.sizes["BN"] == [8, 15]
    assert typed(found.inputs[0], task) == task.input_types[0]


def test_likely_functions_execute_nothing_that_the_reference_does_not() -> None:
    found = writer(layer()).subtask("y", ["n", "gate"], likely=True)
    assert found is not None and [fn.func_name for fn in found.fns] == ["fn_up", "fn_product"]
