"""Streams of failed programs are given to the search, as far as they run."""

from pathlib import Path

import torch

from pipeline.synthesis import SearchBudget, synthesize
from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.draft_streams import draft_streams
from pipeline.synthesis.search_round import SeedStream
from pipeline.synthesis.terms import InputTerm
from pipeline.synthesis.type_space import TypeSpace
from step_runtime import load_task
from step_runtime.execution.invocation import default_dtype
from step_runtime.verification.instance import instances
from tests.support.small_tasks import of_scalars

FNS = {"double": ("2 * input[0]", 1), "sine": ("torch.sin(input[0])", 1)}
TASK = of_scalars(FNS, "input_data['E0'] * 2")
DRAFT = """\
E1 = step.Map(fn=fn_double).apply(step.Map(fn=fn_sine).apply(E0))
E2 = step.Streamify().apply(E1)
return E2
"""


def test_streams_up_to_the_first_failure_are_given_once() -> None:
    """Each value once; a text that does not parse gives none."""
    with default_dtype(torch.float64):
        instance = instances(TASK)[0]
        executor = BatchExecutor(instance, TypeSpace(instance.scope), SearchBudget())
        ((type_, parts),) = zip(instance.scope.inputs.values(), instance.sample_inputs(0).values(), strict=True)
        given = [SeedStream(type_, executor.layout(type_).pack(parts, 1), InputTerm(0), 0)]
        found = draft_streams(executor, [DRAFT, DRAFT, "return E9"], given)
    values = [parts[0].flatten().sin(), 2 * parts[0].flatten().sin()]
    assert len(found) == 2
    assert all(torch.allclose(stream.values[0], value) for stream, value in zip(found, values, strict=True))


def test_a_search_uses_what_a_draft_has() -> None:
    """The program passes, whether it needs the draft or not."""
    deep = of_scalars(FNS, "torch.sin(torch.sin(torch.sin(input_data['E0']))) * 2")
    draft = "E1 = step.Map(fn=fn_sine).apply(step.Map(fn=fn_sine).apply(E0))\nreturn E1"
    alone, helped = synthesize(deep), synthesize(deep, drafts=[draft])
    assert alone.impl is not None and helped.impl is not None


def test_a_draft_that_routes_gives_its_other_streams() -> None:
    """Within a routing, the rows of a block are in the routed dim; such streams are not given, and nothing fails."""
    folder = Path(__file__).parents[3] / "data"
    task = load_task(folder / "tasks/expert/0.yaml")
    outcome = synthesize(task, SearchBudget(), [(folder / "oracles/expert/0.step").read_text()])
    assert outcome.impl is not None
