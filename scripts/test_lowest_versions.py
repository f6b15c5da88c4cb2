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

PROJECT = Path(__file__).resolve().parents[1]
CORE = (
    "tests/optimizers", "tests/signatures", "tests/step_runtime/verification/test_verify.py",
    "tests/pipeline/record/test_recorder.py", "tests/pipeline/test_compile.py", "tests/pipeline/test_report.py",
)  # fmt: skip
_LOWER_BOUND = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*>=\s*([0-9][^,;\s]*)")


def lower_bounds(project: dict[str, object]) -> list[str]:
    """The direct dependencies, those of the extras included, as `name==version`.

    Raises:
        ValueError: A dependency has no lower bound.
    """
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *(text for texts in extras.values() for text in texts)]  # type: ignore[misc, attr-defined]
    pins = []
    for text in texts:
        if text.startswith(f"{project['name']}["):
            continue
        bound = _LOWER_BOUND.match(text)
        if bound is None:
            raise ValueError(f"pyproject.toml: {text!r} has no lower bound")
        pins.append(f"{bound[1]}=={bound[2]}")
    return sorted(set(pins))


def main() -> int:
    """Installs and tests."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="lowest-"))
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pins = lower_bounds(project)
    print("\n".join(pins), flush=True)
    for command in (
        [*install, *pins],
        [*install, "--no-deps", "--editable", "."],
        [python, "-m", "pytest", "-q", "-n", "auto", *CORE],
    ):
        code = subprocess.run(command, cwd=PROJECT, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
