"""Generated tasks are sound: the oracle beside each passes, and a seed gives the same files again."""

import re
from pathlib import Path

from step_runtime.tasks.reader import read_task
from step_runtime.verification.verify import verify
from tests.support import forked


def generated(folder: Path, *options: str) -> dict[str, str]:
    ran = forked.run("-m", "benchmarks.generated_tasks", *options, "-o", str(folder))
    assert ran.returncode == 0, ran.stderr
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.*"))}


def test_every_task_has_an_oracle_that_passes(tmp_path: Path) -> None:
    """All programs differ, and so do the tasks of another seed; a family's take the same primitives."""
    files = generated(tmp_path / "a", "--level", "1", "8", "--count", "3", "--seed", "1")
    assert sorted(files) == [
        f"l{level}/{number}.{kind}" for level in "18" for number in "012" for kind in ("step", "yaml")
    ]
    assert len(set(files.values())) == len(files)
    for path in sorted((tmp_path / "a").rglob("*.yaml")):
        assert verify(read_task(path), path.with_suffix(".step").read_text()).passed
    own = generated(tmp_path / "d", "--families", "2", "--count", "2")
    assert sorted(own) == [f"f0{family}/{n}.{kind}" for family in "01" for n in "01" for kind in ("step", "yaml")]
    kinds = [re.findall(r"step\.(\w+)", own[f"f0{family}/{number}.step"]) for family in "01" for number in "01"]
    assert kinds[0] == kinds[1] != kinds[2] == kinds[3]
    assert generated(tmp_path / "b", "--level", "8", "--count", "1", "--seed", "1").items() <= files.items()
    assert generated(tmp_path / "c", "--level", "1", "--count", "1", "--seed", "2")["l1/0.yaml"] != files["l1/0.yaml"]
