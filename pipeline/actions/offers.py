"""The offers of `pipeline.generate`: a task's preferred program, and the costs of its alternatives."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipeline.base.choices import Figure, Objective
from pipeline.base.errors import Exit, UsageError
from pipeline.base.files import write_text
from pipeline.base.languages import DEFAULT
from pipeline.base.paths import shown
from pipeline.base.text import exact_number
from pipeline.cli.cost_tables import aligned
from pipeline.languages.language import Task as AnyTask
from pipeline.rewriting.simplification import annotated, simplified
from pipeline.verification.metric import Metric
from pipeline.verification.pricing import Pricing
from step_runtime.base.errors import TaskError
from step_runtime.base.shapes import Sizes, format_sizes
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.cost.front import TRADED, figures_key, pareto_front
from step_runtime.rewriting.optimizing import Explored, Variant
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task


@dataclass(frozen=True)
class Generated:
    """The results by task: for machines, for people, and as an exit code with a message for stderr."""

    as_json: Mapping[str, Any]
    text: str
    exit_code: Exit
    message: str = ""

    def doubted(self, doubts: Mapping[str, Sequence[str]]) -> Generated:
        """The same with the warnings about the tasks themselves, lines by the task's name, before the programs'."""
        warned = {name: list(lines) for name, lines in doubts.items() if lines}
        for name, lines in self.as_json["warnings"].items():
            warned.setdefault(name, []).extend(lines)
        shown = [line for lines in doubts.values() for line in lines]
        text = "\n\n".join([self.text, "\n".join(shown)] if shown else [self.text])
        return replace(self, as_json={**self.as_json, "warnings": warned}, text=text)


def write_solution(task: AnyTask, impl: str, files: Sequence[Path], text: str | None = None) -> list[Path]:
    """Writes a task's program, alone or with its task by the file's suffix, and returns the files written.

    Comments and layout of the task file's `text` are kept.
    """
    for path in files:
        write_text(path, solved_text(task, impl, text) if path.suffix == ".yaml" else impl.rstrip() + "\n")
    return list(files)


def solved_text(task: AnyTask, impl: str, text: str | None = None) -> str:
    """The task with its program as `impl`, as YAML: the task's own text where that is possible."""
    if text is not None and isinstance(task, Task):
        text = re.sub(r"^impl:.*\n(?:(?:[ \t].*)?\n)*", "", f"{text.rstrip()}\n", flags=re.MULTILINE)
        own = f"{text.rstrip()}\n\nimpl: |\n{textwrap.indent(impl.rstrip(), '  ')}\n"
        try:
            found = loads_task(own, task.name)
        except TaskError:  # its layout leaves no place for a program
            return task.text_with(impl)
        if found.without_impl() == task.without_impl() and (found.impl or "").strip() == impl.strip():
            return own
    return task.text_with(impl)


PRICED = 60
"""Programs that are priced around each verified one."""
MOST = 8
"""Rewritten programs that are verified and offered beside those found, at most."""


@dataclass(frozen=True)
class Solution:
    """A verified program.

    Attributes:
        impl: The program, simplified.
        draft: The program before it was simplified.
        by: What found it: `embedded` or another LM, `search`, `split`.
        detail: How, in words.
        rewrites: The rewrites that made it of what was found, in order.
        figures: What it costs on the default chip, by figure; empty if that is not known.
        findings: What `pipeline.verify` warns of in it, a line each.
    """

    impl: str
    draft: str
    by: str
    detail: str
    rewrites: tuple[str, ...] = ()
    figures: Mapping[Figure, float] = field(default_factory=dict)
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offer:
    """The verified programs of a task: the one that is offered, then those that cost otherwise.

    Attributes:
        programs: At least one, those without findings first, and otherwise, but for the first, by the objective.
        sizes: The sizes that they are priced at.
    """

    programs: tuple[Solution, ...]
    sizes: Sizes

    @property
    def best(self) -> Solution:
        """The program that is offered."""
        return self.programs[0]

    @classmethod
    def unpriced(cls, found: Sequence[Solution]) -> Offer:
        """The programs without findings, then the others, in the order in which they were found, without figures."""
        return cls(tuple(sorted(found, key=lambda solution: bool(solution.findings))), {})


