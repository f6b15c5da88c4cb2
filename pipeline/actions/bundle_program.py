"""`pipeline.bundle`: a program in a folder with all that a reviewer needs to trust it, made, and checked again.

    task.yaml        the task, without a program, its shared functions included
    program.step     the program, its streams' types as comments
    test_program.py  a pytest script that passes or fails as the verifier does
    README.md        what the rest says, on a page
    bundle.json      verdict, proof, held-out verdict, cost, who wrote it, and the digest of each file

The program of another language has its suffix, and no test, proof or cost.

A check makes the bundle again, from the task and the program alone and without a network, and compares all of it but
the origin: nothing else that the folder says is believed. The origin is stated, not verified: the digest of
`bundle.json`, kept elsewhere, shows whether it was changed.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import tempfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import dspy
from pydantic import ValidationError

from pipeline.actions.price_program import cost_of, pytest_script
from pipeline.actions.verify_programs import verdict_on
from pipeline.base.errors import UsageError
from pipeline.base.files import file_errors, read_bytes, write_text
from pipeline.base.outputs import MANIFEST, Bundle, Origin
from pipeline.base.text import redacted, visible
from pipeline.cli.options import Item
from pipeline.languages import registry
from pipeline.rewriting.simplification import annotated
from pipeline.running.job import code_version, versions
from pipeline.verification.held_out import holding_out
from pipeline.verification.judge import Request
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.pool import LocalWorkers
from pipeline.verification.task_files import load_task_named
from step_runtime.base.mistakes import first_mistake

TASK, TEST, README = "task.yaml", "test_program.py", "README.md"
SEED = 0
"""Of the sizes and inputs whose verdict a bundle states; a check draws others, too."""
_LONGEST = 2**24
"""Bytes of a file of a bundle."""
_MOST, _LONGEST_VALUE = 20, 200
"""Files that are named although they are none of a bundle, and characters of a value that differs."""
_ABSENT = "(absent)"


class NotRight(Exception):
    """The program does not pass, so that there is nothing to bundle; the message is its verdict."""


def write(task: Any, text: str, folder: Path, origin: Origin, language: str | None) -> str:
    """Writes the bundle of a program, and returns the digest of `bundle.json`; files of an earlier one are replaced.

    Raises:
        NotRight: The program does not pass.
        UsageError: The task's code fails, or the folder can't be written.
    """
    spoken = {} if language is None else {language: registry.version(language)}
    stated = {"task": task.name, "made_by": {"adaptive-step": code_version(), **versions(), **spoken}}
    files = _built(task, text, origin.model_copy(update=stated), language)
    for name, content in files.items():
        write_text(folder / name, content)
    return _digest(files[MANIFEST])


def check(folder: Path) -> tuple[list[str], str]:
    """The differences between a bundle and what is found of its task and its program, and its digest.

    Raises:
        UsageError: The folder has no bundle.
    """
    # Each file is read once: what is compared is what is verified.
    if not (folder / MANIFEST).exists():
        raise UsageError(f"{folder}: expected a bundle: {MANIFEST}: missing")
    manifest = _read(folder / MANIFEST)
    try:
        stated = Bundle.model_validate_json(manifest)
    except ValidationError as error:
        raise UsageError(f"{folder / MANIFEST}: expected what pipeline.bundle writes: {first_mistake(error)}") from None
    program = program_name(stated.language)
    names = (TASK, program, README, MANIFEST, *((TEST,) if stated.language is None else ()))
    files = {name: _read(folder / name) for name in names if name != MANIFEST and (folder / name).exists()}
    missing = [f"{name}: missing" for name in names if name not in (*files, MANIFEST)]
    added = sorted(visible(path.name, line=True) for path in folder.iterdir() if path.name not in names)
    added = added[:_MOST] + ([f"{len(added) - _MOST:,} more files"] if len(added) > _MOST else [])
    differences = [*missing, *(f"{name}: added since; not checked" for name in added)]
    if not {TASK, program} <= files.keys():
        raise UsageError(f"{folder}: expected a bundle: {', '.join(missing)}")
    with tempfile.TemporaryDirectory() as scratch:
        write_text(Path(scratch, TASK), files[TASK])
        task = load_task_named(str(Path(scratch, TASK)), stated.language)
    try:
        built = _built(task, files[program], stated.origin, stated.language)
    except NotRight as error:
        return [*differences, f"verdict: stated passed, found that the program does not pass\n{error}"], ""
    found = built.pop(MANIFEST)
    differences += [f"{name}: differs" for name, content in built.items() if files.get(name, "") != content]
    differences += _different("", json.loads(manifest), json.loads(found)) or (
        [f"{MANIFEST}: its values hold, but it is written in another way"] if manifest != found else []
    )
    if stated.held_out:
        again = _held_out(task, files[program], secrets.randbits(32), stated.language)["answer"]
        differences += _different("held_out of other sizes and inputs.", {"answer": "passed"}, {"answer": again})
    return differences, _digest(manifest)


def program_name(language: str | None) -> str:
    """The name of the file with the program."""
    return f"program{registry.suffix(language)}"


def _different(place: str, stated: Any, found: Any) -> list[str]:
    """The places at which two JSON values differ, each with both values."""
    if isinstance(stated, dict) and isinstance(found, dict):
        keys = ((f"{place}.{key}".removeprefix("."), key) for key in dict.fromkeys([*stated, *found]))
        parts = (_different(where, stated.get(key, _ABSENT), found.get(key, _ABSENT)) for where, key in keys)
        return [*chain(*parts)]
    if stated == found and type(stated) is type(found):
        return []
    said, is_so = (visible(json.dumps(each), line=True)[:_LONGEST_VALUE] for each in (stated, found))
    return [f"{visible(place, line=True)}: stated {said}, found {is_so}"]


def _built(task: Any, text: str, origin: Origin, language: str | None) -> dict[str, str]:
    """The files of a program's bundle by name."""
    program, is_step = program_name(language), language is None
    text = annotated(task, text) if is_step else text
    files = {TASK: task.without_impl().statement.rstrip("\n") + "\n", program: text.rstrip("\n") + "\n"}
    with tempfile.TemporaryDirectory() as scratch:
        for name, content in files.items():
            write_text(Path(scratch, name), content)
        item = Item(Path(scratch, TASK), str(Path(scratch, program)))
        asked = Request(language=language, limits=ProgramLimits(), stress=True, exact=is_step)
        found = verdict_on(asked, item)
        if not found.passed:
            raise NotRight(found.feedback.replace(f"{scratch}/", ""))
        own = {"task": origin.task, "task_file": TASK, "program": program, "seconds": 0.0}
        verdict = found.model_copy(update=own).model_dump_json()
        read, cost = load_task_named(str(item.task), language), {}
        if is_step:
            cost, files[TEST] = json.loads(json.dumps({**cost_of(item), "program": program})), pytest_script(item)
    bundle = Bundle(
        language=language,
        origin=origin,
        license=read.license if is_step else None,
        verdict=json.loads(verdict.replace(f"{scratch}/", "")),
        held_out=_held_out(read, files[program], SEED, language),
        cost=cost,
        files={},
    )
    files[README] = readme(bundle)
    # As they are written: without secrets, or anything that would not be seen.
    files = {name: visible(redacted(content)) for name, content in files.items()}
    digests = {name: _digest(content) for name, content in files.items()}
    manifest = bundle.model_copy(update={"files": digests}).model_dump_json(indent=2) + "\n"
    return {**files, MANIFEST: visible(redacted(manifest))}


