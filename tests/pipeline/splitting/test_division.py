"""Division holds these: sub-tasks of an unsolved task by its named values, then finer ones, and a verified whole."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest

from pipeline.splitting.division import Divider, dividing
from pipeline.verification.pool import LocalWorkers
from step_runtime.verification.verify import Verifier
from tests.pipeline.splitting.layers import GATE, NORM, PRODUCT, TEXT, layer


@pytest.fixture(scope="module")
def divider() -> Iterator[Divider]:
    with dividing(LocalWorkers(1)) as divider:
        yield divider


@dataclass
class Divided:
    """A task of a name of its own, as a divider keeps what it knows of a name."""

    divider: Divider
    name: str
    text: str = TEXT

    def parts(self, **programs: str) -> list[str]:
        return [name.removeprefix(f"{self.name}.") for name in self.after(programs).parts]

    def after(self, programs: Mapping[str, str]):
        named = {f"{self.name}.{goal.replace('__', '.')}": text for goal, text in programs.items()}
        return self.divider.divided(layer(self.text, self.name), named)


def test_named_values_are_subtasks_first_and_a_program_is_composed_once_they_are_solved(divider: Divider) -> None:
    own = Divided(divider, "whole")
    assert own.parts() == ["n", "gate", "y"]
    found = own.after({"n": NORM, "gate": GATE, "y": PRODUCT})
    assert found.impl is not None and Verifier(layer()).verify(found.impl).passed
    assert found.origins == ("whole.n", "whole.gate", "whole.y")
    assert all(part.part_of == "whole" and part.name == name for name, part in found.parts.items())


def test_what_stays_unsolved_is_split_at_the_values_on_its_way_and_made_of_solved_ones_alone(divider: Divider) -> None:
    """The gate is not solved: `y` is then made of `n` without it, too; the same division twice adds nothing."""
    own = Divided(divider, "stuck")
    assert own.parts() == ["n", "gate", "y"]
    finer = own.parts(n=NORM)
    assert finer[:3] == ["n", "gate", "y"] and {"matmul", "y.2"} <= {*finer}
    assert own.parts(n=NORM) == finer
    inputs = {name: {spec.name for spec in part.inputs} for name, part in own.after({"n": NORM}).parts.items()}
    assert {"n"} in [found for name, found in inputs.items() if name.startswith("stuck.y.")]


def test_a_program_that_is_wrong_in_the_whole_is_left_out_of_it(divider: Divider) -> None:
    """As a sub-task's data may not tell it from the right one."""
    own = Divided(divider, "wrong")
    own.parts()
    found = own.after({"n": "return x\n", "gate": GATE, "y": PRODUCT})
    assert found.impl is None and len(found.parts) > 3
    assert own.after({"n": NORM, "gate": GATE, "y": PRODUCT}).impl is None, "the sub-task itself is left out"


def test_a_reference_that_can_t_run_has_no_subtasks(divider: Divider) -> None:
    assert Divided(divider, "broken", TEXT.replace("torch.sigmoid(n", "torch.sigmoid(missing")).parts() == []
