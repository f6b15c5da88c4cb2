"""`pipeline.bundle`: a program in a folder with all that a reviewer needs to trust it, made, and checked again.

    task.yaml        the task, without a program, its shared functions included
    program.step     the program, its streams' types as comments
    test_program.py  a pytest script that passes or fails as the verifier does
    README.md        what the rest says, on a page
    bundle.json      verdict, proof, held-out verdict, cost, who wrote it, and the digest of each file

What `bundle.json` says of the program is found again when it is checked, from the files alone and without a network.
Who wrote it is stated, not verified: the digest of `bundle.json`, kept elsewhere, shows whether it was changed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dspy
from pydantic import ValidationError

from pipeline.actions.price_program import cost_of, pytest_script
from pipeline.actions.verify_programs import Batch, run_single
from pipeline.base.bundles import MANIFEST, Bundle, BundleCheck, BundledFile, BundleOutput, HeldOutFinding, Origin
from pipeline.base.choices import FloatType
from pipeline.base.errors import UsageError
from pipeline.base.files import file_errors, read_bytes, write_bytes, write_text
from pipeline.base.languages import DEFAULT
from pipeline.base.outputs import Finding, ProgramVerdict
from pipeline.base.paths import shown
from pipeline.base.text import visible
from pipeline.cli.program_arguments import Item
from pipeline.rewriting.simplification import annotated
from pipeline.running.job import code_version, versions
from pipeline.verification.held_out import holding_out
from pipeline.verification.judge import Request
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.pool import LocalWorkers
from pipeline.verification.task_files import load_task_named
from step_runtime.base.mistakes import first_mistake

TASK, PROGRAM, TEST, README = "task.yaml", "program.step", "test_program.py", "README.md"
NAMES = (TASK, PROGRAM, TEST, README)
_LONGEST = 2**24
"""Bytes of a file of a bundle."""
_MOST_ADDED = 20
"""Files that are named although they are none of a bundle."""


class NotRight(Exception):
    """The program does not pass, so that there is nothing to bundle; the message is its verdict."""


def make(task: Any, text: str, folder: Path, origin: Origin, dtype: FloatType, language: str | None) -> BundleOutput:
    """Writes the bundle of a program; files of an earlier one are replaced.

    Raises:
        NotRight: The program does not pass.
        UsageError: The task's code fails, or the folder can't be written.
    """
    program = annotated(task, text) if language is None else text
    texts = {TASK: task.without_impl().statement.rstrip("\n") + "\n", PROGRAM: program.rstrip("\n") + "\n"}
    with tempfile.TemporaryDirectory() as scratch:
        for name, content in texts.items():
            write_text(Path(scratch, name), content)
        found = _Found(Path(scratch), task.name, dtype, language)
        if not found.verdict.passed:
            raise NotRight(found.verdict.feedback)
        if found.test is not None:
            texts[TEST] = found.test
        made = Bundle(
            task=task.name,
            language=language or DEFAULT,
            license=getattr(task, "license", None),
            made_by={"adaptive-step": code_version(), **versions()},
            origin=origin,
            dtype=dtype,
            verdict=found.verdict,
            held_out=found.held_out(0),
            cost=found.cost,
            files=(),
        )
    texts[README] = readme(made)
    for name, content in texts.items():
        write_text(folder / name, content)
    # Of what is written, which has no secrets and nothing that would not be seen.
    files = tuple(BundledFile(name=name, sha256=_digest(read_bytes(folder / name, _LONGEST))) for name in texts)
    made = made.model_copy(update={"files": files})
    write_text(folder / MANIFEST, made.model_dump_json(indent=2) + "\n")
    digest = _digest(read_bytes(folder / MANIFEST, _LONGEST))
    return BundleOutput(folder=shown(folder), sha256=digest, passed=True, bundle=made)


def check(folder: Path) -> BundleOutput:
    """Checks all that a bundle says, and which of its files have changed.

    Raises:
        UsageError: The folder has no bundle.
    """
    path = folder / MANIFEST
    with file_errors(f"{path}: cannot read the bundle"):
        content = read_bytes(path, _LONGEST)
    try:
        bundle = Bundle.model_validate_json(content)
    except ValidationError as error:
        raise UsageError(f"{path}: expected what pipeline.bundle writes: {first_mistake(error)}") from None
    # Read once: what is compared is what is verified.
    texts, checks = dict[str, bytes](), list[BundleCheck]()
    for file in bundle.files:
        checks.append(_read(folder, file, texts))
    checks += _added(folder, bundle)
    if {TASK, PROGRAM} <= texts.keys():
        with tempfile.TemporaryDirectory() as scratch:
            for name in (TASK, PROGRAM):
                write_bytes(Path(scratch, name), texts[name])
            checks += _claims(Path(scratch), bundle, texts)
    passed = all(each.holds for each in checks)
    return BundleOutput(
        folder=shown(folder), sha256=_digest(content), passed=passed, checks=tuple(checks), bundle=bundle
    )


def _read(folder: Path, file: BundledFile, texts: dict[str, bytes]) -> BundleCheck:
    """Reads a file of a bundle into `texts`, and compares its digest with the bundle's."""
    name = visible(file.name, line=True)
    if file.name not in NAMES:
        return BundleCheck(what=name, holds=False, message="not a file of a bundle")
    try:
        texts[file.name] = read_bytes(folder / file.name, _LONGEST)
    except OSError as error:
        return BundleCheck(what=name, holds=False, message=f"cannot be read: {error.strerror}")
    held = _digest(texts[file.name]) == file.sha256
    return BundleCheck(what=name, holds=held, message="" if held else "changed since the bundle was made")


