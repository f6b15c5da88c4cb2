"""Sub-tasks hold these: each is a task of its own, with the part of the reference and the functions that it needs."""

from typing import get_args

from pipeline.splitting.cuts import find_cuts
from pipeline.splitting.subtasks import Offered, SubtaskWriter, typed
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


def test_functions_are_offered_by_what_they_execute() -> None:
    own = writer(layer(TEXT.replace("[(input[0] * input[0]).mean()]", "[input[0].var()]")))
    names = {
        offered: [fn.func_name for fn in task.fns] if (task := own.subtask("n", [], (), offered)) else []
        for offered in get_args(Offered)
    }
    assert names == {"suited": ["fn_scale"], "likely": ["fn_scale"], "all": ["fn_meansquare", "fn_scale"]}


def test_dims_are_tried_in_the_order_of_what_is_given() -> None:
    """The scores of a reference that permutes its heads for one product: a program need not permute them."""
    text = TEXT.replace(
        "gate = torch.sigmoid(n @ input_data['Wg'].T)",
        "gate = torch.sigmoid(n.flip(0).transpose(0, 1) @ input_data['Wg'].T)",
    )
    own = writer(layer(text.replace("gate * (n", "gate.transpose(0, 1) * (n")))
    types = own.orders("gate", ["n"])
    assert [str(each) for each in types] == ["Buffer(fp32, [F]) [N, B]", "Buffer(fp32, [F]) [B, N]"]
    gate = own.subtask("gate", ["n"], order=types[0])
    assert gate is not None and gate.outputs[0].data_transform[0].endswith("gate.permute(1, 0, 2)")
    own.settle("gate", typed(gate.outputs[0], own.task))
    assert (rest := own.subtask("y", ["n", "gate"])) is not None and rest.inputs[1].dims == ["N", "B"]
