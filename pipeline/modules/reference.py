"""The reference of a module: a line for each operator of its graph, in which sizes are symbols.

The graphs of all sets of sizes are walked together, and each line runs at each set, in float64. A transpose is part of
the product that it is for, and reshapes that end where they began are no lines. What depends on sizes alone, such as a
causal mask, is an input with this code as its generator.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from pipeline.base.errors import UsageError
from pipeline.modules.builder import line_of
from pipeline.modules.movement import Move, has_rows, moved, natural, places_in, steps
from pipeline.modules.rows import Functions, Value
from pipeline.modules.symbols import Symbols, coded

_SAME = {"alias", "detach", "contiguous", "clone", "lift_fresh", "lift_fresh_copy", "dropout", "feature_dropout"}
_TYPED = {"to", "_to_copy", "type_as"}
_MOVES = {
    "view",
    "reshape",
    "_unsafe_view",
    "flatten",
    "unflatten",
    "unsqueeze",
    "squeeze",
    "transpose",
    "permute",
    "t",
}
_PICKS = {"slice", "select", "narrow"}
_PARTS = {"split", "split_with_sizes", "chunk", "unbind", "tensor_split"}
_PRODUCTS = {"matmul", "mm", "bmm"}
_RANDOM = {"rand", "randn", "randint", "randperm", "bernoulli", "multinomial", "normal", "rand_like", "randn_like"}
_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "bitwise_and": "&", "bitwise_or": "|", "logical_and": "&", "logical_or": "|",
    "matmul": "@", "mm": "@", "bmm": "@",
}  # fmt: skip
_FUNCTIONAL = {"silu", "gelu", "relu6", "softplus", "mish", "elu", "leaky_relu", "hardswish", "hardtanh", "glu", "pad"}
_WITH_NEW_AXES = {"unsqueeze", "stack"}
_OF_MEMORY = {"layout", "device", "pin_memory", "memory_format", "non_blocking", "copy", "padding_idx"}


class Reference:
    """The lines so far, the streams as entries of `inputs`, and the functions for both."""

    def __init__(self, symbols: Symbols, functions: Functions) -> None:
        self.symbols, self.functions = symbols, functions
        self.inputs: list[dict[str, Any]] = []
        self.values: dict[Node, Value] = {}
        self._lines: dict[str, tuple[str, set[str]]] = {}  # code and what it reads
        self._known: dict[str, Value] = {}
        self._scopes: list[dict[str, Any]] = [
            {"torch": torch, **{coded(dim): size for dim, size in sizes.items()}} for sizes in symbols.sets
        ]
        self._names = {"torch", "step", "input", "state", "ctx", "input_data", "zip", *symbols.sets[0]}

    def stream(self, name: str, tensors: Sequence[Tensor], data: str, *, weight: bool = False) -> Value:
        """An input; a weight is a single element."""
        made = self._bound(self._fresh(name), tensors, weight=weight)
        one = weight and made.shape != ()
        spec = {"dtype": made.type(len(made.shape)), "dims": [1]} if one else {"dtype": "fp32", "dims": made.dims}
        self.inputs.append({"name": made.code, **spec, "data_gen": data})
        self._lines[made.code] = f"input_data['{made.code}']" + ("[0]" if one or not made.shape else ""), set()
        return made

    def constant(self, code: str) -> Value:
        """What code of sizes alone gives."""
        tensors = [eval(code, scope) for scope in self._scopes]
        code, tensors = (
            (f"({code}).double()", [each.double() for each in tensors])
            if tensors[0].is_floating_point()
            else (code, tensors)
        )
        if all(each.numel() == 1 for each in tensors):
            code = f"torch.tensor({self.symbols.number([each.item() for each in tensors])})"
        return Value(
            code, tensors, self.symbols.shape([each.shape for each in tensors]), _kind(tensors[0]), constant=True
        )

    def line(self, name: str, code: str, operands: Sequence[Value], *, free: bool = False) -> Value:
        """Adds a line, unless one has its code; a free one needs no function."""
        if all(value.constant for value in operands):
            return self.constant(code.format(*(f"({value.code})" for value in operands)))
        every = [self._operand(value) for value in operands]
        given = [value for value in every if isinstance(value, Value)]
        slots = iter(range(len(given)))
        code = code.format(*(f"{{{next(slots)}}}" if isinstance(value, Value) else value for value in every))
        text = code.format(*(value.read(value.code) for value in given))
        if text not in self._known:
            tensors = [eval(text, scope) for scope in self._scopes]
            self._known[text] = made = self._bound(self._fresh(name), tensors)
            self._lines[made.code] = (
                (text if made.kind == "float" else f"({text}).double()"),
                {each.code for each in given},
            )
            if not free:
                self.functions.serve(made.code, code, given, made)
        return self._known[text]

    def _operand(self, value: Value) -> Value | str:
        """An operand as lines read it: with a name, or a constant's number."""
        if value.constant and all(each.numel() == 1 for each in value.tensors):
            return value.code.removeprefix("torch.tensor(").removesuffix(")")
        return self.whole(value)

    def whole(self, value: Value) -> Value:
        """A value with a name: a constant is a stream, and what moves numbers becomes lines, a transpose at most."""
        if value.constant:
            if value.code not in self._known:
                self._known[value.code] = self.stream("constant", value.tensors, f"({value.code}).expand(shape)")
            return self._known[value.code]
        if value.base is None:
            return value
        dims, order = steps(value, self.symbols)
        return self._in_shape(self._transposed(self._in_shape(value.base, dims), order), value.shape)

    def _in_shape(self, value: Value, shape: Sequence[str]) -> Value:
        if value.shape == (*shape,):
            return value
        return self.line("view", f"{{0}}.reshape([{', '.join(map(coded, shape))}])", [value], free=True)

    def _transposed(self, value: Value, order: Sequence[int]) -> Value:
        places = [place for place in range(len(order)) if order[place] != place]
        if len(places) == 2:
            first, second = (place - len(order) for place in places)
            return self.line("transpose", f"{{0}}.transpose({first}, {second})", [value])
        return self.line("permute", f"{{0}}.permute({[*order]})", [value]) if places else value

    def moved(self, value: Value, moves: Sequence[Move]) -> Value:
        """A value with its numbers moved; lines are for what needs more than one permutation."""
        made = moved(value, moves, self.symbols) or moved(self.whole(value), moves, self.symbols)
        assert made is not None, "one move is one reshape or one permutation"
        return made

    def _bound(self, name: str, tensors: Sequence[Tensor], *, weight: bool = False) -> Value:
        shape, kind = self.symbols.shape([each.shape for each in tensors]), _kind(tensors[0])
        for scope, tensor in zip(self._scopes, tensors, strict=True):
            scope[name] = tensor.double()
        return Value(name, [scope[name] for scope in self._scopes], shape, kind, weight=weight)

    def _fresh(self, name: str) -> str:
        name = re.sub(r"\W", "_", name).strip("_")
        name = name if name[0].isalpha() else f"w_{name}"
        free = next(each for each in (name, *(f"{name}_{n}" for n in range(1, 10_000))) if each not in self._names)
        self._names.add(free)
        return free

    def walk(self, graphs: Sequence[Sequence[Any]]) -> None:
        """Adds the lines of all operators.

        Raises:
            UsageError: There is none for an operator; the message names the module's line.
        """
        for nodes in zip(*graphs, strict=True):
            if nodes[0].op == "call_function":
                try:
                    self._call(nodes)
                except Exception as error:
                    reason = f"{nodes[0].target}: {type(error).__name__}: {str(error).splitlines()[0]}"
                    raise UsageError(f"{line_of(nodes[0])}: no line of a reference stands for {reason}") from error

    def _call(self, nodes: Sequence[Any]) -> None:
        node, name = nodes[0], _name(nodes[0])
        if name in _RANDOM or (name.endswith("dropout") and node.args[2:3] == (True,)):
            raise UsageError("its random numbers can be no program's; pass them as an input")
        if isinstance(node.meta.get("val"), tuple | list) or name.startswith("_assert"):
            return  # its parts are lines
        value = self.values.get(node.args[0]) if node.args and isinstance(node.args[0], Node) else None
        if name in _SAME or (name in _TYPED and value is not None and _kind(node.meta["val"]) == value.kind):
            self.values[node] = self.values[node.args[0]]
        elif name in _MOVES and value is not None and not value.constant:
            self.values[node] = self.moved(value, [_applied(each) for each in nodes])
        elif name in _PICKS and value is not None and not value.constant:
            self.values[node] = self._picked(nodes, value, [_applied(each) for each in nodes])
        elif name == "getitem":
            self.values[node] = self._part(nodes)
        elif name in _PRODUCTS and min(len(self.values[each].shape) for each in node.args) > 1:
            self.values[node] = self._product(node.name, *(self.values[each] for each in node.args))
        else:
            code, operands = self._code(nodes)
            self.values[node] = self._computed(node, code, [self.values[each] for each in operands])

    def _computed(self, node: Any, code: str, operands: Sequence[Value]) -> Value:
        """A line; one that works on each number alone, of a moved value and weights of a row, runs before it moves."""
        others = [value for value in operands if value.base is None]
        one = torch.Tag.pointwise in node.target.tags and len(others) == len(operands) - 1
        # Where an operand is spread over others, there is more to move than the value.
        one = one and node.meta["val"].shape == next(each for each in operands if each.base).tensors[0].shape
        if one and all(value.constant or (value.weight and len(value.shape) < 2) for value in others):
            before = [natural(value, self.symbols) if value.base else (value, []) for value in operands]
            made = self.line(node.name, code, [value for value, _ in before])
            return self.moved(made, next(back for _, back in before if back))
        return self.line(node.name, code, operands, free=_name(node) in ("expand", "repeat_interleave"))

    def _part(self, nodes: Sequence[Any]) -> Value:
        """A part of what an operator gives: numbers of its operand, or one of several results."""
        every, place = [node.args[0] for node in nodes], nodes[0].args[1]
        value = self.values.get(every[0].args[0])
        if _name(every[0]) in _PARTS and value is not None and not value.constant:
            return self._picked(nodes, value, [_applied(node, place) for node in every])
        code, operands = self._code(every)
        return self.line(every[0].name, f"{code}[{place}]", [self.values[each] for each in operands])

    def _picked(self, nodes: Sequence[Any], value: Value, picks: Sequence[Move]) -> Value:
        """A range along one axis of a value, or of the base that it is moved from."""
        for source in [value.base, self.whole(value)] if value.base else [value]:
            places = (value if source is value.base else source).places()
            index = [pick(each) for pick, each in zip(picks, places, strict=True)]
            for axis in range(-1, -len(source.shape) - 1, -1):
                if (found := self._range(nodes[0].name, source, index, axis)) is not None:
                    return found
        code, operands = self._code(nodes)
        return self.line(nodes[0].name, code, [self.values[each] for each in operands])

    def _range(self, name: str, source: Value, index: Sequence[Tensor], axis: int) -> Value | None:
        """The numbers of these places, if they are a range along an axis."""
        starts, lengths, places = list[int](), list[int](), list[Tensor]()
        for own, each in zip(index, source.places(), strict=True):
            length, rest = divmod(own.numel() * each.shape[axis], each.numel())
            start = int(own.min()) // each.stride(axis) % each.shape[axis]
            if (
                rest
                or start + length > each.shape[axis]
                or (to := places_in(each.narrow(axis, start, length), own)) is None
            ):
                return None
            starts, lengths, places = [*starts, start], [*lengths, length], [*places, to]
        code = f"{{0}}.narrow({axis}, {self.symbols.number(starts)}, {self.symbols.number(lengths)})"
        whole = lengths == [each.shape[axis] for each in source.tensors]
        return self.moved(
            source if whole else self.line(name, code, [source]),
            [_gathered(to) for to in places],
        )

    def _product(self, name: str, x: Value, other: Value) -> Value:
        """A product of matrices; a transpose of the second one is part of it, and a weight's rows are not moved."""
        code = "{0} @ {1}"
        if not other.constant and not has_rows(other):
            other, code = (
                self.moved(other, [lambda each: each.transpose(-1, -2)] * len(other.tensors)),
                "{0} @ {1}.transpose(-1, -2)",
            )
        if not other.weight or x.constant:
            return self.line(name, code, [x, other])
        x, back = natural(x, self.symbols)
        return self.moved(self.line(name, code, [x, other]), back)

    def _code(self, nodes: Sequence[Any]) -> tuple[str, list[Node]]:
        """The code of an operator, in whose braces operands are put, and the nodes of these."""
        node, name, operands = nodes[0], _name(nodes[0]), list[Node]()
        schema = node.target._schema.arguments
        rank = max((len(self.values[each].shape) for each in node.all_input_nodes if each in self.values), default=0)
        rank += name in _WITH_NEW_AXES

        def written(every: Sequence[Any]) -> str:
            one = every[0]
            if isinstance(one, Node):
                operands.append(one)
                return f"{{{len(operands) - 1}}}"
            if isinstance(one, list | tuple):
                return f"[{', '.join(map(written, zip(*every, strict=True)))}]"
            return self.symbols.number(every) if type(one) in (int, float) else repr(one)

        texts = list[str]()
        for place, argument in enumerate(schema):
            if place >= len(node.args) and argument.name not in node.kwargs:
                continue
            every = [each.args[place] if place < len(each.args) else each.kwargs[argument.name] for each in nodes]
            if argument.name in _OF_MEMORY or (isinstance(every[0], torch.dtype) and every[0].is_floating_point):
                continue
            if argument.name in ("dim", "dim0", "dim1") and rank:
                every = [_from_the_end(each, rank) for each in every]
            keyed = argument.kwarg_only or argument.name == "keepdim"
            texts.append(f"{argument.name}={written(every)}" if keyed else written(every))
        return _call_of(name, node, texts), operands

    def settle(self, results: Sequence[Value]) -> None:
        """Leaves out what no output needs."""
        needed = {value.code for value in results}
        for name, (_, reads) in reversed(self._lines.items()):
            needed |= reads if name in needed else set()
        self.functions.keep(needed)
        self.inputs = [each for each in self.inputs if each["name"] in needed]
        self._lines = {name: line for name, line in self._lines.items() if name in needed}

    def snippets(self, results: Sequence[Value]) -> Iterator[str]:
        """The code of each output: the lines that no earlier one has."""
        left = [*self._lines]
        for value in results:
            count = left.index(value.code) + 1 if value.code in left else 0
            lines, left = left[:count], left[count:]
            last = value.code if value.shape else f"{value.code}.reshape(1)"
            yield "".join(f"{name} = {self._lines[name][0]}\n" for name in lines) + f"{last}\n"


