"""The adapter holds these:

- tasks reach an LM as YAML, never with their solution, in demonstrations as in requests;
- all that is constant in a predictor's requests comes first, to the byte;
- an answer is read in one go: no second request is made because of its form.
"""

import dspy
import pytest
from dspy.utils.exceptions import AdapterParseError
from pydantic import BaseModel

from signatures import ANSWERS, YAMLAdapter
from signatures.adapter import Guard, Propose, Refine, render_task
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task, dump_task
from tests.support.samples import general
from tests.support.scripted_answers import RIGHT, task
from tests.support.scripted_lm import scripted

ADAPTER = YAMLAdapter()

SECRET = "return E0  # the oracle's"


def messages(*demos: dspy.Example, of: Task | None = None) -> list[dict[str, str]]:
    signature = Propose.with_instructions("desc: |\n  Write.\n\nprimitives:\n  - name: Map")
    found: list[dict[str, str]] = ADAPTER.format(signature, list(demos), {"task": of or task()})
    return found


def test_a_request_is_instructions_demonstrations_task() -> None:
    """The layout that every LM sees, the embedded one too."""
    system, asked, answered, request = messages(dspy.Example(task=task(), impl=RIGHT))
    assert system["content"].startswith(
        "desc: |\n  Write.\n\nprimitives:\n  - name: Map\n\nYour input fields are:\n1. `task`"
    )
    assert system["content"].endswith("[[ ## task ## ]]\n{task}\n\n[[ ## impl ## ]]\n{impl}\n\n[[ ## completed ## ]]")
    assert asked["content"] == f"[[ ## task ## ]]\n{dump_task(task()).rstrip()}"
    assert answered["content"] == f"[[ ## impl ## ]]\n{RIGHT}\n\n[[ ## completed ## ]]\n"
    assert request["content"].startswith(f"{asked['content']}\n\nRespond with")
    assert [message["role"] for message in (system, asked, answered, request)] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_the_task_in_a_request_reads_back() -> None:
    """What an LM is shown is a task file."""
    shown = messages()[-1]["content"].split("\n\nRespond")[0].removeprefix("[[ ## task ## ]]\n")
    assert loads_task(shown + "\n") == task()


def test_no_solution_is_shown() -> None:
    """Neither the request's nor that of a demonstration's task."""
    solved = task(impl=SECRET)
    assert "oracle" not in str(messages(dspy.Example(task=solved, impl=RIGHT), of=solved))
    assert "oracle" not in render_task(solved)


def test_what_is_constant_comes_first() -> None:
    """Requests that differ in the task share all before it, whatever else was asked between."""
    demo = dspy.Example(task=task(), impl=RIGHT)
    other = task().model_copy(update={"sizes": {"M": 3}})
    first, second = messages(demo), messages(demo, of=other)
    assert first[:-1] == second[:-1]
    assert first[-1] != second[-1]
    assert messages()[0] == first[0]


def test_a_demonstration_that_was_kept_as_json_looks_the_same() -> None:
    """Experience that was read from a file teaches as well."""
    kept = task().model_dump(mode="json")
    assert messages(dspy.Example(task=kept, impl=RIGHT)) == messages(dspy.Example(task=task(), impl=RIGHT))


def test_other_structured_inputs_are_yaml_too() -> None:
    """Models and mappings of other signatures are written alike; text stays text."""

    class Point(BaseModel):
        x: int
        names: list[str]

    class Plot(dspy.Signature):
        point: Point = dspy.InputField()
        options: dict[str, int] = dspy.InputField()
        title: str = dspy.InputField()
        size: int = dspy.OutputField()

    inputs = {"point": Point(x=1, names=["a"]), "options": {"dpi": 2}, "title": "a: b"}
    text = ADAPTER.format_user_message_content(Plot, inputs)
    assert "[[ ## point ## ]]\nx: 1\nnames:\n  - a\n\n[[ ## options ## ]]\ndpi: 2\n\n[[ ## title ## ]]\na: b" in text
    assert ADAPTER.parse(Plot, "[[ ## size ## ]]\n3\n") == {"size": 3}
    with pytest.raises(AdapterParseError):
        ADAPTER.parse(Plot, "three")


