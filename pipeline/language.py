"""`python -m pipeline.language new | check | skill NAME`: a language of one's own, from a skeleton to a report.

`new` writes a package with a language that works; `check` tries what the commands rely on, with the language's own
tasks and programs.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pipeline.base.errors import Exit, UsageError, require, start
from pipeline.base.files import DATA, file_errors, shown, writable_file, write_text
from pipeline.base.languages import declared
from pipeline.base.settings import Config, Positive, option
from pipeline.cli.options import Parser, output_option
from pipeline.verification.isolation.confinement import SandboxOptions

NAME = "pipeline.language"
EPILOG = """\
examples:
  python -m pipeline.language new mine              # writes ./mine-language
  python -m pipeline.language new mine --tensors    # a language whose programs run, and fill tensors
  pip install -e mine-language
  python -m pipeline.language check mine --junit report.xml
  python -m pipeline.language skill mine > .claude/skills/mine/SKILL.md

docs/languages.md leads from a skeleton to a report without faults.

exit codes: 0 the files are written, or every case holds, 1 something is broken, 2 a bad option or file"""


TEMPLATES = DATA / "language-templates"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class LanguageOptions(Config):
    """The action and the language."""

    action: Literal["new", "check", "skill"] = option(
        ...,
        "`new`, write a skeleton; `check`, report whether a language keeps its contract; `skill`, print it as an Agent"
        " Skill",
        positional=True,
    )
    name: str = option(..., "the language's name: lower-case letters, digits and hyphens", "NAME", positional=True)
    tensors: bool = option(
        False, "with `new`, a language whose programs run as Python and fill tensors, such as one of kernels"
    )
    output: str | None = output_option("with `new`, the folder to write (default: NAME-language)", "DIR", None)
    seconds: Positive = option(10.0, "with `check`, processor time of a verdict", "SECONDS")
    junit: str | None = option(None, "with `check`, also write JUnit XML", "FILE", check=writable_file)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the skeleton or the report."""
    parser = Parser(NAME, "Starts a language of your own, and checks its contract with the commands.", EPILOG,
                    LanguageOptions, SandboxOptions)  # fmt: skip
    options = LanguageOptions.of(parser.given(argv))
    if options.action == "new":
        return _new(options)

    require("torch", "mlflow")
    if options.action == "skill":
        from pipeline.actions.skill import skill
        from pipeline.languages import registry

        print(skill(registry.find(options.name)))
        return Exit.OK
    try:
        import pytest
    except ModuleNotFoundError:
        raise UsageError("`check` runs pytest, which is not installed: pip install pytest") from None
    from pipeline.actions.conformance import Kit, Subject

    subject = Subject.of(options.name, options.seconds)
    report = [] if options.junit is None else [f"--junit-xml={options.junit}"]
    quiet = ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(Path.cwd()), "--tb=line", "-v"]
    ended = pytest.main([*quiet, *report, "--pyargs", Kit.__module__], plugins=[Kit(subject)])
    return Exit.OK if ended == pytest.ExitCode.OK else Exit.NO


def _new(options: LanguageOptions) -> int:
    """Writes the skeleton of a language: a package that works, to be changed into another."""
    name, folder = options.name, Path(options.output or f"{options.name}-language")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a language; expected lower-case letters, digits and single hyphens")
    if name in declared():
        raise UsageError(f"there is a language {name!r} already; choose another name")
    module = f"{name.replace('-', '_')}_language"
    with file_errors(f"-o: can't write {shown(folder)}"):
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"-o: {shown(folder)} is not empty; name another folder")
        template = TEMPLATES / ("tensors" if options.tensors else "texts")
        for source in sorted(path for path in template.rglob("*") if path.is_file()):
            parts = source.relative_to(template).parts
            if "__pycache__" in parts:  # pip's, of the template as it is installed
                continue
            place = folder.joinpath(*(module if part == "MODULE" else part for part in parts))
            text = source.read_text(encoding="utf-8")
            write_text(place, text.replace("MODULE", module).replace("NAME", name))
            print(shown(place))
    print(f"\nnext: pip install -e {shown(folder)} && python -m {NAME} check {name}")
    return Exit.OK


if __name__ == "__main__":
    start(NAME, main)