def _call_of(name: str, node: Any, texts: Sequence[str]) -> str:
    if name in _INFIX and len(texts) == 2:
        return f"{texts[0]} {_INFIX[name]} {texts[1]}"
    if name in ("neg", "bitwise_not", "logical_not", "rsub") and len(texts) < 3:
        return f"{texts[1]} - {texts[0]}" if name == "rsub" else f"{'-' if name == 'neg' else '~'}{texts[0]}"
    if name in _TYPED:
        return {"bool": f"{texts[0]} != 0", "int": f"{texts[0]}.long()"}.get(
            _kind(node.meta["val"]), f"{texts[0]}.double()"
        )
    if name not in _FUNCTIONAL and not hasattr(torch, name) and hasattr(Tensor, name):
        return f"{texts[0]}.{name}({', '.join(texts[1:])})"
    home = "torch.nn.functional" if name in _FUNCTIONAL else "torch"
    return (
        f"{home}.{name}({', '.join(texts)})"
        if hasattr(eval(home), name)
        else f"torch.ops.{node.target}({', '.join(texts)})"
    )


def _applied(node: Any, place: int | None = None) -> Move:
    """What a node does to the numbers of its first operand, or a part of that."""

    def move(each: Tensor) -> Any:
        found = node.target(each.contiguous(), *node.args[1:], **node.kwargs)
        return found if place is None else found[place]

    return move


def _gathered(places: Tensor) -> Move:
    return lambda each: each.reshape(-1)[places]


def _name(node: Any) -> str:
    return str(node.target.__name__).partition(".")[0]


def _from_the_end(value: Any, rank: int) -> Any:
    if isinstance(value, list | tuple):
        return [_from_the_end(each, rank) for each in value]
    return value - rank if isinstance(value, int) and value >= 0 else value


def _kind(tensor: Tensor) -> str:
    return "bool" if tensor.dtype == torch.bool else "float" if tensor.is_floating_point() else "int"
