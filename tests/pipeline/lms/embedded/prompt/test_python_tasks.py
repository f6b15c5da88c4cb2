"""Tasks read from Python scripts hold these:

- the facts are those that the YAML states, for every task of ours and every example of the prompts;
- whatever else stands in a text is no task, and nothing raises;
- the proposer answers such requests, with programs that pass.
"""

from pathlib import Path

import dspy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.agent.agent import Agent
from pipeline.lms.embedded import EmbeddedEngine
from pipeline.lms.embedded.prompt.parsing import find_task, solved_examples
from pipeline.lms.embedded.prompt.python_tasks import scripts
from signatures import BareWords, ProposerPrompt, compose, compose_bare, load_prompt, read_yaml, render_script
from step_runtime import Verifier, dump_task, loads_task
from step_runtime.base.types import components_of
from step_runtime.codegen import generate_prompt
from step_runtime.execution.number_formats import element_type
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.instance import TaskInstance
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
PATHS = sorted([*(DATA / "tasks").rglob("*.yaml"), *(DATA / "tasks-extra").rglob("*.yaml")])


def read(path: Path) -> Task:
    """The task in a file, none of its code run."""
    return loads_task(path.read_text(encoding="utf-8"), path.stem)


TASK = read(PATHS[0])


def facts(task: Task) -> str:
    """All but what is said in another way: explicit sizes, and a name."""
    return dump_task(task.model_copy(update={"sizes": {}, "test_name": None, "impl": None}))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_script_says_what_the_yaml_says(path: Path) -> None:
    """To the letter, code and comments included; and the sizes are the same at every set."""
    task = read(path)
    found = find_task(f"Here it is:\n\n{render_script(task)}\n\nNow write.")
    assert found is not None
    assert facts(found) == facts(task)
    sets = range(len(task.size_sets()))
    assert [static_scope(found, i).sizes for i in sets] == [static_scope(task, i).sizes for i in sets]


@pytest.mark.parametrize("path", sorted((DATA / "tasks-formats").iterdir()), ids=lambda path: path.stem)
def test_a_script_tells_the_formats(path: Path) -> None:
    """Of inputs, parameters, functions and outputs; generators are expressions in a script."""
    task = read(path)
    found = find_task(render_script(task))
    assert found is not None
    assert found.input_types == task.input_types and found.output_types == task.output_types
    assert found.fn_types == task.fn_types and found.parameter_types == task.parameter_types
    assert [(fn.init, fn.apply) for fn in found.fns] == [(fn.init, fn.apply) for fn in task.fns]
    assert [spec.data_transform for spec in found.outputs] == [spec.data_transform for spec in task.outputs]
    instance = TaskInstance(found, found.size_sets()[0])
    assert {part.dtype for data in instance.sample_inputs(0).values() for part in data} == {
        element_type(element, torch.float64) for stream in task.input_types for element in components_of(stream.dtype)
    }


def test_the_examples_of_the_prompts_are_the_same() -> None:
    """With their programs, in their order."""
    prompt = load_prompt(ProposerPrompt, DATA / "prompts/proposer.yaml")
    bare = solved_examples(compose_bare(prompt, read_yaml(BareWords, DATA / "prompts/bare.yaml")))
    known = solved_examples(compose(prompt))
    assert [facts(solved.task) for solved in bare] == [facts(solved.task) for solved in known]
    assert [solved.program.strip() for solved in bare] == [solved.program.strip() for solved in known]
    assert len(bare) > 15


def test_an_open_body_is_not_a_solution() -> None:
    """A closed one is."""
    task = read(PATHS[0])
    assert "impl" not in scripts(generate_prompt(task))[0]
    assert scripts(generate_prompt(task, "E2 = E0\nreturn E2"))[0]["impl"] == "E2 = E0\nreturn E2\n"


def test_a_script_that_was_changed_is_not_a_task() -> None:
    """Where a part is missing nothing is guessed."""
    script = render_script(read(PATHS[0]))
    assert scripts(script.replace("input_data = {", "data = {")) == []
    assert scripts(script.replace("step.Scalar", "step.Number")) == []
    assert scripts(script.replace("def prepare():", "def prepare(:")) == []


@given(st.integers(0, 3000), st.integers(0, 40), st.text(alphabet="()[]{}=,:'\"\n E0_value", max_size=8))
def test_nothing_raises(place: int, length: int, put: str) -> None:
    """Whatever stands in its place."""
    script = render_script(TASK)
    scripts(script[:place] + put + script[place + length :])


@pytest.mark.parametrize("name", ["gemm/1", "attn/0", "expert/0"])
def test_the_agent_solves_tasks_without_the_ir(name: str) -> None:
    """The proposer has what it needs."""
    task, engine, agent = read(DATA / "tasks" / f"{name}.yaml"), EmbeddedEngine(), Agent("none", ir=False)
    verifier = Verifier(task)
    passed = False
    for seed in range(4):
        with dspy.context(lm=dspy.LM(engine.model, engine=engine, cache=False, seed=seed, temperature=0.7)):
            passed = passed or verifier.verify(agent(task=task).impl).passed
    assert passed
