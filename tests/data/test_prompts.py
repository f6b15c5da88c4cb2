"""The base prompts: every example in them is a complete task whose program passes both verifiers.

The guardian's examples have the stated violation before, and none after; no benchmark task is among the examples.
"""

from collections import Counter
from typing import Any

import pytest
import yaml

from pipeline.agent.agent import Agent
from step_runtime import Task, Verifier, dump_task, loads_task
from step_runtime.language.canonical import canonical_key, describe
from step_runtime.language.parser import parse
from step_runtime.primitives import PRIMITIVES, Copy
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.yaml_format import dump
from tests.support import oracles
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
PROPOSER: dict[str, Any] = yaml.safe_load((DATA / "prompts/proposer.yaml").read_text())
GUARDIAN: dict[str, Any] = yaml.safe_load((DATA / "prompts/guardian.yaml").read_text())
REFERENCES = [*PROPOSER["primitives"], *PROPOSER["patterns"]]
EXAMPLES = {f"{part['name']} {i}": example for part in REFERENCES for i, example in enumerate(part["examples"])}
OWN_KEYS = ("input_impl", "output_impl", "explanation")


def as_task(example: dict[str, Any]) -> Task:
    return loads_task(dump({key: value for key, value in example.items() if key not in OWN_KEYS}))


def test_the_proposer_has_a_reference_for_each_primitive_of_the_spec() -> None:
    """And for the two usage patterns; each with at least one example, but for the one that does nothing."""
    named = {name for part in PROPOSER["primitives"] for name in PRIMITIVES if name in part["name"].split()}
    assert named == PRIMITIVES.keys() - {"RepeatLast"} and len(PROPOSER["patterns"]) == 2
    for kind in ("short", "bare"):
        other = (DATA / f"prompts/{kind}/proposer.yaml").read_text()
        assert all(f"step.{name}(" in other for name in named) and "RepeatLast" in other
    assert "impl:" not in Agent("gated", prompt="bare", refine=1).proposer.predict.signature.instructions
    assert all(", ".join(PRIMITIVES) in each.signature.instructions for each in Agent("gated").predictors())
    assert all(part["desc"].strip() and (part["examples"] or part["name"] == "Identity") for part in REFERENCES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_proposer_passes(name: str) -> None:
    """It is right at every set of sizes and seed."""
    task = as_task(EXAMPLES[name])
    assert task.impl is not None
    verdict = Verifier(task).verify(task.impl)
    assert verdict.passed, verdict.render(task.impl, name)


@pytest.mark.parametrize(("number", "uses"), [(0, 2), (1, 3), (2, 1)])
def test_an_example_of_the_guardian_has_the_stated_violation_only(number: int, uses: int) -> None:
    """Before, one stream is consumed twice, three times, or none is reused; after, the program passes."""
    example = GUARDIAN["examples"][number]
    task, before, after = as_task(example), example["input_impl"], example["output_impl"]
    program, findings = parse(before, static_scope(task))
    consumed = Counter(len(nodes) for nodes in program.consumers().values())
    assert not findings and max(consumed) == uses
    assert sum(count for times, count in consumed.items() if times > 1) == (uses > 1)
    verdict = Verifier(task).verify(before)
    assert verdict.stage == ("affine" if uses > 1 else None) and Verifier(task).verify(after).passed
    assert any(isinstance(node.op, Copy) for node in parse(after, static_scope(task))[0].nodes) == (uses > 1)
    assert describe(parse(after, static_scope(task))[0]).key() == describe(program).key()


def test_no_benchmark_task_is_among_the_examples() -> None:
    """Neither a task nor its program, whatever its variables are called."""
    tasks = {dump_task(oracles.task(name)) for name in oracles.names()}
    programs = {canonical_key(oracles.oracle(name)) for name in oracles.names()}
    for example in [*EXAMPLES.values(), *GUARDIAN["examples"]]:
        task = as_task(example)
        assert dump_task(task.without_impl()) not in tasks
        assert canonical_key(example.get("impl") or example["output_impl"]) not in programs
