"""What is read changes what is proposed, by kinds and never by names."""

from __future__ import annotations

from pipeline.lms.embedded.lowering import lower
from pipeline.lms.embedded.prompt.parsing import SolvedExample, solved_examples
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.draft_search import DraftSearch, LearnedEdges
from pipeline.lms.embedded.strong.strong_proposer import learned_for
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.types import StreamType
from step_runtime.program.graph import Program
from step_runtime.tasks.reader import loads_task
from tests.support.paths import PROJECT

ROOT = PROJECT

RUNNING = """
inputs:
- {{name: {input}, dtype: fp32, dims: [M, N], data_gen: torch.randn}}
fns:
- name: Add
  apply: return [state[0] + input[0]]
  init: [0]
  input_dtype: fp32
  output_dtype: fp32
  func_name: {fn}
- {{name: Half, apply: "return [input[0] / 2]", input_dtype: fp32, output_dtype: fp32, func_name: fn_half}}
outputs:
- {{name: S0, dtype: fp32, dims: [M, N], data_transform: unreadable()}}
"""
SCANNED = "E1 = step.Map(fn=fn_half).apply(E0)\nreturn step.Scan(fn=fn_add, b=1).apply(E1)"
REDUCED = "E1 = step.Accum(fn=fn_add, b=1).apply(step.Map(fn=fn_half).apply(E0))\nreturn step.Repeat(n=M).apply(E1)"

VIEW = TaskView(loads_task(RUNNING.format(input="x", fn="fn_collect")))


def demo(program: str, times: int = 1) -> tuple[SolvedExample, ...]:
    return tuple(SolvedExample(loads_task(RUNNING.format(input="E0", fn="fn_add")), program) for _ in range(times))


def taught(examples: tuple[SolvedExample, ...], demonstrations: tuple[SolvedExample, ...]) -> LearnedEdges:
    """What is learned for the same kind of task under other names."""
    return learned_for(VIEW, (examples, demonstrations))


def drafts(learned: LearnedEdges, count: int = 60) -> list[tuple[Program, list[StreamType], TaskView]]:
    """Drafts for that task."""
    view, found = VIEW, []
    for seed in range(count):
        draft = DraftSearch(view, learned, SeededChoice(seed, 1.0), StepLimit(10**6)).sample()
        if draft is not None:
            found.append((*lower(view.table, draft, lambda: False), view))
    return found


def names(program: Program) -> list[str]:
    return [node.op.name for node in program.nodes]


def scans(learned: LearnedEdges) -> float:
    programs = [program for program, _, _ in drafts(learned)]
    return sum("Scan" in names(program) for program in programs) / len(programs)


def test_demonstrations_make_what_they_show_more_frequent() -> None:
    """After programs that scan, drafts scan more often than after programs that reduce and repeat."""
    assert scans(taught((), demo(SCANNED, 5))) > scans(taught((), ())) > scans(taught((), demo(REDUCED, 5)))


def test_demonstrations_raise_the_score_of_what_they_show() -> None:
    """A program's score against another's grows with demonstrations of its kind, though all names differ."""
    plain, shown = taught((), ()), taught((), demo(SCANNED))
    by_kind = {
        any(node.op.name == "Scan" for node in p.nodes): (p, types, view.context) for p, types, view in drafts(plain)
    }
    gains = {kind: shown.edge_model.score(*found) - plain.edge_model.score(*found) for kind, found in by_kind.items()}
    assert gains[True] > gains[False]


def test_a_demonstration_counts_more_than_an_example() -> None:
    """The same program weighs more as a demonstration than as a reference example."""
    program, types, view = next(d for d in drafts(taught((), ())) if names(d[0]) == ["Map", "Scan"])
    as_example, as_demonstration = taught(demo(SCANNED), ()), taught((), demo(SCANNED))
    assert as_demonstration.edge_model.score(program, types, view.context) > as_example.edge_model.score(
        program, types, view.context
    )


def test_demonstrations_that_do_not_parse_teach_nothing() -> None:
    """A broken program leaves the counts as they were."""
    broken = taught((), demo("return step.Nothing().apply(E0)"))
    program, types, view = drafts(broken)[0]
    assert broken.edge_model.score(program, types, view.context) == taught((), ()).edge_model.score(
        program, types, view.context
    )


def test_the_instructions_examples_are_learnt_from() -> None:
    """The base prompt's examples all count."""
    examples = solved_examples((ROOT / "data/prompts/proposer.yaml").read_text())
    program, types, view = drafts(taught((), ()))[0]
    shown, untaught = taught(examples, ()), taught((), ())
    assert shown.edge_model.score(program, types, view.context) != untaught.edge_model.score(
        program, types, view.context
    )
