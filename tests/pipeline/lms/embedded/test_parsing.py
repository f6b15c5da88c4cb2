"""Parsing requests: tasks are found by structure, demonstrations as pairs, and nothing else is taken for either."""

from pipeline.lms.embedded.parsing import demonstration, find_task, question, solved_examples
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import dump_task
from tests.support.paths import PROJECT

ROOT = PROJECT
TEXT = dump_task(loads_task((ROOT / "data/tasks/gemm/0.yaml").read_text())).strip()
TASK = loads_task(TEXT)


def test_every_example_of_the_instructions_is_found_and_parses() -> None:
    """The solved tasks in both base prompts are read, whatever prose stands between them."""
    for name, count in (("proposer", 15), ("guardian", 3)):
        examples = solved_examples((ROOT / f"data/prompts/{name}.yaml").read_text())
        assert len(examples) >= count
        for example in examples:
            assert parse(example.program, static_scope(example.task))[1] == []


def test_a_task_is_found_in_prose_fences_and_indentation() -> None:
    """Where the YAML stands does not matter."""
    indented = "\n".join(f"    {line}" for line in TEXT.splitlines())
    for text in (
        TEXT,
        f"Here is it:\n\n```yaml\n{TEXT}\n```\nThanks.",
        f"Please solve:\n{indented}\nas well as you can.",
    ):
        assert find_task(text) == TASK


def test_text_that_only_looks_like_a_task_is_none() -> None:
    """Missing keys, broken YAML and invalid tasks are passed over."""
    for text in (
        "inputs: none",
        TEXT.replace("outputs:", "results:"),
        TEXT.replace("fp32", "fp99"),
        "inputs:\n- [\noutputs:",
    ):
        assert find_task(text) is None


def test_a_demonstration_is_a_question_and_the_program_that_answers_it() -> None:
    """User and assistant messages make a solved task; an answer without a program makes none."""
    solved = demonstration(f"[[ ## task ## ]]\n{TEXT}", "[[ ## impl ## ]]\nreturn E0\n\n[[ ## completed ## ]]\n")
    assert solved is not None and solved.task == TASK and solved.program == "return E0"
    assert demonstration(TEXT, "I do not know.") is None


def test_the_question_tells_proposals_from_repairs() -> None:
    """A program beside the task makes it a repair; the fields asked for are those of the last paragraph."""
    ask = "\n\nRespond with `[[ ## reasoning ## ]]`, then `[[ ## impl ## ]]`, and then `[[ ## completed ## ]]`."
    proposal = question(f"[[ ## task ## ]]\n{TEXT}{ask}")
    assert (proposal.program, proposal.fields) == (None, ("reasoning", "impl"))
    repair = question(f"[[ ## task ## ]]\n{TEXT}\n\n[[ ## input_impl ## ]]\nreturn E0{ask}")
    assert repair.program == "return E0"
    assert question("").task is None