def _held_out(task: Any, text: str, seed: int, language: str | None) -> dict[str, Any]:
    """The verdict on a program at sizes and inputs drawn from a seed; empty in a language that has none."""
    judge = holding_out(LocalWorkers(1), seed, language)
    if judge is None:
        return {}
    [verdict] = judge([(dspy.Example(task=task.without_impl()), {"impl": text})], [])
    if verdict is None:
        raise UsageError("the program could not be judged at held-out sizes")
    details = {name: each for name, each in verdict.details.items() if name != "seconds"}
    found: dict[str, Any] = json.loads(json.dumps({"answer": verdict.answer, "reason": verdict.reason, **details}))
    return found


def _read(path: Path) -> str:
    with file_errors(f"{path}: cannot read the bundle"):
        return read_bytes(path, _LONGEST).decode(errors="replace")


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def readme(bundle: Bundle) -> str:
    """The page for a reviewer."""
    origin, exact, held = bundle.origin, bundle.verdict["exact"], bundle.held_out
    codes = ", ".join(sorted({each["code"] for each in bundle.verdict["warnings"]}))
    written = {
        "person who answers for it": origin.person or "not stated",
        "written by": origin.lm or "a person, or not stated",
        "run": origin.run_id,
        "seed": origin.seed,
        "iteration, temperature, sample": _sample(origin),
        "prompt, SHA-256": origin.prompt_sha256,
        "simplified since": {None: None, True: "yes", False: "no"}[origin.simplified],
        "licence": bundle.license or "not stated in the task",
        "made with": ", ".join(f"{name} {version}" for name, version in origin.made_by.items()),
    }
    judged = {
        "verdict": f"passed, with warnings {codes}" if codes else "passed",
        "proof": exact and f"{exact['answer']}: {exact['reason']}",
        "prover, error": f"{exact['prover']}, 2^-{exact['bits']}" if exact and exact["answer"] == "proved" else None,
        "at held-out sizes": f"{held['answer']} at {'; '.join(held['sizes'])}" if held else None,
        "why": held.get("reason") or None,
    }
    return f"""\
# {visible(origin.task, line=True)}

`{program_name(bundle.language)}` implements the operator of `{TASK}`. The verifier has found:

{_table(judged)}

Check all of it again, offline, in under a minute:

```sh
python -m pipeline.bundle --check .
```

## Where it comes from

This is stated by who made the bundle, and not verified.

{_table(written)}

`{MANIFEST}` has all of this as data, with warnings, cost and the digest of each file.
"""


def _sample(origin: Origin) -> str | None:
    return None if origin.iteration is None else f"{origin.iteration}, {origin.temperature}, {origin.sample}"


def _table(rows: Mapping[str, Any]) -> str:
    shown = {name: visible(str(value), line=True) for name, value in rows.items() if value is not None}
    return "\n".join(["| | |", "|---|---|", *(f"| {n} | {v.replace('|', '&#124;')} |" for n, v in shown.items())])
