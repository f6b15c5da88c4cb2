"""The benchmark: 26 tasks, each with an oracle that passes both verifiers, in the paper's classes and groups."""

from collections import Counter

import pytest

from pipeline.agent.domain import program_class
from step_runtime import Task, Verifier, dump_task, load_task, loads_task
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import check_affine
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
PATHS = sorted((DATA / "tasks").rglob("*.yaml"))
NAMES = [path.relative_to(DATA / "tasks").with_suffix("").as_posix() for path in PATHS]

def oracle(name: str) -> str:
    return (DATA / "oracles" / f"{name}.step").read_text()


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    return {name: load_task(path) for name, path in zip(NAMES, PATHS, strict=True)}


def test_no_task_warns(recwarn: pytest.WarningsRecorder) -> None:
    """The rope tasks count ones, as the paper's do, and accept the warning about that."""
    for path in PATHS:
        load_task(path)
    assert [str(warning.message) for warning in recwarn] == []


def test_groups_have_the_counts_of_table_3() -> None:
    """Eight groups: three tasks each, but four for index and etoe."""
    counts = Counter(name.split("/")[0] for name in NAMES)
    assert counts == {"attn": 3, "gemm": 3, "bmm": 3, "norm": 3, "rope": 3, "index": 4, "expert": 3, "etoe": 4}


def test_every_task_has_one_oracle_and_none_lies_about() -> None:
    """Oracles stand beside the tasks, in a file of their own each."""
    oracles = [
        path.relative_to(DATA / "oracles").with_suffix("").as_posix() for path in (DATA / "oracles").rglob("*.*")
    ]
    assert sorted(oracles) == NAMES


def test_classes_have_the_totals_of_table_2(tasks: dict[str, Task]) -> None:
    """Read off the oracles' graphs: A1 7, AR 8, S1 7, SR 4."""
    classes = [program_class(parse(oracle(name), static_scope(task))[0]) for name, task in tasks.items()]
    assert Counter(classes) == {"A1": 7, "AR": 8, "S1": 7, "SR": 4}


@pytest.mark.parametrize("name", NAMES)
def test_oracle_passes_both_verifiers(tasks: dict[str, Task], name: str) -> None:
    """The reference program is right at every set of sizes and seed."""
    text = oracle(name)
    verdict = Verifier(tasks[name]).verify(text)
    assert verdict.passed, verdict.render(text, name)


@pytest.mark.parametrize("name", NAMES)
def test_oracle_needs_every_copy_it_has(tasks: dict[str, Task], name: str) -> None:
    """Without the Copies of an oracle that has some, the affine rule is broken; so its class is no accident."""
    from step_runtime.primitives import Copy

    program, _ = parse(oracle(name), static_scope(tasks[name]))
    streams: dict[int, int] = {}
    for node in program.nodes:
        if isinstance(node.op, Copy):
            streams |= dict.fromkeys(node.outputs, streams.get(node.inputs[0], node.inputs[0]))
    uses = Counter(streams.get(s, s) for node in program.nodes if not isinstance(node.op, Copy) for s in node.inputs)
    assert not check_affine(program)
    assert (max(uses.values()) > 1) == ("R" in program_class(program))


@pytest.mark.parametrize("name", NAMES)
def test_task_survives_a_round_trip(tasks: dict[str, Task], name: str) -> None:
    """Loading what was dumped gives the same task."""
    assert loads_task(dump_task(tasks[name])) == tasks[name]


def test_tasks_hold_no_solution(tasks: dict[str, Task]) -> None:
    """A benchmark task has no impl that a prompt could leak."""
    assert all(task.impl is None for task in tasks.values())