class Offering:
    """Makes offers of verified programs: with `correctness` the one that was found first, else the cheapest.

    One without findings is preferred to all that have some.
    """

    def __init__(self, objective: Objective, metric: Metric) -> None:
        self._objective = objective
        self._figure: Figure = "memory" if objective == "correctness" else objective
        self.metric = metric

    def is_clean(self, task: AnyTask, text: str) -> bool:
        """Whether `pipeline.verify` has nothing to say of a program that passes."""
        return not self.metric.findings(task, text)

    def solution(self, task: Any, draft: str, by: str, detail: str) -> Solution:
        """A program that was found, simplified where the language does that, with its findings; not priced yet."""
        impl = draft
        if self.metric.language.name == DEFAULT:
            impl = simplified(task, draft, self.metric.replaces(task, draft))
        return Solution(impl, draft, by, detail, findings=self.metric.findings(task, impl))

    def offer(self, task: Any, found: Sequence[Solution]) -> Offer:
        """The programs found and their rewrites, without those that another program matches in every figure.

        `found` are one program or more, none of them priced. A program that can't be priced is offered without figures.
        """
        if self.metric.language.name != DEFAULT:
            return Offer.unpriced(found)
        priced, rewritten, sizes = list[Solution](), list[Solution](), dict[str, int]()
        for solution in found:
            try:
                explored = Pricing(task, DEFAULT_CHIP, self.metric.executor).explored(
                    solution.impl, self._figure, PRICED
                )
            except UsageError:
                continue
            for variant in explored.variants if isinstance(explored, Explored) else ():
                sizes = dict(variant.cost.sizes)
                if variant.rewrites:
                    rewritten.append(_rewritten(annotated(task, variant.text), solution, variant))
                else:
                    priced.append(replace(solution, figures=dict(variant.cost.figures())))
        if not priced:
            return Offer.unpriced(found)
        priced.sort(key=lambda solution: bool(solution.findings))
        given = {solution.impl for solution in priced}
        front = pareto_front(
            [*priced, *rewritten],
            lambda solution: solution.figures,
            self._figure,
            lambda solution: solution.impl in given or self.metric.replaces(task, solution.draft)(solution.impl),
        )
        cheaper = [
            replace(solution, findings=self.metric.findings(task, solution.impl))
            for solution in [solution for solution in front if solution.impl not in given][:MOST]
        ]
        programs = sorted([*priced, *cheaper], key=lambda solution: figures_key(solution.figures, self._figure))
        if self._objective == "correctness":
            programs.remove(priced[0])
            programs.insert(0, priced[0])
        return Offer(tuple(sorted(programs, key=lambda solution: bool(solution.findings))), sizes)


NO_OFFER: Mapping[str, Any] = {
    "impl": None, "draft": None, "found_by": None, "detail": None, "files": [], "programs": [], "sizes": {},
}  # fmt: skip
"""The same fields as of `WrittenOffer.to_dict`, of a task without a verified program."""


def _rewritten(text: str, solution: Solution, variant: Variant) -> Solution:
    return replace(solution, impl=text, rewrites=variant.rewrites, figures=dict(variant.cost.figures()))


def findings_of(written: Mapping[str, WrittenOffer]) -> dict[str, list[str]]:
    """Warnings about the programs that are offered first, by task."""
    return {name: list(offer.offer.best.findings) for name, offer in written.items() if offer.offer.best.findings}


def alternatives_folder(file: Path) -> Path:
    """The folder beside a task's file for the programs that are not offered first."""
    return file.with_suffix(".alternatives")


@dataclass(frozen=True)
class WrittenOffer:
    """An offer, the files of its first program, and one for each other program; none if it goes to no file."""

    offer: Offer
    files: tuple[Path, ...]
    alternatives: tuple[Path, ...]

    def to_dict(self) -> dict[str, Any]:
        """The fields of a solved task in the command's JSON."""
        best, files = self.offer.best, [None, *map(str, self.alternatives)]
        programs = [
            {
                "impl": program.impl,
                "file": files[number] if self.alternatives else None,
                "found_by": program.by,
                "detail": program.detail,
                "rewrites": list(program.rewrites),
                "cost": dict(program.figures) or None,
                "warnings": list(program.findings),
            }
            for number, program in enumerate(self.offer.programs)
        ]
        return {
            "impl": best.impl,
            "draft": best.draft,
            "found_by": best.by,
            "detail": best.detail,
            "files": [str(file) for file in self.files],
            "programs": programs,
            "sizes": dict(self.offer.sizes),
        }

    def lines(self) -> Iterator[str]:
        """The files or the program, the warnings, and, for several programs, a table of their costs."""
        best = self.offer.best
        yield from [shown(file) for file in self.files] or best.impl.strip().splitlines()
        yield from (f"warning: {finding}" for finding in best.findings)
        if len(self.offer.programs) == 1 or not best.figures:
            return
        yield f"costs at {format_sizes(self.offer.sizes)} on the {DEFAULT_CHIP.name} chip:"
        names = [str(shown(path)) for path in (*self.files[:1], *self.alternatives)]
        names = names or [str(number) for number in range(1, len(self.offer.programs) + 1)]
        rows = [["program", *TRADED, "found by"]]
        for name, program in zip(names, self.offer.programs, strict=True):
            figures = [exact_number(program.figures[figure]) for figure in TRADED]
            rows.append([name, *figures, ", ".join([program.by, *program.rewrites])])
        yield from aligned(rows, right=set(range(1, 1 + len(TRADED))))


def write_offer(task: AnyTask, offer: Offer, files: Sequence[Path], text: str | None = None) -> WrittenOffer:
    """Writes the program that is offered to its files, and the others to a folder beside them, numbered from 2.

    Alternatives of an earlier call are removed; comments and layout of the task file's `text` are kept. Without files
    nothing is written.

    Raises:
        UsageError: A file can't be written.
    """
    if not files:
        return WrittenOffer(offer, (), ())
    written = write_solution(task, offer.best.impl, files, text)
    folder = alternatives_folder(files[0])
    if folder.is_symlink():
        raise UsageError(f"{folder}: expected a folder, found a link; remove it")
    for old in folder.glob("*.step"):
        old.unlink()
    alternatives = tuple(folder / f"{number}.step" for number in range(2, len(offer.programs) + 1))
    for path, program in zip(alternatives, offer.programs[1:], strict=True):
        write_text(path, program.impl.rstrip() + "\n")
    return WrittenOffer(offer, tuple(written), alternatives)
