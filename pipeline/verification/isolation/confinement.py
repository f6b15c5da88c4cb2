"""What a cell gives up before it runs a line of a task, and what it is left: see `docs/security.md`.

A warden prepares a `Confinement` once; each cell that it forks enters it, by `landlock` for files and by `seccomp` for
all else. Neither needs privileges, and neither can be undone.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import struct
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from pipeline.base.errors import UsageError
from pipeline.base.files import CHECKOUT, DATA
from pipeline.base.languages import declared
from pipeline.base.settings import Config, OptionGroup
from pipeline.verification.isolation import landlock, processes, seccomp

Mode = Literal["auto", "require", "off"]

MOST_FILES = 1000
"""Files beside a task that its code may read."""

_PACKAGES = ("step_runtime", "signatures", "optimizers", "pipeline")
_SYSTEM = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/etc/localtime",
           "/usr/share/zoneinfo", "/sys/devices/system/cpu", "/dev/zero", "/dev/random", "/dev/urandom")  # fmt: skip
"""What the C library, and libraries that Python's packages load late, read."""
_WRITABLE = ("/dev/null",)
_VARIABLES = ("PATH", "LANG", "LANGUAGE", "TZ", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE")
_PREFIXES = ("LC_", "OMP_", "MKL_", "OPENBLAS_")
"""Variables that a cell keeps: they hold no more than the locale and numbers of threads."""

_KEPT_CAPABILITIES = 0b1111
"""Those of root that concern files alone, which Landlock decides about; without the others root is a user like any."""
_CAPGET_CAPSET = {"x86_64": (125, 126), "aarch64": (90, 91)}
_CAPABILITY_VERSION = 0x20080522
_CAPABILITY_SETS = struct.Struct("=6I")
"""The effective, permitted and inheritable capabilities, the lower half of each, and the same of the upper half."""


@dataclass(frozen=True)
class Sandbox:
    """The confinement of a pool's cells.

    Attributes:
        mode: `auto`, as far as the system can; `require`, wholly or not at all; `off`, not.
        reads: Files and folders that cells may read beyond Python and their task's own folder.
    """

    mode: Mode = "auto"
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Means:
    """The means of this system to confine a process.

    Attributes:
        landlock: The version of Landlock; 0 for none.
        seccomp: Whether system calls can be filtered.
    """

    landlock: int
    seccomp: bool

    @classmethod
    def here(cls) -> Means:
        """Those of this system."""
        return cls(landlock.version(), seccomp.available())

    def __str__(self) -> str:
        names = [f"landlock {self.landlock}"] if self.landlock else []
        return ", ".join([*names, *(["seccomp"] if self.seccomp else [])]) or "none"

    @property
    def missing(self) -> str:
        """What a task's code can do although it is to be confined; empty for nothing."""
        if sys.platform != "linux":
            return "only Linux can confine a task's code: it has your rights"
        if not self.landlock and not self.seccomp:
            return "this system has neither Landlock nor seccomp: a task's code has your rights"
        if not self.landlock:
            return "this system has no Landlock (Linux 5.13 or later): a task's code can read and write your files"
        if not self.seccomp:
            return "this system has no seccomp for this processor: a task's code can use the network"
        return ""


class Confinement:
    """The environment that all cells of a worker enter; made by the worker, whose environment it cleans."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._means = Means(0, False) if sandbox.mode == "off" else Means.here()
        self.applies = self._means != Means(0, False)
        self._complete = sandbox.mode != "require" or not self._means.missing
        self._readable = [*_opened([*_python(), *_SYSTEM, *sandbox.reads])] if self._means.landlock else []
        self._writable = [*_opened(_WRITABLE)] if self._means.landlock else []
        if self.applies:
            for name in [*os.environ]:
                if name not in _VARIABLES and not name.startswith(_PREFIXES):
                    del os.environ[name]

    def enter(self, scratch: Path | None, reads: Sequence[str]) -> None:
        """Confines this process, and all that it will start, for good.

        Args:
            scratch: The folder for temporary files.
            reads: The files of the task, and folders of which the files in sight may be read.

        Raises:
            OSError: The system refuses a part of it.
        """
        _drop_capabilities()
        if not self._complete:
            raise PermissionError(self._means.missing)
        if not self.applies:
            return
        os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = str(scratch or os.devnull)
        if self._means.landlock:
            own = [*_opened(_visible(reads))]
            writable = [*self._writable, *_opened([str(scratch)] if scratch else [])]
            landlock.restrict(self._means.landlock, [*self._readable, *own], writable)
            for folder in {*self._readable, *own, *writable}:
                folder.close()
        if self._means.seccomp:
            version = self._means.landlock
            seccomp.restrict(signals=version < landlock.SIGNALS_SINCE, truncation=version < landlock.TRUNCATION_SINCE)
        if not self._means.missing:
            processes.open_memory()


def _opened(paths: Sequence[str]) -> Iterator[landlock.Folder]:
    """Those that are there."""
    for path in dict.fromkeys(paths):
        with contextlib.suppress(OSError):
            yield landlock.Folder(path)


def _python() -> list[str]:
    """Where Python, its packages and this project are installed."""
    places = [os.path.realpath(sys.executable), f"{sys.prefix}/pyvenv.cfg"]
    places += [f"{prefix}/{name}" for prefix in (sys.prefix, sys.base_prefix) for name in ("lib", "lib64")]
    places += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    # Packages of the user's own, and of the system's; not other folders of the path, such as the current one.
    places += [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    for name in _PACKAGES:
        spec = find_spec(name)
        places += [*(spec.submodule_search_locations or ())] if spec else []
    places += _languages()
    # Packages that are installed elsewhere, as far as they were imported.
    packages = [module for name, module in [*sys.modules.items()] if "." not in name]
    places += [path for module in packages for path in getattr(module, "__path__", ()) if isinstance(path, str)]
    places += [str(DATA), *([str(CHECKOUT / "pyproject.toml")] if CHECKOUT else [])]
    kept: list[str] = []
    for path in sorted(map(os.path.abspath, places)):
        if not kept or not f"{path}/".startswith(f"{kept[-1]}/"):
            kept.append(path)
    return kept


def _languages() -> Iterator[str]:
    """Where the languages of other packages are: their metadata, by which they are found, and their modules."""
    for entry in declared().values():
        if entry.dist is not None:
            yield str(entry.dist.locate_file(""))
        with contextlib.suppress(ImportError, ValueError):
            if spec := find_spec(entry.module.partition(".")[0]):
                yield from spec.submodule_search_locations or filter(None, [spec.origin])


def _visible(reads: Sequence[str]) -> list[str]:
    """Files, and those in folders that are neither hidden nor links, which could lead anywhere."""
    found: list[str] = []
    for path in reads:
        try:
            with os.scandir(path) as entries:
                files = [e.path for e in entries if not e.name.startswith(".") and e.is_file(follow_symlinks=False)]
            found += sorted(files)[:MOST_FILES]
        except NotADirectoryError:
            found.append(path)
        except OSError:
            continue
    return found


def _drop_capabilities() -> None:
    """Leaves of root's rights those to files: what another process of root's holds is then out of reach as well."""
    if sys.platform != "linux" or (numbers := _CAPGET_CAPSET.get(os.uname().machine)) is None:
        return
    libc, header = ctypes.CDLL(None, use_errno=True), struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    sets = ctypes.create_string_buffer(_CAPABILITY_SETS.size)
    failed = libc.syscall(ctypes.c_long(numbers[0]), header, sets)
    if not failed:
        effective, permitted, *_ = _CAPABILITY_SETS.unpack(sets.raw)
        kept = _CAPABILITY_SETS.pack(effective & _KEPT_CAPABILITIES, permitted & _KEPT_CAPABILITIES, 0, 0, 0, 0)
        failed = libc.syscall(ctypes.c_long(numbers[1]), header, kept)
    if failed:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


# --- by command line or environment, for all pools of this process ----------------------------------------------------
# `ADAPTIVE_STEP_SANDBOX` is `auto`, the default, `require` or `off`; `ADAPTIVE_STEP_ALLOW_READ` names files and
# folders, separated as in PATH. The command line sets both, so that processes which the command starts do as it does.

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
