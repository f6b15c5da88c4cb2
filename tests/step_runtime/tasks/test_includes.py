"""Functions that tasks share: `fns_from` gives the task that one would write out, with errors at the file at fault."""

from pathlib import Path

import pytest

from pipeline.verification.task_files import digest, find, load_tasks, texts_of
from step_runtime import TaskError, dump_task, load_task, loads_task, verify
from tests.support.samples import MINIMAL

SUM = MINIMAL[MINIMAL.index("fns:\n") : MINIMAL.index("outputs:")]
REST = MINIMAL.replace(SUM, "")
TWICE = SUM.removeprefix("fns:\n").replace("fn_sum", "fn_twice").replace("state[0]", "2 * state[0]")
HEAD = "fns_from: shared/chip.fns.yaml"
SOLUTION = "return step.Accum(fn=fn_sum, b=1).apply(E0)"


def write(folder: Path, head: str, functions: str = SUM + TWICE, rest: str = REST) -> Path:
    (folder / "shared").mkdir(exist_ok=True)
    (folder / "shared" / "chip.fns.yaml").write_text(functions, encoding="utf-8")
    path = folder / "task.yaml"
    path.write_text(f"# about\n{head}\n{rest}", encoding="utf-8")
    return path


@pytest.mark.parametrize("head", [
    HEAD + "\nfns: [fn_sum]",
    "fns:\n# by name\n- fn_sum\n\nfns_from: shared/chip.fns.yaml",
])  # fmt: skip
def test_an_included_function_is_as_one_written_out(head: str, tmp_path: Path) -> None:
    """The task, its digest and its verdicts are the same, wherever it is saved."""
    path = write(tmp_path, head)
    task = load_task(path)
    assert task == loads_task(MINIMAL)
    assert digest([task]) == digest([loads_task(MINIMAL, "task")])
    assert loads_task(dump_task(task)) == task
    assert verify(task, SOLUTION).passed
    text = texts_of([str(path)])["task"]
    assert loads_task(text) == task
    assert "# about" in text and "fns_from" not in text


def test_changing_the_shared_file_changes_the_task(tmp_path: Path) -> None:
    """A cache that is keyed by the task's text holds no verdict of before."""
    head = HEAD + "\nfns: [fn_sum]"
    before = load_task(write(tmp_path, head)).statement
    after = load_task(write(tmp_path, head, SUM.replace("state[0] +", "state[0] -"))).statement
    assert before != after


def test_names_choose_and_mix_with_functions_written_out(tmp_path: Path) -> None:
    """In the order of the list; without `fns` the whole file is offered."""
    assert [fn.func_name for fn in load_task(write(tmp_path, HEAD)).fns] == ["fn_sum", "fn_twice"]
    mixed = HEAD + "\nfns:\n- fn_twice\n" + SUM.removeprefix("fns:\n").replace("fn_sum", "fn_own")
    assert [fn.func_name for fn in load_task(write(tmp_path, mixed)).fns] == ["fn_twice", "fn_own"]


def test_a_folder_of_tasks_may_hold_the_shared_file(tmp_path: Path) -> None:
    """It is no task."""
    path = write(tmp_path, HEAD)
    assert find(str(tmp_path)) == find(f"{tmp_path}/**/*.yaml") == [path]
    assert [task.name for task in load_tasks([str(tmp_path)])] == ["task"]


WRONG = {
    "an unknown name": ("fns: [fn_sun]\nfns_from: shared/chip.fns.yaml", SUM, "task.yaml:2: fns[0]: ", "fn_sum?"),
    "no file": ("fns_from: other.yaml", SUM, "task.yaml:2: fns_from: cannot read", "No such file"),
    "not a path": ("fns_from: [a]", SUM, "task.yaml:2: fns_from: expected the path", "['a']"),
    "a name alone": ("fns: [fn_sum]", SUM, "task.yaml:2: fns[0]: expected a function", "needs fns_from"),
    "another file": (HEAD, MINIMAL, "chip.fns.yaml:1: expected a functions file", "task.yaml:2"),
    "a duplicate": (HEAD, SUM + SUM[5:], "chip.fns.yaml:9: fns[1]: duplicate name", "fns[0]"),
    "a wrong type": (
        HEAD + "\nfns: [fn_twice]",
        SUM + TWICE.replace("output_dtype: fp32", "output_dtype: Q"),
        "chip.fns.yaml:14: fns[1].output_dtype (included at ",
        "task.yaml:3): unknown dtype 'Q'",
    ),
    "wrong code": (
        HEAD,
        SUM.replace("[state[0]", "(state[0]"),
        "chip.fns.yaml:3: fns[0].apply (included at ",
        "expected Python code",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_error_names_the_file_at_fault(name: str, tmp_path: Path) -> None:
    """A function's is in the functions file, with the place that includes it; a name's in the task."""
    head, functions, place, expected = WRONG[name]
    with pytest.raises(TaskError) as caught:
        load_task(write(tmp_path, head, functions))
    assert place in str(caught.value) and expected in str(caught.value)


def test_a_text_from_no_file_includes_nothing() -> None:
    """A request or a record that names a path on this machine is refused."""
    with pytest.raises(TaskError, match="fns_from: expected the functions in the text"):
        loads_task("fns_from: /etc/hostname\n" + REST)
