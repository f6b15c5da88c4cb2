"""A library holds these: it finds what computes the same, in the names of the task that asks, and verifies it."""

from pathlib import Path

from pipeline.splitting.library import MOST_TRIED, Library, in_names_of, task_key
from pipeline.synthesis import SearchBudget
from pipeline.synthesis.parallel_search import search_pool
from pipeline.verification.workers import LocalWorkers
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import SolvedTask, Task
from tests.pipeline.splitting.layers import layer

PROGRAM = """\
a, b = step.Copy().apply(x)
n = step.Map(fn=fn_scale).apply((a, step.Map(fn=fn_meansquare).apply(b)))
return step.Map(fn=fn_up).apply(n)
"""


def projection(**names: str) -> Task:
    """The layer's norm and one projection, with other names."""
    text = layer().statement
    reference = "torch.nn.functional.rms_norm(input_data['x'], (D_value,), eps=1e-5) @ input_data['Wu'].T"
    start = text.index("      - |", text.index("outputs:"))
    text = f"{text[:start]}      - {reference}\n{text[text.index('sizes:') :]}"
    for old, new in names.items():
        text = text.replace(f"'{old}'", f"'{new}'").replace(f"name: {old}\n", f"name: {new}\n")
    return loads_task(text, "projection")


def with_other_dims(task: Task) -> Task:
    """The same for `W` numbers of `V`, at other sizes."""
    text = task.statement.replace("[D]", "[W]").replace("D_value", "W_value").replace("[F]", "[V]")
    text = text.replace("[D, F]", "[W, V]").replace("  D: [6, 7]", "  W: [8, 4]").replace("  F: [3, 8]", "  V: [9, 2]")
    return loads_task(text, "other dims")


def test_names_of_inputs_functions_and_dims_do_not_count_nor_do_sizes() -> None:
    """Another reference for the same values gives the same key, and other values another."""
    one = projection()
    other = projection(x="tokens", fn_up="fn_widen")
    rewritten = loads_task(
        one.statement.replace("(D_value,), eps=1e-5) @", "(D_value,), eps=1e-5).contiguous() @"), "x"
    )
    assert task_key(one.name, one.statement) == task_key(other.name, other.statement)
    assert task_key(one.name, one.statement) == task_key(rewritten.name, rewritten.statement)
    dims = with_other_dims(one)
    assert task_key(one.name, one.statement) == task_key(dims.name, dims.statement)
    doubled = loads_task(one.statement.replace("eps=1e-5) @", "eps=1e-5) * 2 @"), "x")
    assert task_key(one.name, one.statement) != task_key(doubled.name, doubled.statement)


def test_a_program_comes_in_the_names_of_the_task_that_asks() -> None:
    other = loads_task(projection(x="tokens").statement.replace("fn_up", "fn_widen"), "other")
    found = in_names_of(other, SolvedTask(projection(), PROGRAM))
    assert found is not None and "apply(tokens)" in found and "fn_widen" in found
    assert in_names_of(other, SolvedTask(projection(), PROGRAM)) == found
    without = other.model_copy(update={"fns": [fn for fn in other.fns if fn.func_name != "fn_scale"]})
    assert in_names_of(without, SolvedTask(projection(), PROGRAM)) is None


def test_what_is_added_is_found_and_a_wrong_program_is_not_given(tmp_path: Path) -> None:
    """A kept file has the functions that its program uses alone; of a folder full of files, the first are tried."""
    library, task = Library(tmp_path / "library"), projection()
    with search_pool(LocalWorkers(1), 60) as pool:
        assert list(library.programs(task, pool)) == []
        path = library.add(SolvedTask(task, PROGRAM), pool)
        assert path is not None and "fn_gate" not in path.read_text()
        found = list(library.programs(projection(x="tokens"), pool))
        assert len(found) == library.found == 1 and "apply(tokens)" in found[0]
        assert len([*library.programs(with_other_dims(task), pool)]) == 1
        flood = [path.with_name(f"{path.stem[:16]}-{number:08}.yaml") for number in range(MOST_TRIED)]
        for each in flood:
            each.write_text("{}")
        assert list(library.programs(task, pool)) == []
        for each in flood:
            each.unlink()
        path.write_text(
            path.read_text()
            .replace("fn=fn_scale).apply((a, ", "fn=fn_scale).apply((b, ")
            .replace("apply(b)", "apply(a)")
            .replace("eps=1e-5", "eps=1e-5")
            .replace("rsqrt", "sqrt")
        )
        assert list(library.programs(task, pool)) == []


def test_what_is_like_a_solved_task_is_drafted_after_it(tmp_path: Path) -> None:
    """A task of other numbers, of which the library has no program, takes fewer candidates with its drafts."""
    library, task = Library(tmp_path / "library"), projection()
    text = with_other_dims(task).statement.replace("eps=1e-5) @", "eps=1e-5) * 2 @")
    doubled = loads_task(text.replace("torch.rsqrt(", "2 * torch.rsqrt("), "doubled")
    assert library.drafts(doubled) == []
    with search_pool(LocalWorkers(1), 60) as pool:
        library.add(SolvedTask(task, PROGRAM), pool)
        assert list(library.programs(doubled, pool)) == []
        drafts = library.drafts(doubled)
        assert len(drafts) == 1 and "fn_up" in drafts[0]
        budget = SearchBudget(60, 20_000)
        without, with_ = (pool.outcome(pool.search(doubled, budget, given)) for given in ((), drafts))
    assert without.impl and with_.impl and with_.candidates < without.candidates
