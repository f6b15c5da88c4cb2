"""Every rewrite keeps the results of random programs, and does what its name says."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
import torch

from step_runtime import primitives as p
from step_runtime.base.errors import RunError
from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, Scalar, StreamType
from step_runtime.primitives import Copy, Identity, Map, Promote
from step_runtime.program.graph import Node, Program
from step_runtime.program.printer import print_program
from step_runtime.rewriting.rules import RULES
from step_runtime.rewriting.shared import Shared, shared
from step_runtime.verification.check import check_affine, infer_types, insert_copies
from tests.support.priced import checked
from tests.support.random_functions import FoldFn, random_plain
from tests.support.random_programs import Case, random_case
from tests.support.samples import GENERAL, general_scope
from tests.support.tokens import Value, run_tokens

F = Scalar("float")


def results(case: Case, program: Program) -> list[Value]:
    """What a program gives on a case's data, by the meaning of tokens."""
    types, found = infer_types(program, case.scope)
    assert not found and not check_affine(program), found
    return run_tokens(program, types, case.data, case.scope.sizes)


def with_patterns(case: Case, rng: Random) -> Case:
    """The program with what rewrites look for at the end of each of its results.

    Most random programs hold none of it: elements that are repeated and then computed with, buffers that are streamed
    again, the same primitive twice, folds of folds.
    """
    types, _ = infer_types(case.program, case.scope)
    known = [kind for kind in types if kind is not None]
    nodes, fresh = list(case.program.nodes), len(known)
    returned = []

    def add(op: p.Primitive, *streams: int) -> int:
        nonlocal fresh
        [kind] = op.infer([known[stream] for stream in streams], p.Rules(case.scope.sizes))
        known.append(kind)
        nodes.append(Node(op, streams, (fresh,)))
        fresh += 1
        return fresh - 1

    streams = list(dict.fromkeys(case.program.results))
    for stream in rng.sample(streams, min(2, len(streams))):
        for extend in rng.sample(PATTERNS, 3):
            returned += extend(add, stream, known, rng, case)
    program = Program(case.program.inputs, tuple(nodes), tuple(returned) or case.program.results[:2])
    return Case(program, case.scope, case.data)


Add = Callable[..., int]


def _function(case: Case, kind: StreamType, rng: Random) -> Fn:
    return random_plain(rng, "fn_extra", kind.dtype, F, case.scope.sizes)


def _static(kind: StreamType) -> bool:
    return "routed" not in str(kind)


def repeated(add: Add, stream: int, known: list[StreamType], rng: Random, case: Case) -> list[int]:
    if not _static(known[stream]):
        return []
    one = add(p.Repeat(rng.randint(1, 2)), stream)
    again = add(p.Repeat(2), rng.choice([one, add(p.Flatten((1,)), add(p.Promote(0), one))]))
    if rng.random() < 0.5:
        return [again, add(p.Map(_function(case, known[one], rng)), one)]
    return [again, add(p.Zip(), one, add(p.RepeatRef(), stream, one))]


def computed_then_repeated(add: Add, stream: int, known: list[StreamType], rng: Random, case: Case) -> list[int]:
    return [add(p.Repeat(2), add(p.Map(_function(case, known[stream], rng)), stream))] if _static(known[stream]) else []


def referenced(add: Add, stream: int, known: list[StreamType], rng: Random, case: Case) -> list[int]:
    return [add(p.RepeatRef(), stream, add(p.Repeat(2), stream))]


def round_trip(add: Add, stream: int, known: list[StreamType], rng: Random, case: Case) -> list[int]:
    kind = known[stream]
    if isinstance(kind.dtype, Buffer):
        wide = add(p.Streamify(), stream)
        return [add(p.Bufferize(len(kind.dtype.dims)), wide)]
    if kind.rank and len(str(kind.dtype).split("[")) == 1:
        return [add(p.Streamify(), add(p.Bufferize(kind.rank), stream))]
    return [add(p.Flatten((1,)), add(p.Promote(0), stream))]


def reshaped(add: Add, stream: int, known: list[StreamType], rng: Random, case: Case) -> list[int]:
    b = rng.randint(0, known[stream].rank + 1)
    one, other = add(p.Promote(b), stream), add(p.Promote(b), stream)
    twice = add(p.Promote(0), one)
    return [add(p.Flatten((1, 2)), twice) if known[twice].rank > 1 else twice, add(p.Zip(), one, other)]


