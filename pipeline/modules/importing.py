"""A module as a task: its weights, inputs and constants as streams, its graph as the reference, functions by rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx import Node
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from pipeline.base.errors import UsageError
from pipeline.base.files import DATA
from pipeline.modules.builder import Builder, Built, built, check_same, find_builder, reference_of, sizes_of
from pipeline.modules.confined import Completed, completed
from pipeline.modules.reference import Reference
from pipeline.modules.rows import Functions, Value
from pipeline.modules.symbols import Symbols, apart
from step_runtime.tasks import yaml_format
from step_runtime.tasks.includes import catalogue, read_source
from step_runtime.tasks.reader import task_in, task_name, task_text
from step_runtime.tasks.task import Task
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.loading import load_task as load_file

_NAME = "rows"
CATALOGUE = DATA / f"{_NAME}.fns.yaml"
TOLERANCE = 1e-6
"""The most by which a reference may differ from its module, relative to the largest number where that is above 1."""
_PATTERNS = (
    "torch.arange(shape[-1]).expand(shape)", "torch.zeros(shape)", "torch.ones(shape)", "torch.ones(shape).tril()",
    "torch.full(shape, -torch.inf).triu(1)", "torch.full(shape, torch.finfo(torch.float32).min).triu(1)",
)  # fmt: skip
"""Constants of a module by their values."""


@dataclass(frozen=True)
class Imported:
    """A module as a task.

    Attributes:
        text: The task file.
        task: The same, read.
        derived: Names of functions that the catalogue lacks, and that were derived from operators.
        missing: Names of lines for which there is no function.
        difference: The most by which the reference differs from the module; see `TOLERANCE`; None for a task file.
    """

    text: str
    task: Task
    derived: tuple[str, ...]
    missing: tuple[str, ...]
    difference: float | None


def load_task(source: str | Path | nn.Module | Builder, inputs: Builder | None = None, name: str | None = None) -> Task:
    """A task from a file or from a PyTorch module, ready for `verify`, `generate` and programs.

    Args:
        source: A task file's path; or a builder, a function of dims that returns a module with its inputs, as
            `python -m pipeline.task` takes it, or `FILE.py:NAME` of one, whose file is run. With `inputs`, an
            `nn.Module`, or a function of tensors.
        inputs: A function of dims that returns what the module is called with, such as
            `lambda B=(2, 4), N=(3, 5): torch.randn(B, N, 768)`: its defaults are two sizes or more for each dim.
        name: The task's name; by default that of the file or the function.

    Raises:
        TaskError: The file is no valid task, or its code fails.
        UsageError: torch.export can't follow the module, or an operator or a number of it has no place in a task; the
            message names the module's line.

    The module's weights are streams of one element, shaped as they are and with random data, so that a program is right
    for all weights; functions are instances of the catalogue, or derived where it lacks one.
    """
    if inputs is not None:
        task = import_module(_called_with(source, inputs)).task
    elif callable(source) or ".py:" in str(source):
        task = import_module(source if callable(source) else str(source)).task
    else:
        path = Path(str(source))
        task = complete(path).task if is_open(path) else load_file(path)
    return task.named(name) if name else task


def _called_with(module: Any, inputs: Builder) -> Builder:
    """A builder of a module that is there already."""

    @wraps(inputs)
    def build(**sizes: int) -> Any:
        given = inputs(**sizes)
        return (module, *given) if isinstance(given, tuple) else (module, given)

    return build


def import_module(target: str | Builder) -> Imported:
    """The task of a module that a builder returns: a function, or `FILE.py:NAME`, whose file is run.

    Raises:
        UsageError: As `load_task`.
    """
    build = find_builder(target) if isinstance(target, str) else target
    name = target if isinstance(target, str) else getattr(target, "__name__", "module")
    own = sizes_of(build, name)
    reference, streams, results, every = _exported(build, own, name)
    sets = [sizes for _, sizes in every] if _are_alike(reference, len(own)) else own
    text = _text(reference, results, sets, name)
    task = task_in(read_source(text, name, Path()), name.rpartition(":")[2])
    difference = max(_difference(task, streams, *each) for each in every)
    if difference > TOLERANCE:
        raise UsageError(f"{name}: the reference differs from the module by {difference:.1e}: give each dim more sizes")
    functions = reference.functions
    return Imported(text, task, functions.derived, tuple(sorted(functions.missing)), difference)


def _are_alike(reference: Reference, count: int) -> bool:
    """Whether dims of the reference that differ are equal at so many sets of sizes, such as 2*G and K."""
    names: dict[tuple[int, ...], str] = {}
    for value in reference.values.values():
        for axis, dim in enumerate(value.shape):
            sizes = tuple(tensor.shape[axis] for tensor in value.tensors[:count])
            if names.setdefault(sizes, dim) != dim:
                return True
    return False


_AUTO = re.compile(r"^fns: auto *$", re.MULTILINE)


def is_open(path: Path) -> bool:
    """Whether a task file leaves its functions to `complete`."""
    return _AUTO.search(task_text(path)) is not None


def complete(path: Path) -> Imported:
    """A task file whose `fns: auto` is replaced by the functions that its reference needs, as if it were a module.

    Raises:
        TaskError: It is no valid task otherwise.
        UsageError: As `load_task`; the message names the line of the task file.
    """
    found = completed(path)
    task = task_in(read_source(found.text, str(path), path.parent), task_name(path))
    return Imported(found.text, task, found.derived, found.missing, None)


def taken_apart(path: Path) -> Completed:
    """`complete`, by running the reference in this process."""
    text, name = task_text(path), task_name(path)
    text = text if re.search("^fns_from:", text, re.MULTILINE) else f"fns_from: {_NAME}\n{text}"
    bare = task_in(read_source(_AUTO.sub("fns: []", text), str(path), path.parent), name)
    if bare.parameters:
        raise UsageError(f"{path}: `fns: auto` reads no parameters: make them inputs, as functions take them")
    sets = [{dim: sizes[dim] for dim in bare.symbols() if dim in bare.used_symbols} for sizes in bare.size_sets()]

    def build(**sizes: int) -> Any:
        return reference_of(bare, path, sizes), *(
            part for part, *_ in TaskInstance(bare, sizes).sample_inputs(0).values()
        )

    reference, *_ = _exported(build, sets, str(path))
    filled = _AUTO.sub(lambda _: yaml_format.dump({"fns": reference.functions.fns}).rstrip(), text)
    functions = reference.functions
    return Completed(text=filled, derived=functions.derived, missing=tuple(sorted(functions.missing)))


def _exported(
    build: Builder, own: Sequence[Mapping[str, int]], name: str
) -> tuple[Reference, Mapping[str | int, str], list[Value], list[tuple[Built, Mapping[str, int]]]]:
    """The reference of what a builder returns, its streams and results, and what was built at each set of sizes."""
    sets, modules = [*own, apart(own)], [built(build, sizes, name) for sizes in own]
    programs = [each.exported(name) for each in modules]
    with suppress(UsageError):  # the module need not be for other sizes
        modules.append(built(build, sets[-1], name))
        programs.append(modules[-1].exported(name))
    sets, modules = sets[: len(programs)], modules[: len(programs)]
    graphs = [list(program.graph.nodes) for program in programs]
    check_same(graphs)
    reference = Reference(Symbols(sets), Functions(sets[0], catalogue(CATALOGUE)))
    streams = _bind(reference, modules, programs)
    reference.walk(graphs)
    results = [reference.whole(reference.values[each]) for each in graphs[0][-1].args[0] if isinstance(each, Node)]
    reference.settle(results)
    return reference, streams, results, [*zip(modules, sets, strict=True)]


def _bind(reference: Reference, modules: Sequence[Built], programs: Sequence[Any]) -> Mapping[str | int, str]:
    """Binds the graphs' placeholders; the streams of weights by their names, of inputs by their numbers."""
    signature, streams = programs[0].graph_signature, dict[str | int, str]()
    weights, users = signature.inputs_to_parameters | signature.inputs_to_buffers, [*signature.user_inputs]
    for node in programs[0].graph.nodes:
        if node.op != "placeholder" or not node.users:
            continue
        key: Any = weights.get(node.name)
        if node.name in users:
            key = users.index(node.name)
            tables = [weights.get(user.args[0].name) for user in node.users if "embedding" in str(user.target)]
            value = _input(reference, node.name, key, modules, next(iter(tables), None))
        elif key is not None and modules[0].tensor(key).is_floating_point():
            tensors = [each.tensor(key) for each in modules]
            positive = node.name in signature.inputs_to_buffers and all(bool((each > 0).all()) for each in tensors)
            value = reference.stream(key, tensors, "torch.rand" if positive else "torch.randn", weight=True)
        else:
            target = key or signature.inputs_to_lifted_tensor_constants[node.name]
            value = _constant(
                reference,
                target,
                [each.tensor(key) for each in modules] if key else [each.constants[target] for each in programs],
            )
        reference.values[node] = value
        streams |= {} if value.constant else {key: value.code}
    return streams


