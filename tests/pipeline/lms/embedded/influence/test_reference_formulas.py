"""Streams are compared with the formulas of a reference: the programs of all sets, and one with a wrong branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.lms.embedded.formulas.residues import DRAWN, ORDERED, SIGNED
from pipeline.lms.embedded.influence import functions
from pipeline.lms.embedded.influence.reference_formulas import kind_of
from pipeline.lms.embedded.influence.task_influence import TaskInfluence
from step_runtime.primitives import Map
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from tests.pipeline.lms.embedded.influence.test_task_influence import SOLVED, influence_in, task_of, traced

CLIP = """
inputs:
- {name: x, dtype: fp32, dims: [N], data_gen: torch.randn}
- {name: y, dtype: fp32, dims: [N], data_gen: torch.randn}
- {name: m, dtype: fp32, dims: [N], data_gen: binary}
- {name: p, dtype: fp32, dims: [N], data_gen: torch.rand}
- {name: h, dtype: "Multihot(fp32, K)", dims: [N], min: 1, max: 2}
fns:
- {name: Same, apply: "return [input[0]]", input_dtype: fp32, output_dtype: fp32, func_name: fn_same}
outputs:
- name: O
  dtype: fp32
  dims: [N]
  data_transform: ["torch.where(input_data['y'].sum() > 1, input_data['x'] * 2, input_data['x'])"]
sizes: {N: 3, K: 4}
"""


def test_most_programs_that_solve_a_task_have_its_formulas() -> None:
    """In all worlds of a kind: those in which signs multiply, or those in which residues are in order."""
    proved = sum(any(equal_in(worlds, path, oracle) for worlds in (SIGNED, ORDERED)) for path, oracle in SOLVED)
    assert proved > 0.9 * len(SOLVED)


def equal_in(worlds: range, path: Path, oracle: Path) -> bool:
    """Whether a program has the formulas of a task's outputs in all of some worlds."""
    influence = influence_in(path)
    program, _ = traced(task_of(path), oracle.read_text(encoding="utf-8"), influence)
    for world in worlds:
        streams, inputs = influence.in_world(world)
        own = dict(enumerate(inputs))
        for node in program.nodes:
            made = streams.add(node.op, *(own[one] for one in node.inputs))
            own |= dict(zip(node.outputs, made, strict=True))
        if not all(influence.equals(own[stream], output, world) for output, stream in enumerate(program.results)):
            return False
    return True


def test_a_decision_for_all_elements_differs_in_some_world() -> None:
    """In one world, the decision may be the same by chance."""
    influence = TaskInfluence(loads_task(CLIP))
    wrong = [influence.equals(influence.in_world(world)[1][0], 0, world) for world in SIGNED]
    assert not all(wrong)


def test_what_is_known_of_inputs_is_how_they_are_drawn() -> None:
    """Masks, positive numbers, rows of a Multihot; nothing of others."""
    task = loads_task(CLIP)
    kinds = [kind_of(spec, type_) for spec, type_ in zip(task.inputs, task.input_types, strict=True)]
    assert [(kind.positive, kind.ones) for kind in kinds[1:]] == [
        (False, None),
        (False, DRAWN),
        (True, None),
        (False, (1, 2)),
    ]


def test_too_many_formulas_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of many elements of a large function then has none, and positions as before."""
    task = loads_task(CLIP)
    fn = static_scope(task).fns["fn_same"]

    def made() -> tuple[int, float | None]:
        influence = TaskInfluence(task)
        (number,) = influence.streams.add(Map(fn), influence.inputs[0])
        return len(influence.values(number)), influence.computes(number)

    assert made() == (3, 1.0)
    monkeypatch.setattr(functions, "_MOST_FORMULAS", 2)
    assert made() == (0, None)