def gathered(add: Add, stream: int, known: list[StreamType], rng: Random, case: Case) -> list[int]:
    if not known[stream].rank or len(str(known[stream].dtype).split("[")) > 1:
        return []
    rows = add(p.Bufferize(known[stream].rank), stream)
    return [add(p.Bufferize(1), add(p.Promote(1), rows))] if known[rows].rank else []


def folded(add: Add, stream: int, known: list[StreamType], rng: Random, case: Case) -> list[int]:
    kind = known[stream]
    if kind.dtype != F:
        return []
    name = rng.choice(("sum", "maximum"))
    rule = torch.maximum if name == "maximum" else torch.add
    start = float("-inf") if name == "maximum" else 0.0
    fn = FoldFn("fn_fold", (F, F), lambda s, x: [rule(s[0], x[0])], [torch.tensor(start, dtype=torch.float64)])
    wide = add(p.Promote(kind.rank + 1), add(p.Promote(kind.rank + 1), stream))
    most = known[wide].rank
    return [add(p.Accum(fn, 1), add(p.Accum(fn, 1), wide)), add(p.Accum(fn, most), wide)]


PATTERNS = [repeated, computed_then_repeated, referenced, round_trip, reshaped, gathered, folded]


def merges(fn: Fn) -> bool:
    return fn.label == "fn_fold"


def without_copies(case: Case) -> Shared:
    found = shared(case.program, case.scope, merges)
    assert found is not None
    return found


def agrees(one: list[Value], other: list[Value]) -> bool:
    pairs = [pair for parts in zip(one, other, strict=True) for pair in zip(*parts, strict=True)]
    return all(torch.allclose(a, b, equal_nan=True, rtol=1e-9, atol=1e-12) for a, b in pairs)


def rewritten(seeds: range, most: int) -> Counter[str]:
    """Applies every rule at some places of random programs, and holds the results to the program's own."""
    applied: Counter[str] = Counter()
    for seed in seeds:
        rng = Random(seed)
        case = random_case(rng)
        # Copies are inserted after the rewrite, so that results may be used again.
        case = with_patterns(Case(insert_copies(without_copies(case).program), case.scope, case.data), rng)
        program = without_copies(case)
        try:
            expected = results(case, insert_copies(program.program))
        except RunError:
            continue
        for name, rule in RULES.items():
            others = [program.replaced(node, build) for node in program.program.nodes for build in rule(program, node)]
            # A rule may give an ill-typed program: that of two Partitions, as the dims of each are its own.
            typed = [other for other in others if other is not None]
            for other in rng.sample(typed, min(most, len(typed))):
                after = insert_copies(other.program)
                assert agrees(expected, results(case, after)), f"seed {seed}: {name}\n{print_program(after)}"
                applied[name] += 1
    return applied


def test_rewrites_keep_the_results_of_random_programs() -> None:
    """Every rule applies many times."""
    applied = rewritten(range(20), 1)
    assert all(applied[name] >= 2 for name in RULES), applied


@pytest.mark.slow
def test_rewrites_keep_the_results_of_many_random_programs() -> None:
    applied = rewritten(range(1_000, 1_600), 5)
    assert all(applied[name] >= 100 for name in RULES), applied


def test_copies_go_and_come_back() -> None:
    """With the results of random programs kept; nodes without use go."""
    for seed in range(20):
        case = random_case(Random(seed))
        found = shared(case.program, case.scope, lambda fn: False)
        assert found is not None
        assert not any(isinstance(node.op, Copy | Identity) for node in found.program.nodes)
        types = [found.types[stream] for stream in found.program.results]
        assert list(map(str, types)) == list(map(str, case.scope.outputs)) or "routed" in str(types)
        assert insert_copies(found.program).live_nodes()


def test_one_node_is_replaced_by_others() -> None:
    """Later nodes use the new results."""
    program = checked(GENERAL, "E4 = step.Map(fn=fn_square).apply(E0)\nreturn step.Promote(b=0).apply(E4)").program
    found = shared(program, general_scope(), lambda fn: False)
    assert found is not None
    [square, _] = found.program.nodes
    twice = found.replaced(
        square, lambda new, now: new.add(square.op, new.add(square.op, [now(stream) for stream in square.inputs]))
    )
    assert twice is not None
    assert [type(node.op) for node in twice.program.nodes] == [Map, Map, Promote]
    assert "apply(E5)" in print_program(twice.program)


def test_an_ill_typed_program_is_none() -> None:
    program = checked(GENERAL, "return step.Map(fn=fn_square).apply(E0)").program
    found = shared(program, general_scope(), lambda fn: False)
    assert found is not None
    [square] = found.program.nodes
    assert found.replaced(square, lambda new, now: new.add(square.op, [now(1)])) is None
