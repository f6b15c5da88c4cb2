"""A language of kernels: programs fill output tensors, and a task's reference in PyTorch says with what."""

from __future__ import annotations

import ast
import os
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline.languages import Diagnostic, Language, TaskError, TextTask, Verdict, fenced_blocks, read_text_task
from pipeline.tensors.allowed import AllowList, refused
from step_runtime.base.formats import FORMATS

if TYPE_CHECKING:
    from pipeline.tensors.judging import Runner, Trials

_OPTIONAL = (dict, type(None))
_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "goal": str, "inputs": dict, "outputs": dict, "sizes": list, "data": _OPTIONAL, "formats": _OPTIONAL,
    "reference": str,
}  # fmt: skip


class TensorLanguage(Language):
    """See `pipeline.languages.language` for the members that are not listed here.

    A program's last function takes a task's inputs and then its outputs, and writes the outputs.

    Attributes:
        allowed: What a program may be.
        multiple: What sizes of dims are multiples of.
        rank: The number of dims of every tensor; None for any number.
        tolerances: Relative and absolute, by format; others are those of `torch.testing.assert_close`.
        devices: Where programs can run, the default first. On another than `cpu`, they run in a process that is not
            confined, as devices are out of a cell's reach.
    """

    stages: Sequence[str] = ("parse", "static", "run", "value")
    executes = True
    holds_out = True
    allowed: AllowList
    multiple: int = 1
    rank: int | None = None
    tolerances: Mapping[str, tuple[float, float]] = {}
    devices: Sequence[str] = ("cpu",)

    @abstractmethod
    def runner(self) -> type[Runner]:
        """What runs programs, imported where they are judged."""

    @property
    def device(self) -> str:
        """The user's choice among `devices`."""
        chosen = os.environ.get("ADAPTIVE_STEP_DEVICE", "")
        return chosen if chosen in self.devices else self.devices[0]

    @property
    def confined(self) -> bool:  # type: ignore[override]
        """Whether programs run in confined cells, as they do unless the user names a device."""
        return self.device == "cpu"

    def task(self, text: str, name: str, source: str) -> TextTask:
        """A task names inputs and outputs with their dims, sets of sizes, and a reference, the body of a function.

        `data` has an expression of PyTorch for an input that is not standard normal, in which `shape` is its shape, and
        `formats` the format of a tensor that is not fp32.

        Raises:
            TaskError: It is none.
        """
        task = read_text_task(text, name, source, _KEYS)
        for wrong in self._wrong(task.content):
            raise TaskError(f"{source}:1: {wrong}")
        return task

    def extract(self, answer: str) -> str:
        """The last fenced block that imports the language or decorates; without a fence, the text from there on."""
        answer = answer.replace("\r\n", "\n")
        start = re.compile(rf"^(?:import |@)(?:{'|'.join(sorted(self.allowed.roots))})\b", re.MULTILINE)
        if fenced := fenced_blocks(answer):
            return next((each for each in reversed(fenced) if start.search(each)), fenced[-1]).strip() + "\n"
        found = start.search(answer)
        return answer[found.start() if found else 0 :].strip() + "\n"

    def check(self, task: TextTask, text: str) -> Sequence[Diagnostic]:
        """What the allow-list refuses."""
        tree, found = self.allowed.checked(text)
        if found or tree is None:
            return found
        entry = next(node for node in reversed(tree.body) if isinstance(node, ast.FunctionDef))
        wanted, given = len(task.content["inputs"]) + len(task.content["outputs"]), len(entry.args.args)
        if given == wanted:
            return ()
        message = f"expected {wanted} arguments, the inputs and then the outputs in the task's order, found {given}"
        return (refused(entry, "arguments", message),)

    def judge(self, task: TextTask, text: str, limits: Any) -> Verdict:
        """The verdict at the task's sizes, in a worker."""
        return self._trials(task).verdict(text)

    def stress(self, task: TextTask, text: str) -> Sequence[Diagnostic]:
        """What a program that passes does with inputs far from standard normal ones."""
        return self._trials(task).stress(text)

    def hold_out(self, task: TextTask, text: str, seed: int) -> Verdict:
        """The verdict at sizes and data drawn from a seed, and on stress inputs."""
        return self._trials(task).hold_out(text, seed)

    def key(self, task: TextTask | None, text: str) -> str:
        """The syntax tree up to renaming."""
        return self.allowed.key(text)

    def structures(self, task: TextTask, text: str | None) -> frozenset[str]:
        """The reference's functions, the number of inputs, and what of the language a program uses."""
        words = re.findall(r"\.(\w+)\(|(@|\*\*)", task.content["reference"])
        found = {f"ref {name or operator}" for name, operator in words}
        found.add(f"{len(task.content['inputs'])} inputs")
        return frozenset(found | (self.allowed.used(text) if text is not None else set()))

    def _trials(self, task: TextTask) -> Trials:
        from pipeline.tensors.judging import Trials

        return Trials(self, task)

    def _wrong(self, content: Mapping[str, Any]) -> Iterator[str]:
        """What is wrong with a task's content."""
        inputs, outputs = content["inputs"], content["outputs"]
        shapes = {**inputs, **outputs}
        if not inputs or not outputs or len(shapes) < len(inputs) + len(outputs):
            yield "inputs, outputs: expected names, each once, with lists of dims"
        for name, dims in shapes.items():
            ranked = isinstance(dims, list) and (self.rank is None or len(dims) == self.rank)
            if not str(name).isidentifier() or not ranked:
                yield f"{name}: expected a name with a list of {self.rank or 'its'} dims, found {dims!r}"
                return
        named = {dim for dims in shapes.values() for dim in dims if isinstance(dim, str)}
        if not content["sizes"]:
            yield "sizes: expected one set of sizes or more, such as {R: 64, C: 96}"
        for sizes in content["sizes"]:
            if not isinstance(sizes, dict) or set(sizes) != named:
                yield f"sizes: expected a size for each of {', '.join(sorted(named))}, found {sizes!r}"
            elif not all(isinstance(size, int) and size > 0 and size % self.multiple == 0 for size in sizes.values()):
                yield f"sizes: expected multiples of {self.multiple}, found {sizes!r}"
        for key, known in (("data", inputs), ("formats", shapes)):
            if unknown := (content.get(key) or {}).keys() - known.keys():
                yield f"{key}: expected names of tensors, found {', '.join(map(str, sorted(unknown, key=str)))}"
        names = [each.name for each in FORMATS.values()]
        for name, used in (content.get("formats") or {}).items():
            if used not in names:
                yield f"formats: {name}: expected one of {', '.join(names)}, found {used!r}"