def _constant(reference: Reference, name: str, tensors: Sequence[Tensor]) -> Value:
    """A constant by its values: the same ones at all sizes, or a pattern."""
    shape = [reference.symbols.number(sizes) for sizes in zip(*(each.shape for each in tensors), strict=True)]
    alike = len({repr(each.tolist()) for each in tensors}) == 1
    for code in (f"torch.tensor({tensors[0].tolist()})",) if alike else _PATTERNS:
        own = code.replace("shape[-1]", shape[-1] if shape else "1").replace("shape", f"[{', '.join(shape)}]")
        made = reference.constant(f"({own}).to({tensors[0].dtype})")
        if all(torch.equal(one, other.to(one.dtype)) for one, other in zip(made.tensors, tensors, strict=True)):
            return made
    raise UsageError(f"{name}: a constant whose values are no pattern: expected positions or a mask; pass it as input")


def _input(reference: Reference, name: str, number: int, modules: Sequence[Built], table: str | None) -> Value:
    """The stream of an input, with its generator: the builder's, or what its numbers or an embedding tell."""
    tensors = [each.leaves[number] for each in modules]
    data, kind = modules[0].generators.get(number), tensors[0].dtype
    if data is None and kind.is_floating_point:
        low, high = min(float(each.min()) for each in tensors), max(float(each.max()) for each in tensors)
        data = "torch.randn" if low < 0 or high > 1 else "torch.ones" if low == high else "torch.rand"
    elif data is None and (kind == torch.bool or table):
        data = (
            "binary"
            if table is None
            else f"ids({reference.symbols.dim([each.tensor(table).shape[0] for each in modules])})"
        )
    elif data is None:
        raise UsageError(
            f'input {name} has integers: expected their generator in its place: ("integers(0, 9)", (B, N))'
        )
    return reference.stream(name, tensors, data)


