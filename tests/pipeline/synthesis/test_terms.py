"""Terms become programs in which every term is written once."""

from pipeline.synthesis.lowering import ProgramBuilder
from pipeline.synthesis.phases import RoundLimits
from pipeline.synthesis.rulebook import Rulebook
from pipeline.synthesis.rules import InputTerm, ProgramTerm, RuleTable, RuleTerm, TermWriter, functions_of, needed_nodes
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.language.parser import parse
from step_runtime.tasks.scope import static_scope
from tests.support.small_tasks import of_scalars

SCOPE = static_scope(
    of_scalars({"double": ("2 * input[0]", 1), "plus": ("input[0] + input[1]", 2)}, "input_data['E0']")
)


def test_a_term_that_is_used_twice_is_written_once() -> None:
    """Also deep down, where a tree would have thousands of nodes."""
    space = TypeSpace(SCOPE)
    rules = list(Rulebook(RuleTable(space), dict.fromkeys(space.inputs, 0), RoundLimits(6, 1_000, False)).rules)
    plus = next(rule for rule in rules if rule.fn.label == "fn_plus" and not any(path.ops for path in rule.operands))
    term: InputTerm | RuleTerm = InputTerm(0)
    for _ in range(20):
        term = RuleTerm(plus, (term, term))
    writer = TermWriter(ProgramBuilder(SCOPE))
    result = writer.stream(term)
    program = writer.builder.program((result,))
    assert sum(bool(node.op.functions()) for node in program.nodes) == 20
    assert {fn.label for fn in functions_of(term)} == {"fn_plus"}


def test_a_stream_of_a_draft_takes_the_nodes_that_lead_to_it() -> None:
    program, _ = parse("E1, E2 = step.Copy().apply(E0)\nE3 = step.Map(fn=fn_double).apply(E1)\nreturn E2", SCOPE)
    made = program.nodes[-1].outputs[0]
    assert [len(node.outputs) for node in needed_nodes(program, made)] == [2, 1]
    writer = TermWriter(ProgramBuilder(SCOPE))
    writer.stream(ProgramTerm(program, made))
    assert functions_of(ProgramTerm(program, made)) == set()