def _added(folder: Path, bundle: Bundle) -> Iterator[BundleCheck]:
    """The files that the bundle does not name, which are none of it."""
    known = {MANIFEST, *(file.name for file in bundle.files)}
    added = sorted(path.name for path in folder.iterdir() if path.name not in known)
    for name in added[:_MOST_ADDED]:
        yield BundleCheck(what=visible(name, line=True), holds=False, message="added since; not checked")
    if len(added) > _MOST_ADDED:
        yield BundleCheck(what=f"{len(added) - _MOST_ADDED:,} more files", holds=False, message="added since")


def _claims(folder: Path, bundle: Bundle, texts: Mapping[str, bytes]) -> Iterator[BundleCheck]:
    """What the bundle says of its program, against what is found now."""
    language = None if bundle.language == DEFAULT else bundle.language
    found = _Found(folder, bundle.task, bundle.dtype, language)
    yield _same("verdict", _verdict_line(bundle.verdict), _verdict_line(found.verdict))
    yield _same("proof", _exact_line(bundle.verdict), _exact_line(found.verdict))
    if not found.verdict.passed:
        return
    if bundle.held_out is not None:
        again = found.held_out(bundle.held_out.seed)
        yield _same("held out", bundle.held_out.answer, again.answer if again else "not judged")
    yield _same("cost", bundle.cost, found.cost)
    if TEST in texts or found.test is not None:
        yield _same("tests", found.test, _text(texts.get(TEST)), "the script differs from the script of its program")
    yield _same("page", readme(bundle), _text(texts.get(README)), "the page differs from bundle.json")
    own = {"adaptive-step": code_version(), **versions()}
    made = {name: version for name, version in bundle.made_by.items() if own.get(name) != version}
    differ = [f"{name} {version}, here {own.get(name)}" for name, version in made.items()]
    yield BundleCheck(what="versions", holds=True, message=f"made with {'; '.join(differ)}" if differ else "")


def _same(what: str, stated: object, found: object, message: str | None = None) -> BundleCheck:
    holds = stated == found
    return BundleCheck(what=what, holds=holds, message="" if holds else message or f"stated {stated}, found {found}")


class _Found:
    """What is found of the task and the program in a folder."""

    def __init__(self, folder: Path, task: str, dtype: FloatType, language: str | None) -> None:
        self._language = language
        self._dtype = dtype
        self._item = Item(folder / TASK, str(folder / PROGRAM))
        how = Request(dtype=dtype, limits=ProgramLimits(), stress=True, exact=language is None, language=language)
        found = run_single(Batch(how), self._item, None)
        feedback = found.feedback.replace(str(folder / PROGRAM), PROGRAM)
        self.verdict = _located(found, task).model_copy(update={"feedback": feedback})
        self._task = load_task_named(str(self._item.task), language)

    @property
    def cost(self) -> Mapping[str, Any] | None:
        """The cost of the program on the default chip."""
        if self._language is not None:
            return None
        figures = {**cost_of(self._item)[1], "program": PROGRAM}
        found: dict[str, Any] = json.loads(json.dumps(figures))
        return found

    @property
    def test(self) -> str | None:
        """The generated script."""
        if self._language is not None:
            return None
        return pytest_script(self._task, str(self._item.text), self._dtype)

    def held_out(self, seed: int) -> HeldOutFinding | None:
        """The verdict on the program at sizes and inputs drawn from a seed."""
        judge = holding_out(LocalWorkers(1), seed, self._language)
        claim = dspy.Example(task=self._task), {"impl": self._item.text}
        verdict = judge([claim], [])[0] if judge else None
        if verdict is None:
            return None
        sizes = tuple(map(str, verdict.details.get("sizes", ())))
        return HeldOutFinding(seed=seed, answer=verdict.answer, reason=verdict.reason, sizes=sizes)


