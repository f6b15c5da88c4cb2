"""A verified program, simplified: every rewrite is verified before it takes the text's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from pipeline.rewriting.readable_text import readable_text
from pipeline.synthesis.type_space import find_coercions
from step_runtime.base.types import StreamType
from step_runtime.language.canonical import describe
from step_runtime.language.parser import parse
from step_runtime.primitives import Bufferize, Flatten, Map, Promote, Repeat, Reshape, Streamify, Zip
from step_runtime.program.graph import Node, Program
from step_runtime.program.printer import print_program
from step_runtime.rewriting.shared import as_they_are, computed_once, in_turn, pruned, replaced, uncopied
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types, insert_copies

STRUCTURAL = (Promote, Flatten, Reshape, Repeat, Bufferize, Streamify)
"""Primitives of one stream that move data without a function."""


def bare(program: Program) -> Program:
    """The program without Copies, Identities, dead nodes and repeated computations."""
    return computed_once(uncopied(pruned(program)))


def rewrites(program: Program, scope: Scope) -> Iterator[Program]:
    """Programs with less structure, those that leave out most first; whether they keep the meaning is to be verified.

    The program is without Copies: a stream may be used several times.
    """
    types = infer_types(program, scope)[0]
    chains = sorted(_chains(program), key=len, reverse=True)
    for chain in chains:
        yield from _shortened(program, chain, types)
    yield from _without_zips(program)
    yield from _around_maps(program)
    for node in reversed(program.nodes):
        if len(node.outputs) == 1:
            yield from (replaced(program, node, as_they_are(stream)) for stream in dict.fromkeys(node.inputs))


def _without_zips(program: Program) -> Iterator[Program]:
    """A Map takes several streams itself: a Zip that only it reads goes."""
    consumers = program.consumers()
    for node in program.nodes:
        users = consumers.get(node.outputs[0], []) if isinstance(node.op, Zip) else []
        if len(users) == 1 and isinstance(users[0].op, Map) and node.outputs[0] not in program.results:
            at = users[0].inputs.index(node.outputs[0])
            inputs = (*users[0].inputs[:at], *node.inputs, *users[0].inputs[at + 1 :])
            taking = replace(users[0], inputs=inputs)
            nodes = [taking if each is users[0] else each for each in program.nodes if each is not node]
            yield replace(program, nodes=tuple(nodes))


def _around_maps(program: Program) -> Iterator[Program]:
    """What is undone after a Map need not be done before it, such as a Reshape that a Flatten undoes."""
    consumers, makers = program.consumers(), {stream: node for node in program.nodes for stream in node.outputs}
    for node in program.nodes:
        before = makers.get(node.inputs[0]) if isinstance(node.op, Map) and len(node.inputs) == 1 else None
        users = consumers.get(node.outputs[0], [])
        if before is None or len(users) != 1 or not isinstance(before.op, STRUCTURAL):
            continue
        if isinstance(users[0].op, STRUCTURAL) and node.outputs[0] not in program.results:
            past = replace(node, inputs=(before.inputs[0],))
            nodes = tuple(past if each is node else each for each in program.nodes)
            yield replaced(replace(program, nodes=nodes), users[0], as_they_are(node.outputs[0]))


def _chains(program: Program) -> Iterator[list[Node]]:
    """Every run of two or more structural nodes, each the only user of the one before."""
    consumers, makers = program.consumers(), {stream: node for node in program.nodes for stream in node.outputs}
    for last in program.nodes:
        chain = [last] if isinstance(last.op, STRUCTURAL) else []
        while chain:
            before = makers.get(chain[0].inputs[0])
            if before is None or not isinstance(before.op, STRUCTURAL):
                break
            if len(consumers[chain[0].inputs[0]]) > 1 or chain[0].inputs[0] in program.results:
                break
            chain.insert(0, before)
        yield from (chain[start:] for start in range(len(chain) - 1))


def _shortened(program: Program, chain: list[Node], types: list[StreamType | None]) -> Iterator[Program]:
    source, target = types[chain[0].inputs[0]], types[chain[-1].outputs[0]]
    if source is None or target is None:
        return
    for way in find_coercions(source, target):
        if len(way.ops) < len(chain):
            yield replaced(program, chain[-1], in_turn(chain[0].inputs[0], *way.ops))


MOST_TRIES = 150
"""Rewrites verified for one program, at most."""


def simplified(task: Task, text: str, passes: Callable[[str], bool]) -> str:
    """A simpler and more readable text of a program that passes, or the text itself.

    The result passes, and has no more lines of code than the text.
    """
    scope = static_scope(task)
    program, wrong = parse(text, scope)
    if wrong:
        return text
    reduced = insert_copies(_reduced(bare(program), scope, passes))
    # The last is for a text that only repeats a computation, which `bare` shares, to pass.
    candidates = (readable_text(reduced, scope), print_program(reduced), readable_text(program, scope))
    for candidate in dict.fromkeys(candidates):
        if code_lines(candidate) <= code_lines(text) and passes(candidate):
            return candidate
    return text


def annotated(task: Task, text: str) -> str:
    """A program's text with its streams named after their functions, and their types as comments.

    The text itself, if it does not parse or would have more lines of code.
    """
    scope = static_scope(task)
    program, wrong = parse(text, scope)
    candidate = text if wrong else readable_text(program, scope)
    return candidate if code_lines(candidate) <= code_lines(text) else text


def _reduced(program: Program, scope: Scope, passes: Callable[[str], bool]) -> Program:
    """The program after rewrites that pass, one after the other."""
    tried: set[str] = set()
    while True:
        for rewritten in rewrites(program, scope):
            try:
                candidate = bare(rewritten)
            except KeyError:
                continue  # it left out what something else needs
            text = print_program(insert_copies(candidate))
            if text in tried:
                continue
            if len(tried) == MOST_TRIES:
                return program
            tried.add(text)
            if len(candidate.nodes) < len(program.nodes) and passes(text):
                program = candidate
                break
        else:
            return program


def same_graph(task: Task, text: str, other: str) -> bool:
    """Whether two programs have the same primitives on the same streams, at the task's sizes and at others."""
    own = task.size_sets()
    others = {name: size + number for number, (name, size) in enumerate(own[0].items(), 1)}
    for sizes in (*own, others):
        scope = static_scope(task, sizes=sizes)
        read = [parse(each, scope) for each in (text, other)]
        if any(wrong for _, wrong in read) or len({describe(program).key(whole=True) for program, _ in read}) > 1:
            return False
    return True


def code_lines(text: str) -> int:
    """Lines that are neither empty nor a comment."""
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())
