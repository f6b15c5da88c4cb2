"""The rules of a task: every function on streams of every type that it takes, and what each may still lead to."""

from pipeline.synthesis import SearchBudget, synthesize
from pipeline.synthesis.lowering import ProgramBuilder
from pipeline.synthesis.phases import RoundLimits
from pipeline.synthesis.rulebook import Rulebook
from pipeline.synthesis.rules import RuleTable
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.primitives import Accum, Map, Scan
from step_runtime.program.printer import print_program
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import infer_types, insert_copies
from tests.support.small_tasks import of_scalars

FNS = {"double": ("2 * input[0]", 1), "times": ("input[0] * input[1]", 2), "add": ("state[0] + input[0]", 0)}
TASK = of_scalars(FNS, "input_data['E0']")
SPACE = TypeSpace(static_scope(TASK))
RAMP = """
inputs:
- {name: slope, dtype: fp32, dims: [M], data_gen: torch.rand}
- {name: signal, dtype: fp32, dims: [N, M], data_gen: torch.rand}
fns:
- name: Add
  apply: "return [state[0] + input[0]]"
  init: [0]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn_add
- name: Mix
  apply: "return [input[0] * torch.cos(input[1])]"
  input_dtype: [fp32, fp32]
  output_dtype: fp32
  func_name: fn_mix
outputs:
- name: mixed
  dtype: fp32
  dims: [N, M]
  data_transform:
  - |
    torch.cos(input_data['slope'].unsqueeze(1) * torch.arange(1, N_value + 1)) * input_data['signal']
"""
BOOK = Rulebook(RuleTable(SPACE), dict.fromkeys(SPACE.inputs, 0), RoundLimits(8, 1_000, True))


def test_every_function_has_rules_of_its_own_primitives() -> None:
    """A function with a state folds, one without is mapped; operands are as many as it takes."""
    kinds: dict[str, set[type]] = {}
    for rule in BOOK.rules:
        assert isinstance(rule.apply, Map | Accum | Scan)
        kinds.setdefault(rule.apply.fn.label, set()).add(type(rule.apply))
    assert kinds == {"fn_double": {Map}, "fn_times": {Map}, "fn_add": {Accum, Scan}}
    assert {len(rule.operands) for rule in BOOK.rules} == {1, 2}


def test_a_rule_writes_what_its_types_say() -> None:
    """The program that it writes on an input has the result's type by the language's own rules."""
    written = 0
    for rule in BOOK.rules:
        if any(path.source != SPACE.inputs[0] for path in rule.operands):
            continue
        builder = ProgramBuilder(SPACE.scope)
        result = rule.write(builder, [0] * len(rule.operands))
        program = insert_copies(builder.program((result,)))
        types, found = infer_types(program, SPACE.scope)
        assert not found, print_program(program)
        assert types[program.results[0]] == SPACE.types[rule.result]
        written += 1
    assert written


def test_a_fold_may_repeat_its_operand() -> None:
    """A phase accumulator: one number for each stream, added up along a dim that the stream lacks."""
    ramp = loads_task(RAMP, "ramp")
    found = synthesize(ramp, SearchBudget(candidates=2_000))
    assert found.impl and "step.Scan" in found.impl and "step.Repeat(n=N)" in found.impl
