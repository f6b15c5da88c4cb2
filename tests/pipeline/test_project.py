"""The project's own files hold these.

- The constraints work on any machine, and lie inside the ranges that pyproject.toml gives.
- `--help` of every command answers without importing anything heavy, and exits 0.
- The make targets that people and CI call exist.
"""

import re
import subprocess
import sys
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import PROJECT

MODULES = sorted((PROJECT / "pipeline").glob("*.py"))
COMMANDS = [path.stem for path in MODULES if "start(NAME, main)" in path.read_text()]
HEAVY = ("dspy", "litellm", "matplotlib", "mlflow", "sympy", "torch")


def constraints() -> dict[str, str]:
    lines = (PROJECT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", pin) for pin in pins), "name==version, nothing local"
    return {canonicalize_name(name): version for name, _, version in (pin.partition("==") for pin in pins)}


def test_the_constraints_lie_in_the_ranges() -> None:
    """What was tested is what the project says it accepts; every dependency is pinned."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    pins = constraints()
    for text in [
        *project["dependencies"],
        *(text for extra in project["optional-dependencies"].values() for text in extra),
    ]:
        requirement = Requirement(text)
        if requirement.name == project["name"]:
            continue  # an extra that takes in other extras
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), text


REFUSED = [
    "compile --optimizer adaptive --selection resample",
    "compile --optimizer none --selection coverage",
    "compile --optimizer adaptive --selection savings",
    "generate none.yaml",
    "compile --optimizer adaptive --language ttlang --lm x/y --guardian gated",
    "evaluate --program none.json",
    "generate add --language ttlang",
    "verify gemm/1 --language ttlang --exact",
    "cost none.yaml",
    "optimize none.yaml",
    "bundle none.yaml -o none",
    "sweep none.yaml",
]
ENDED = f"""
import runpy, sys
for line in {[*(f"{each} --help" for each in COMMANDS), *REFUSED]}:
    command, *sys.argv[1:] = line.split()
    sys.modules.pop(f"pipeline.{{command}}", None)
    try:
        runpy.run_module(f"pipeline.{{command}}", run_name="__main__")
    except SystemExit as end:
        print(line, end.code, [name for name in {HEAVY} if name in sys.modules])
"""


def test_help_and_refusals_import_nothing_heavy() -> None:
    """They are instant, as the libraries that take seconds to load are loaded when there is work for them."""
    assert {"compile", "evaluate", "generate", "report", "ui", "verify"} <= set(COMMANDS)
    result = subprocess.run([sys.executable, "-c", ENDED], cwd=PROJECT, capture_output=True, text=True, check=True)
    lines = result.stdout.splitlines()
    for command in COMMANDS:
        assert f"{command} --help 0 []" in lines and f"usage: python -m pipeline.{command}" in result.stdout
    assert {f"{each} 2 []" for each in REFUSED} <= {*lines}
    assert len(result.stderr.splitlines()) == len(REFUSED)


def test_the_make_targets_exist() -> None:
    """`make run`, `make test` and `make lint` are what people and CI call."""
    targets = re.findall(r"^([a-z]+):", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE)
    assert {"run", "test", "lint"} <= set(targets)
    ci = (PROJECT / ".ci" / "run").read_text()
    assert "make test" in ci
    assert "make lint" in ci