@pytest.mark.parametrize("answer", [RIGHT, f"```\n{RIGHT}\n```", f"[[ ## impl ## ]]\n{RIGHT}\n\n[[ ## completed ## ]]"])
def test_an_answer_needs_no_markers(answer: str) -> None:
    """An answer with a program parses, whatever its form."""
    assert ADAPTER.parse(Propose, answer) == {"impl": RIGHT}
    assert ADAPTER.parse(Guard, answer) == {"output_impl": RIGHT}


def test_an_answer_without_a_program_keeps_its_text() -> None:
    """The verifier's parser refuses it, with the text on record."""
    assert ADAPTER.parse(Propose, "I can't.") == {"impl": "I can't."}


def test_reasoning_beside_the_program_is_read_too() -> None:
    """A signature may ask for more than the program; what is not given is empty."""
    signature = Propose.prepend("reasoning", dspy.OutputField(), str)
    answer = f"[[ ## reasoning ## ]]\nSquares.\n\n[[ ## impl ## ]]\n{RIGHT}"
    assert ADAPTER.parse(signature, answer) == {"reasoning": "Squares.", "impl": RIGHT}
    assert ADAPTER.parse(signature, RIGHT) == {"reasoning": "", "impl": RIGHT}


@pytest.mark.parametrize("answer", ["I can't.", ""])
def test_an_answer_is_asked_for_once(answer: str) -> None:
    """DSPy would ask again, for JSON."""
    lm, engine = scripted(answer)
    with dspy.context(lm=lm, adapter=ADAPTER):
        try:
            dspy.Predict(Propose)(task=task())
        except AdapterParseError:
            assert not answer
    assert len(engine.requests) == 1


def test_formats_are_explained_where_a_task_names_them() -> None:
    """Above the YAML, which reads the same with the note; other tasks have none."""
    plain = task()
    assert render_task(plain) == plain.statement.rstrip()
    mixed = plain.model_copy(
        update={"inputs": [plain.inputs[0].model_copy(update={"dtype": "bf16"}), *plain.inputs[1:]]}
    )
    shown = render_task(mixed)
    assert shown.startswith("# Number formats: fp32, bf16. Types of different formats differ")
    assert loads_task(f"{shown}\n") == loads_task(mixed.statement) and shown.endswith(mixed.statement.rstrip())


ASKING: list[tuple[type[dspy.Signature], dict[str, str], str, str]] = [
    (Propose, {}, "impl", "STeP program"),
    (Guard, {"input_impl": "a = E0"}, "output_impl", "Copy"),
    (Refine, {"input_impl": "a = E0", "diagnostics": "1:5: name: unknown"}, "output_impl", "Repair"),
]


@pytest.mark.parametrize(("signature", "texts", "asked", "word"), ASKING)
def test_a_request_shows_every_input_in_order_and_asks_for_the_program(
    signature: type[dspy.Signature], texts: dict[str, str], asked: str, word: str
) -> None:
    """One program is asked for, under a name that programs are extracted from; the task is YAML, texts stay."""
    assert list(signature.input_fields) == ["task", *texts] and list(signature.output_fields) == [asked]
    assert asked in ANSWERS and word in signature.instructions
    request = YAMLAdapter().format(signature, [], {"task": general(), **texts})[-1]["content"]
    places = [request.index(f"[[ ## {name} ## ]]") for name in signature.input_fields]
    assert places == sorted(places)
    assert "func_name: fn_sum" in request and all(text in request for text in texts.values())
    assert f"[[ ## {asked} ## ]]" in request[places[-1] :]


def test_a_language_reads_the_end_of_a_long_answer_alone() -> None:
    """However long an answer is, and whichever language reads it."""
    taken: list[str] = []
    adapter = YAMLAdapter(extract=lambda text: taken.append(text) or text)  # type: ignore[func-returns-value]
    adapter.parse(Propose, "```" * 200_000 + "the end")
    assert [len(text) for text in taken] == [200_000] and taken[0].endswith("the end")
