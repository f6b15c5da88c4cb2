"""What `Refine` shows an LM, and what it asks for."""

from signatures import ANSWERS, YAMLAdapter
from signatures.requests import Refine
from tests.support.samples import general


def test_the_fields_are_those_of_the_interface() -> None:
    """One program is asked for, under a name that programs are extracted from."""
    assert list(Refine.input_fields) == ["task", "input_impl", "diagnostics"]
    assert list(Refine.output_fields) == ["output_impl"] and "output_impl" in ANSWERS
    assert "Repair" in Refine.instructions


def test_a_request_shows_every_input_in_order_and_asks_for_the_program() -> None:
    """The task is YAML, the texts stand as they are."""
    inputs = {"task": general(), "input_impl": "a = E0", "diagnostics": "1:5: name: unknown"}
    request = YAMLAdapter().format(Refine, [], inputs)[-1]["content"]
    places = [request.index(f"[[ ## {name} ## ]]") for name in Refine.input_fields]
    assert places == sorted(places)
    assert "func_name: fn_sum" in request and all(str(inputs[name]) in request for name in inputs if name != "task")
    assert "[[ ## output_impl ## ]]" in request[places[-1] :]
