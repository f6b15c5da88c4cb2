"""Tokens per solved task and per right answer, by the guardian's mode: the paper's scheme against ours.

`paper`, the LM is asked about every proposal; `gated`, only where the exact check finds a stream consumed twice;
`compiler`, a pass inserts the Copies without an LM; `none`. All four get the same proposals, once over the
benchmark, on the embedded LMs and on a scripted LM behind real HTTP (`tests.support.lm_server`). Of ten answers to a
task, the scripted LM gives four right ones, four that lack all Copies, and two wrong ones; as guardian it puts the
Copies in, and leaves everything else as it is. Tokens are those that the servers report, four characters each.

How to run: python -m benchmarks.guardian [--samples 8] [--tasks GLOB...] [--lm scripted embedded]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.choices import GUARDIANS
from pipeline.base.machine import cores

if TYPE_CHECKING:
    import dspy

    from step_runtime.tasks.task import Task

ANSWERS = "STEP_BENCHMARK_GUARDIAN"
SCRIPTED = "scripted"
RIGHT_UNTIL, REUSING_UNTIL, OF = 4, 8, 10


@cache
def _known() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(Path(os.environ[ANSWERS]).read_text(encoding="utf-8"))
    return found


def answer(body: dict[str, Any], index: int) -> str:
    """To the guardian's request, the program with its Copies; to the proposer's, what the seed decides."""
    text: str = body["messages"][-1]["content"]
    right, reusing = next((pair for mark, pair in _known().items() if mark in text), ["ready", "ready"])
    _, asked, shown = text.partition("[[ ## input_impl ## ]]\n")
    if asked:
        program = shown.partition("\n\nRespond with")[0].strip()
        return f"[[ ## output_impl ## ]]\n{right if program == reusing else program}\n\n[[ ## completed ## ]]"
    turn = ((body.get("seed") or 0) + index) % OF
    impl = right if turn < RIGHT_UNTIL else reusing if turn < REUSING_UNTIL else "return E0"
    return f"[[ ## impl ## ]]\n{impl}\n\n[[ ## completed ## ]]"


def without_copies(task: Task, text: str) -> str:
    """The program with every stream that Copy made replaced by the one that it copied."""
    from dataclasses import replace

    from step_runtime.language.parser import parse
    from step_runtime.primitives import Copy
    from step_runtime.program.printer import print_program
    from step_runtime.tasks.scope import static_scope

    program, _ = parse(text, static_scope(task))
    source: dict[int, int] = {}
    nodes = []
    for node in program.nodes:
        inputs = tuple(source.get(stream, stream) for stream in node.inputs)
        if isinstance(node.op, Copy):
            source |= dict.fromkeys(node.outputs, inputs[0])
        else:
            nodes.append(replace(node, inputs=inputs))
    results = tuple(source.get(stream, stream) for stream in program.results)
    return print_program(replace(program, nodes=tuple(nodes), results=results)).strip()


@contextmanager
def lms(names: Sequence[str], tasks: Sequence[Task], folder: Path) -> Iterator[dict[str, dspy.LM]]:
    """The LMs by name; the scripted one's server runs within the context."""
    import dspy

    from pipeline.base.paths import TASKS
    from pipeline.lms.embedded import engine_named
    from signatures import render_task
    from tests.support.lm_server import Server

    with ExitStack() as stack:
        made = {}
        for name in names:
            if name != SCRIPTED:
                engine = engine_named(name)
                made[name] = dspy.LM(engine.model, engine=engine, cache=False)
                continue
            known = {}
            for task in tasks:
                oracle = (TASKS.parent / "oracles" / f"{task.name}.step").read_text(encoding="utf-8").strip()
                known[render_task(task)] = [oracle, without_copies(task, oracle)]
            (folder / "answers.json").write_text(json.dumps(known), encoding="utf-8")
            os.environ[ANSWERS] = str(folder / "answers.json")
            server = stack.enter_context(Server(answers="benchmarks.guardian:answer"))
            made[name] = dspy.LM("openai/scripted", api_base=server.address, api_key="none", cache=False)
        yield made


def measure(options: argparse.Namespace, folder: Path) -> list[tuple[str, ...]]:
    """A row an LM and a guardian."""
    import dspy

    from optimizers import SinglePass, TokenCount
    from pipeline.agent.agent import Agent
    from pipeline.running import session
    from pipeline.verification.task_files import load_tasks

    tasks = load_tasks(options.tasks)
    trainset = [dspy.Example(task=task).with_inputs("task") for task in tasks]
    rows: list[tuple[str, ...]] = []
    with lms(options.lm, tasks, folder) as made:
        for name, lm in made.items():
            for mode in GUARDIANS:
                agent = Agent(mode)
                with session.lm_session(lm) as metric:
                    threads = 16 if name == SCRIPTED else cores()
                    optimizer = SinglePass(
                        metric,
                        options.samples,
                        temperatures=(0.7,),
                        threads=threads,
                        domain=session.fixed_program_domain(),
                    )
                    found = optimizer.compile(agent, trainset=trainset).experience
                tokens = TokenCount.sum(found.tokens.values())
                calls = found.tokens.get("guardian.predict", TokenCount()).calls
                solved = len(found.solved)
                passed = sum(attempt.passed for attempt in found.attempts)
                each, per_answer = (f"{tokens.total / count:,.0f}" if count else "none" for count in (solved, passed))
                rate = f"{passed / len(found.attempts):.3f}"
                rows.append((name, mode, f"{solved}/{len(tasks)}", rate, f"{calls:,}", each, per_answer))
                print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def main(arguments: list[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=8, help="answers a task (default: %(default)s)")
    parser.add_argument("--tasks", nargs="+", help="as of pipeline.compile (default: the benchmark)")
    parser.add_argument("--lm", nargs="+", default=[SCRIPTED, "embedded"])
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(options, Path(folder))
    head = (
        "LM",
        "guardian",
        "solved",
        "right",
        "guardian's calls",
        "tokens per solved task",
        "tokens per right answer",
    )
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
