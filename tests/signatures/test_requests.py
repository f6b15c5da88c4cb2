"""What `Propose` shows an LM, and what it asks for."""

from signatures import ANSWERS, YAMLAdapter
from signatures.requests import Propose
from tests.support.samples import general


def test_the_fields_are_those_of_the_interface() -> None:
    """One program is asked for, under a name that programs are extracted from."""
    assert list(Propose.input_fields) == ["task"]
    assert list(Propose.output_fields) == ["impl"] and "impl" in ANSWERS
    assert "STeP program" in Propose.instructions


def test_a_request_shows_every_input_in_order_and_asks_for_the_program() -> None:
    """The task is YAML, the texts stand as they are."""
    inputs = {"task": general()}
    request = YAMLAdapter().format(Propose, [], inputs)[-1]["content"]
    places = [request.index(f"[[ ## {name} ## ]]") for name in Propose.input_fields]
    assert places == sorted(places)
    assert "func_name: fn_sum" in request and all(str(inputs[name]) in request for name in inputs if name != "task")
    assert "[[ ## impl ## ]]" in request[places[-1] :]