def _text(reference: Reference, results: Sequence[Value], sets: Sequence[Mapping[str, int]], name: str) -> str:
    """The task file."""
    snippets = [*reference.snippets(results)]
    content = {
        "inputs": reference.inputs,
        "fns_from": _NAME,
        "fns": reference.functions.fns,
        "outputs": [
            {"name": f"S{number}", "dtype": "fp32", "dims": value.dims, "data_transform": [snippet]}
            for number, (value, snippet) in enumerate(zip(results, snippets, strict=True))
        ],
        "sizes": {dim: [sizes[dim] for sizes in sets] for dim in sets[0]},
    }
    text = yaml_format.dump(content)
    for each in reference.inputs:
        if each["data_gen"].endswith(".expand(shape)"):
            text = text.replace(f"- name: {each['name']}\n", f"- name: {each['name']}  # accepted: constant-input\n")
    return f"# {name}, by python -m pipeline.task\n{text}"


def _difference(task: Task, streams: Mapping[str | int, str], each: Built, sizes: Mapping[str, int]) -> float:
    """The most by which the reference differs from the module, at a set of sizes."""
    instance = TaskInstance(task, sizes)
    data = {name: parts[0] for name, parts in instance.sample_inputs(0).items()}
    weights, leaves = dict[str, Tensor](), [*each.leaves]
    for key, stream in streams.items():
        if isinstance(key, str):
            weights[key] = data[stream].reshape(each.tensor(key).shape)
        else:  # one tensor may be several inputs
            own = each.leaves[key]
            new = data[stream].reshape(own.shape).to(torch.float64 if own.is_floating_point() else own.dtype)
            leaves = [new if leaf is own else leaf for leaf in leaves]
    wide = pytree.tree_map_only(Tensor, lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, leaves)
    args, kwargs = pytree.tree_unflatten(wide, each.tree)
    with torch.no_grad(), _InFloat64():
        wanted = pytree.tree_leaves(functional_call(each.module.double(), weights, tuple(args), kwargs))
    pairs = zip(instance.reference(), (value for value in wanted if isinstance(value, Tensor)), strict=True)
    return max(_apart(one[0].reshape(other.shape), other.double()) for one, other in pairs)


def _apart(one: Tensor, other: Tensor) -> float:
    unlike = ~torch.isclose(one, other, 0, 0, equal_nan=True)
    most = max(1.0, float(other[other.isfinite()].abs().max()))
    return float((one - other)[unlike].abs().max()) / most if bool(unlike.any()) else 0.0


class _InFloat64(TorchFunctionMode):
    """What a module computes in float32 on purpose is computed in float64, as references are."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs a function of PyTorch."""
        func = Tensor.double if func is Tensor.float else func
        args, kwargs = pytree.tree_map(
            lambda each: torch.float64 if each is torch.float32 else each, (args, kwargs or {})
        )
        return func(*args, **kwargs)
