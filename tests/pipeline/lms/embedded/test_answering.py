"""From a request's text to the answer's: by seed, from the texts that are shown, and in processes that know no DSPy.

Parsing requests: tasks are found by structure, demonstrations as pairs, and nothing else is taken for either.
"""

import gc

import pytest
import yaml

from pipeline.lms.embedded import CANDIDATES
from pipeline.lms.embedded.answering import (
    EmbeddedRequest,
    answer,
    demonstration,
    find_task,
    question,
    sections,
    solved_examples,
    task_asked,
)
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task, dump_task
from step_runtime.verification.check import check_affine, check_outputs, infer_types
from step_runtime.verification.verify import Verifier
from tests.support.benchmark_tasks import oracle, task_named
from tests.support.paths import PROJECT

SYSTEM = (PROJECT / "data/prompts/proposer.yaml").read_text()
ASK = "Respond with the corresponding output fields, starting with the field `[[ ## {} ## ]]`."


def asked(task: Task, field: str = "impl") -> str:
    return f"[[ ## task ## ]]\n{dump_task(task.without_impl()).strip()}\n\n{ASK.format(field)}"


def proposal(task: Task, seed: int, *, shown: tuple[str, ...] = (), candidates: int = CANDIDATES) -> str:
    """A program for the task where the solved tasks of these names are demonstrations."""
    solved = [oracle(name) for name in shown]
    turns = [
        turn
        for one in solved
        for turn in (("user", asked(one.task)), ("assistant", f"[[ ## impl ## ]]\n{one.program.strip()}\n"))
    ]
    request = EmbeddedRequest(SYSTEM, (*turns, ("user", asked(task))), seed)
    return sections(answer(candidates, request))["impl"]


def test_equal_requests_get_equal_answers() -> None:
    """Whatever was asked before; other seeds give other programs where a task leaves room."""
    task = task_named("norm/1")
    forwards = [proposal(task, seed) for seed in range(8)]
    assert forwards == [proposal(task, seed) for seed in reversed(range(8))][::-1]
    assert len(set(forwards)) >= 3


@pytest.mark.parametrize("name", ["attn/1", "bmm/2", "etoe/3", "expert/1", "gemm/1", "index/1", "norm/1", "rope/2"])
def test_every_proposal_parses_type_checks_and_is_affine(name: str) -> None:
    """What is proposed is well-typed, uses each stream once and returns what the task declares."""
    task = task_named(name)
    scope = static_scope(task)
    for seed in range(6):
        program, wrong = parse(proposal(task, seed, candidates=50), scope)
        types, broken = infer_types(program, scope)
        assert [*wrong, *broken, *check_affine(program), *check_outputs(program, types, scope)] == []


def test_demonstrations_bring_a_task_within_reach() -> None:
    """With few candidates, a task is solved where similar ones are shown, and not without."""
    task, shown = task_named("gemm/2"), ("gemm/0", "gemm/1", "bmm/0", "bmm/1")
    verifier = Verifier(task)
    without, with_ = (
        sum(verifier.verify(proposal(task, seed, shown=names, candidates=4)).passed for seed in range(12))
        for names in ((), shown)
    )
    assert with_ > without


def test_the_code_of_demonstrations_is_never_run() -> None:
    """Code that fails wherever it runs, in a demonstration, costs nothing; in the task that is asked, it is told."""
    raising = yaml.safe_load(dump_task(task_named("gemm/1")))
    raising["global"] = "raise RuntimeError('was run')"
    text = yaml.safe_dump(raising)
    turns = (
        ("user", f"[[ ## task ## ]]\n{text}\n\n{ASK.format('impl')}"),
        ("assistant", f"[[ ## impl ## ]]\n{oracle('gemm/1').program}"),
    )
    own = ("user", asked(task_named("gemm/0")))
    assert "step.Accum" in answer(CANDIDATES, EmbeddedRequest(SYSTEM, (*turns, own), 1))
    refused = answer(CANDIDATES, EmbeddedRequest(SYSTEM, (turns[0],), 1))
    assert refused.startswith("I can't run the code of this task: ") and "was run" in refused


def test_a_solution_in_the_question_is_not_read() -> None:
    """A task that comes with its `impl` is no request for a repair."""
    solved = oracle("attn/2")
    text = dump_task(solved.task.model_copy(update={"impl": solved.program})).strip()
    found = question(f"[[ ## task ## ]]\n{text}\n\n{ASK.format('impl')}")
    assert found.program is None and found.task is not None


def test_another_program_than_the_rejected_one_is_proposed() -> None:
    """To the refiner, the same program would be no answer."""
    task = task_named("norm/1")
    rejected = proposal(task, 1)
    text = (
        f"{asked(task).partition(chr(10) * 2 + 'Respond')[0]}\n\n[[ ## impl ## ]]\n{rejected}\n\n"
        f"[[ ## diagnostics ## ]]\nvalue: output S0 differs\n\n{ASK.format('fixed_impl')}"
    )
    assert question(text).program is not None
    fixed = sections(answer(CANDIDATES, EmbeddedRequest(SYSTEM, (("user", text),), 1)))["fixed_impl"]
    assert fixed.strip() != rejected.strip()


def test_requests_about_one_task_share_their_group() -> None:
    """Whatever is shown beside; another task is of another group, as a process runs one task's code."""
    one, other = (EmbeddedRequest(SYSTEM, (("user", asked(task_named(name))),), 1) for name in ("gemm/0", "gemm/1"))
    again = EmbeddedRequest("", (("user", "shown"), ("assistant", "so"), *one.messages), 2)
    assert task_asked(8, one) == task_asked(8, again) != task_asked(8, other)


def test_a_request_without_a_task_gets_an_honest_answer() -> None:
    """No program is made up for a question that holds no task."""
    text = answer(CANDIDATES, EmbeddedRequest(SYSTEM, (("user", "What is the capital of France?"),), 1))
    assert "no task" in text and "[[ ##" not in text


def test_a_sample_leaves_no_garbage_in_cycles() -> None:
    """It would be kept for good with what a large sample leaves in caches."""
    text = (PROJECT / "data/tasks-modern/rwkv_wkv.yaml").read_text()
    task = loads_task(text, "rwkv_wkv")
    proposal(task, 1)
    gc.collect()
    gc.disable()
    try:
        left = []
        for seed in (2, 3):  # what is imported or started once leaves garbage once
            proposal(task, seed)
            left.append(gc.collect())
    finally:
        gc.enable()
    assert min(left) < 1000


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
