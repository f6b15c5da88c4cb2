"""Transplants: a solved program with the functions of another task."""

from pipeline.synthesis.precedents import fingerprints_of, precedent_of
from pipeline.synthesis.transplants import programs_of, transplanted
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask
from step_runtime.verification.check import infer_types, insert_copies
from step_runtime.verification.verify import Verifier
from tests.support.benchmark_tasks import oracle, task_named


def transplant(shown: str, asked: str) -> Program | None:
    """The program for one task that another's oracle gives."""
    precedent = precedent_of(SolvedTask(task_named(shown).without_impl(), oracle(shown).program))
    task = task_named(asked)
    scope = static_scope(task)
    assert precedent
    return transplanted(precedent, task, scope, fingerprints_of(task, scope.fns))


def test_a_task_s_own_program_solves_it() -> None:
    """Where the last function makes the output, the last stream passes the verifier."""
    for name in ("norm/0", "expert/0", "rope/1"):
        made = transplant(name, name)
        assert made
        last = insert_copies(Program(made.inputs, made.nodes, (made.results[-1],)))
        assert Verifier(task_named(name)).verify(print_program(last)).passed, name


def test_what_it_writes_is_well_typed() -> None:
    """Whatever the two tasks have in common; its results are streams of its own."""
    written = 0
    for shown in ("gemm/0", "norm/1", "attn/0", "etoe/1"):
        for asked in ("gemm/2", "norm/2", "attn/2", "expert/1", "index/2"):
            made = transplant(shown, asked)
            if made is None:
                continue
            written += 1
            assert infer_types(made, static_scope(task_named(asked)))[1] == []
    assert written >= 4


def test_a_precedent_without_a_counterpart_gives_nothing() -> None:
    """Programs come with their precedent's relevance, and only where there are some."""
    task = task_named("index/0")
    scope = static_scope(task)
    fingerprints = fingerprints_of(task, scope.fns)
    known = [precedent_of(SolvedTask(task_named(n).without_impl(), oracle(n).program)) for n in ("index/0", "norm/0")]
    shown = [(each, weight) for each, weight in zip(known, (0.75, 0.5), strict=True) if each]
    found = programs_of(shown, task, scope, fingerprints)
    assert 0.75 in [weight for _, weight in found]
    assert len(found) == sum(transplanted(each, task, scope, fingerprints) is not None for each, _ in shown)
