"""Prompts without the structural IR hold these:

- they hold no YAML: the task and every example stand there as the script that the code generator writes, up to the test
  that asks the verifier;
- instructions are the same for all tasks, and hold what all scripts end with, once;
- they say what the prompts with the IR say: the same references and examples, in the same order.
"""

import ast
import re
from pathlib import Path

import dspy
import pytest

from signatures import (
    BareWords,
    GuardianPrompt,
    Propose,
    ProposerPrompt,
    YAMLAdapter,
    compose_bare,
    load_prompt,
    read_yaml,
    render_script,
    without_ir,
)
from step_runtime import load_task
from step_runtime.codegen import generate_test, prompt_tests
from step_runtime.verification.verify import Verifier
from tests.support.paths import PROJECT
from tests.support.scripted_answers import RIGHT, task

DATA = PROJECT / "data"
PROPOSER = load_prompt(ProposerPrompt, DATA / "prompts/proposer.yaml")
GUARDIAN = load_prompt(GuardianPrompt, DATA / "prompts/guardian.yaml")
WORDS = read_yaml(BareWords, DATA / "prompts/scripts.yaml")
TASKS = sorted((DATA / "tasks").rglob("*.yaml"))


def code_blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)\n```", text, re.DOTALL)


@pytest.mark.parametrize("path", TASKS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_script_is_what_the_code_generator_writes(path: Path) -> None:
    """But for its title, its program, the sizes beyond the task's own and the test that asks the verifier."""
    shown = load_task(path)
    own = Verifier(shown).scopes[:2]
    program = (DATA / "oracles" / path.parent.name / f"{path.stem}.step").read_text(encoding="utf-8")
    whole = generate_test(shown, program, dtype="float32", scopes=own)
    script = render_script(shown)
    before, after = script.split("        ...  # the program\n")
    assert before in whole
    assert after.rstrip() in whole
    assert whole.split("\n\n\nTASK = (\n")[0].endswith(prompt_tests())
    ast.parse(script)


def test_a_script_contains_no_solution_and_no_name() -> None:
    """Neither may help."""
    script = render_script(task("secret/7", impl="return E0  # the oracle's"))
    assert "oracle" not in script
    assert "secret" not in script


def test_the_proposer_is_shown_every_reference_with_its_examples() -> None:
    """In the order of the file, each example as a script with its program in `body`."""
    text = compose_bare(PROPOSER, WORDS)
    names = [reference.name for reference in (*PROPOSER.primitives, *PROPOSER.patterns)]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == names
    tests, *scripts = code_blocks(text)
    assert tests == prompt_tests()
    examples = [example for _, example in PROPOSER.located_examples()]
    assert len(scripts) == len(examples)
    for script, example in zip(scripts, examples, strict=True):
        assert all(f"        {line}" in script.split("\n") for line in example.impl.strip().split("\n"))


def test_the_guardian_is_shown_programs_before_and_after() -> None:
    """Two blocks of code an example, and why."""
    text = compose_bare(GUARDIAN, WORDS)
    blocks = code_blocks(text)
    assert len(blocks) == 2 * len(GUARDIAN.examples)
    assert blocks[1::2] == [example.output_impl.strip() for example in GUARDIAN.examples]
    assert all(example.explanation.strip() in text for example in GUARDIAN.examples)


@pytest.mark.parametrize("prompt", [PROPOSER, GUARDIAN])
def test_there_is_no_yaml_in_it(prompt: ProposerPrompt | GuardianPrompt) -> None:
    """No key of the IR begins a line."""
    assert not re.search(
        r"^\s*(- )?(inputs|outputs|impl|input_dtype|data_gen|func_name):", compose_bare(prompt, WORDS), re.M
    )


def test_a_request_shows_tasks_and_demonstrations_as_scripts() -> None:
    """Whatever they are kept as; the answer of a demonstration is its program alone."""
    signature = without_ir(Propose).with_instructions("Write.")
    demos = [{"task": task().model_dump(mode="json"), "impl": RIGHT}, {"task": task(), "impl": RIGHT}]
    system, first, answer, second, _, asked = YAMLAdapter().format(signature, demos, {"task": task()})
    assert first["content"] == second["content"]
    assert [render_script(task()) in message["content"] for message in (first, second, asked)] == [True] * 3
    assert answer["content"].startswith(f"[[ ## impl ## ]]\n{RIGHT}\n")
    assert "YAML" not in system["content"]


def test_a_reasoning_proposer_keeps_the_form() -> None:
    """DSPy's modules extend the signature."""
    predictor = dspy.ChainOfThought(without_ir(Propose)).predict
    asked = YAMLAdapter().format(predictor.signature, [], {"task": task()})[-1]
    assert render_script(task()) in asked["content"]
