"""The confinement of cells by command line or environment, for all pools of this process.

`ADAPTIVE_STEP_SANDBOX` is `auto`, the default, `require` or `off`; `ADAPTIVE_STEP_ALLOW_READ` names files and folders,
separated as in PATH. The command line sets both, so that processes which the command starts do as it does.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pipeline.base.errors import UsageError
from pipeline.base.settings import Config, OptionGroup
from pipeline.verification.isolation.confinement import Means, Mode, Sandbox

MODE, READS = "ADAPTIVE_STEP_SANDBOX", "ADAPTIVE_STEP_ALLOW_READ"

_GROUP = OptionGroup("confinement of tasks' code (docs/security.md)")
_LOG = logging.getLogger(__name__)
_SAID = threading.Event()


def _there(text: str) -> str:
    if not Path(text).exists():
        raise ValueError(f"expected a file or folder, found none at {text}")
    return text


class SandboxOptions(Config):
    """How the code of tasks is confined."""

    sandbox: Mode | None = _GROUP.option(
        None,
        "`auto`, as far as the system allows, with a message on the rest; `require`, wholly, or the command ends;"
        f" `off`: a task's code has your rights (default: {MODE}, or auto)",
        resume="changed",
    )
    allow_read: tuple[str, ...] | None = _GROUP.option(
        None,
        "files and folders that tasks' code may read, beyond Python and the files beside a task, besides those that"
        f" {READS} names",
        "DIR",
        repeated=True,
        resume="changed",
        check=_there,
    )


def use(given: Mapping[str, Any]) -> str:
    """Applies the options given on the command line to all pools that this process makes, and those that it starts.

    Returns:
        What this system can't confine, for the user to know; empty for nothing.

    Raises:
        UsageError: The system can't confine what must be, or the environment has no known mode.
    """
    options = SandboxOptions.of(given)
    if options.sandbox is not None:
        os.environ[MODE] = options.sandbox
    if options.allow_read:
        known = os.environ.get(READS, "").split(os.pathsep)
        os.environ[READS] = os.pathsep.join(filter(None, [*known, *map(os.path.abspath, options.allow_read)]))
    _SAID.set()
    mode, missing = current().mode, Means.here().missing
    if missing and mode == "require":
        raise UsageError(f"--sandbox require: {missing}")
    return missing if mode == "auto" else ""


def applied() -> str:
    """The confinement of this machine's cells, for the record, such as `landlock 7, seccomp`, or `off`."""
    return "off" if current().mode == "off" else str(Means.here())


def required(language: str) -> Sandbox:
    """What programs of a language that runs them are confined to: wholly, whatever the command line says.

    Raises:
        UsageError: The sandbox is off, or this system can't confine them.
    """
    given = current()
    if missing := "the sandbox is off" if given.mode == "off" else Means.here().missing:
        raise UsageError(f"--language {language}: its programs run as Python, and only where confined: {missing}")
    return Sandbox("require", given.reads)


def current() -> Sandbox:
    """The mode in the environment.

    Raises:
        UsageError: It names no known mode.
    """
    given = os.environ.get(MODE) or "auto"
    mode: Mode | None = next((known for known in get_args(Mode) if known == given), None)
    if mode is None:
        raise UsageError(f"{MODE}: expected {', '.join(get_args(Mode))}, got {given!r}")
    if mode == "auto" and not _SAID.is_set() and (missing := Means.here().missing):
        _SAID.set()
        _LOG.warning("%s; see docs/security.md", missing)
    reads = filter(None, os.environ.get(READS, "").split(os.pathsep))
    return Sandbox(mode, tuple(map(os.path.abspath, reads)))
