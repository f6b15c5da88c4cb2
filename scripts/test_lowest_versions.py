"""Runs a core of the tests on exactly the lowest versions that `pyproject.toml` accepts.

    python scripts/test_lowest_versions.py [FOLDER]

makes a virtual environment in FOLDER (default: a temporary one), installs each direct dependency at its lower bound
and what these need, and runs the tests that touch every dependency. The exit code is that of pip or pytest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[1]
CORE = (
    "tests/optimizers", "tests/signatures", "tests/step_runtime/verification/test_verify.py",
    "tests/pipeline/record/test_recorder.py", "tests/pipeline/test_compile.py", "tests/pipeline/test_report.py",
)  # fmt: skip
_CUDA = ("nvidia-", "triton", "cuda-")
_LOWER_BOUND = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*>=\s*([0-9][^,;\s]*)")


def lower_bounds(project: dict[str, Any]) -> list[str]:
    """The direct dependencies, those of the extras included, as `name==version`.

    Raises:
        ValueError: A dependency has no lower bound.
    """
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    pins = []
    for text in texts:
        if text.startswith(f"{project['name']}["):
            continue
        bound = _LOWER_BOUND.match(text)
        if bound is None:
            raise ValueError(f"pyproject.toml: {text!r} has no lower bound")
        pins.append(f"{bound[1]}=={bound[2]}")
    return sorted(set(pins))


def resolved(python: str, pins: list[str]) -> list[str]:
    """The pins with all that they need, as pip requirements; CUDA's libraries are left to torch's own wheels."""
    compile_ = [
        python,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--no-header",
        "--no-annotate",
        "--python",
        python,
        "-",
    ]
    listed = subprocess.run(compile_, input="\n".join(pins), capture_output=True, text=True, check=True).stdout
    return [line for line in listed.split("\n") if line and not line.startswith(_CUDA)]


def main() -> int:
    """Installs and tests."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="lowest-"))
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = lower_bounds(project)
    print("\n".join(pins), flush=True)
    subprocess.run([*install, "uv"], check=True)  # pip tries versions for an hour where uv resolves in a second
    for command in (
        [*install, "--no-deps", *resolved(python, pins)],
        [*install, "--no-deps", "--editable", "."],
        [python, "-m", "pytest", "-q", "-n", "2", *CORE],
    ):
        code = subprocess.run(command, cwd=PROJECT, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