def _located(verdict: ProgramVerdict, task: str) -> ProgramVerdict:
    """The verdict with the bundle's own names, wherever its folder is."""

    def named(finding: Finding) -> Finding:
        return finding.model_copy(update={"file": finding.file and Path(finding.file).name})

    own: dict[str, Any] = {"task": task, "task_file": TASK, "program": PROGRAM, "seconds": 0.0}
    own |= {name: tuple(map(named, getattr(verdict, name))) for name in ("diagnostics", "warnings")}
    return verdict.model_copy(update=own)


def _verdict_line(verdict: ProgramVerdict) -> str:
    if verdict.passed:
        codes = ", ".join(sorted({each.code for each in verdict.warnings}))
        return f"passed, with warnings {codes}" if codes else "passed"
    codes = ", ".join(dict.fromkeys(each.code for each in verdict.diagnostics))
    return f"{'unknown' if verdict.unknown else 'failed'}: {verdict.stage}: {codes}"


def _exact_line(verdict: ProgramVerdict) -> str:
    exact = verdict.exact
    return "none" if exact is None else f"{exact.answer} at {'; '.join(exact.sizes)}"


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="replace")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def readme(bundle: Bundle) -> str:
    """The page for a reviewer."""
    exact, origin = bundle.verdict.exact, bundle.origin
    written = [
        ("person who answers for it", origin.person or "not stated"),
        ("written by", origin.lm or "a person, or not stated"),
        ("run", origin.run_id),
        ("seed", origin.seed),
        ("iteration, temperature, sample", _sample(origin)),
        ("prompt, SHA-256", origin.prompt_sha256),
        ("simplified since", None if origin.simplified is None else "yes" if origin.simplified else "no"),
        ("licence", bundle.license or "not stated in the task"),
    ]
    judged: list[tuple[str, Any]] = [
        ("verdict", _verdict_line(bundle.verdict)),
        ("proof", "not offered by the language" if exact is None else f"{exact.answer}: {exact.reason}"),
        ("error of the proof", f"2^-{exact.bits}" if exact is not None and exact.answer == "proved" else None),
    ]
    if bundle.held_out is not None:
        held = bundle.held_out
        judged.append(("at held-out sizes", f"{held.answer} at {'; '.join(held.sizes)}, seed {held.seed}"))
        judged += [("why", held.reason)] if held.reason else []
    lines = [
        f"# {visible(bundle.task, line=True)}",
        "",
        f"`{PROGRAM}` implements the operator that `{TASK}` defines by its reference. The verifier has found:",
        "",
        *_table(judged),
        "",
        "Check all of it again, offline, in under a minute:",
        "",
        "```sh",
        "python -m pipeline.bundle --check .",
        "```",
        "",
        "## Where it comes from",
        "",
        "This is stated by who made the bundle, and not verified.",
        "",
        *_table(written),
        "",
        f"Made with {', '.join(f'{name} {version}' for name, version in bundle.made_by.items())}.",
        f"`{MANIFEST}` has all of this as data, with warnings, cost and the digest of each file.",
    ]
    return "\n".join(lines) + "\n"


def _sample(origin: Origin) -> str | None:
    if origin.iteration is None:
        return None
    return f"{origin.iteration}, {origin.temperature}, {origin.sample}"


def _table(rows: list[tuple[str, Any]]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for name, value in rows:
        if value is not None:
            yield f"| {name} | {visible(str(value), line=True).replace('|', '&#124;')} |"


def lines(output: BundleOutput, say: Callable[[str], None]) -> None:
    """Says what was made, or what holds."""
    for each in output.checks:
        message = f": {each.message}" if each.message else ""
        say(f"{'holds  ' if each.holds else 'DIFFERS'}  {each.what}{message}")
    if output.checks:
        say("")
    verdict = "all of it holds" if output.passed else "not all of it holds"
    say(f"{output.folder}: {verdict if output.checks else 'written'}")
    say(f"{MANIFEST}, SHA-256: {output.sha256}")
