"""Cuts hold these: they are values that streams can hold, each once, with data like theirs."""

import pytest

from pipeline.splitting.cuts import find_cuts
from step_runtime.tasks.task import Task
from tests.pipeline.splitting.layers import TEXT, layer


def cuts(task: Task) -> dict[str, tuple[str, str | None]]:
    return {cut.name: (str(cut.type), cut.data) for cut in find_cuts("task", task.statement).cuts}


def test_values_of_the_reference_are_cuts_with_the_types_that_functions_take_and_give() -> None:
    found = cuts(layer())
    assert found["n"] == ("Buffer(fp32, [D]) [N, B]", "torch.randn")
    assert found["gate"] == ("Buffer(fp32, [F]) [N, B]", "torch.rand")
    assert found["y"][0] == "Buffer(fp32, [F]) [N, B]"


def test_views_are_the_same_cut_and_inputs_are_none() -> None:
    text = TEXT.replace("    n = ", "    x = input_data['x'].clone()\n    n = ").replace(
        "rms_norm(input_data['x']", "rms_norm(x"
    )
    found = find_cuts("task", layer(text.replace("gate * (n", "gate.unsqueeze(0).squeeze(0) * (n")).statement)
    assert "x" not in {cut.name for cut in found.cuts}
    gate = next(cut for cut in found.cuts if cut.name == "gate")
    assert [name for _, name in gate.places] == ["gate", "unsqueeze", "squeeze"]


def test_a_value_that_two_outputs_compute_is_one_cut() -> None:
    second = """\
- name: z
  dtype: Buffer(fp32, [F])
  dims: [N, B]
  data_transform:
  - torch.nn.functional.rms_norm(input_data['x'], (D_value,), eps=1e-5) @ input_data['Wu'].T
sizes:"""
    found = find_cuts("task", layer(TEXT.replace("sizes:", second)).statement)
    n = next(cut for cut in found.cuts if cut.name == "n")
    assert len(n.places) == 2 and next(cut for cut in found.cuts if cut.name == "z").output == 1


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("torch.softmax(n, -1)", "torch.softmax(torch.randn(shape), -1)"),
        ("n.square()", "torch.rand"),
        ("(n > 0).to(n.dtype)", "binary"),
        ("torch.nn.functional.one_hot(n.argmax(-1), D_value)", "one_hot"),
        ("n.argmax(-1, keepdim=True)", "integers(0, 6)"),
    ],
)
def test_data_is_generated_like_the_values(value: str, data: str) -> None:
    task = layer(TEXT.replace("    gate = ", f"    v = {value}\n    gate = "))
    assert cuts(task)["v"][1] == data


def test_what_is_infinite_or_depends_on_parameters_alone_is_no_cut() -> None:
    lines = "    v = torch.log(n * 0)\n    w = input_data['Wu'] + 1\n    gate = "
    assert not {"v", "w"} & cuts(layer(TEXT.replace("    gate = ", lines))).keys()


def test_a_mask_of_minus_infinity_is_cut_and_generated_and_the_reason_is_given_for_nan() -> None:
    lines = "    v = n.masked_fill(n > 0.5, -torch.inf)\n    w = torch.log(n)\n    gate = "
    found = find_cuts("task", layer(TEXT.replace("    gate = ", lines)).statement)
    assert next(cut.data for cut in found.cuts if cut.name == "v").endswith("-torch.inf)")  # type: ignore[union-attr]
    (reason,) = [why for (_, name), why in found.refused.items() if name == "w"]
    assert "NaN" in reason
