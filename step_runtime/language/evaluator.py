"""Walks a program's statements and returns the dataflow graph: this defines the whole language.

Expressions have static values, and add the primitives that they apply to the graph. A statement or an expression that
has no case here is a diagnostic. Every sequence has a known length, so every program ends; the numbers of steps and
primitives and the size of ints are bounded nevertheless.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from functools import partial, reduce
from operator import add, eq, floordiv, mul, sub
from typing import Any

import sympy

from step_runtime.base.errors import Diagnostic, RuleError, Span, Stage, quantity
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import try_evaluate
from step_runtime.base.sized import Condition, Form, Sized, form_of, is_size, names_in, unfollowed
from step_runtime.base.syntax import BUILTINS
from step_runtime.base.types import combine
from step_runtime.language import hints
from step_runtime.language.static_values import (
    LARGEST_INT,
    SEQUENCE_BUILTINS,
    UNKNOWN,
    Items,
    StreamRef,
    carries,
    integer,
    is_sized,
    is_unknown,
    kind,
    length,
    too_large,
)
from step_runtime.primitives import PRIMITIVES, Copy, Partition, Primitive
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.program.limits import Limits
from step_runtime.tasks.scope import Scope

DIM_STEPS = 500
"""Steps that arithmetic on dims counts for: it takes milliseconds, other steps take microseconds."""

WORDS = frozenset({"apply", "append", *PRIMITIVES, *(key for op in PRIMITIVES.values() for key in op.config_names())})
"""Attributes and keywords of the language."""
_FORMS = (
    ast.Assign, ast.Expr, ast.Return, ast.Name, ast.Tuple, ast.List, ast.Starred, ast.ListComp, ast.Subscript,
    ast.Slice, ast.BinOp, ast.UnaryOp, ast.Call, ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip

MOST_DIMS = 100
"""The longest list of dim indices."""

_STEP = object()
"""The meaning of the name `step`, which is not a value of the language."""


MAX_REPORTS = 100
"""Reports after which a walk ends, repeated ones included: a loop may meet one mistake many times."""


class WalkEnded(Exception):
    """Ends the walk: the program has returned, or a limit was reached."""


class InvalidCode(Exception):
    """An expression or statement is outside the language; its diagnostic is already recorded."""


class DiagnosticCollector:
    """The diagnostics of one text, given by its lines, from which so many columns were removed."""

    def __init__(self, lines: Sequence[str], indent: int) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._lines, self._indent, self._count = lines, indent, 0

    def span(self, node: ast.AST) -> Span:
        """The place of a node, in characters of the program's own text."""
        # Statements and expressions have all four; nothing else is passed here.
        line, end_line = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start = self._column(line, node.col_offset)  # type: ignore[attr-defined]
        return Span(line, start, end_line, self._column(end_line, node.end_col_offset))  # type: ignore[attr-defined]

    def _column(self, line: int, offset: int) -> int:
        """The 1-based column in characters; the tree counts bytes from the common indentation."""
        text = self._lines[line - 1]
        if not text.isascii():
            offset = len(text.encode()[:offset].decode(errors="ignore"))
        return offset + self._indent + 1

    def report(
        self, code: str, message: str, where: ast.AST | None, hint: str | None = None, stage: Stage = "parse"
    ) -> None:
        """Records a finding at a node of the tree, once."""
        span = None if where is None else self.span(where)
        self._add(Diagnostic(stage, code, message, span, hint=hint))

    def invalid(self, code: str, message: str, where: ast.AST, hint: str | None = None) -> InvalidCode:
        """Records a finding and returns the exception that ends its statement."""
        self.report(code, message, where, hint)
        return InvalidCode()

    def rule_broken(self, error: RuleError, where: ast.AST) -> None:
        """Records a rule that a primitive's configuration or argument breaks."""
        self._add(Diagnostic.of("type", error, self.span(where)))

    def limit_reached(self, code: str, message: str, where: ast.AST) -> WalkEnded:
        """Records a limit that the program exceeds and returns the exception that ends the walk."""
        self.report(code, message, where, stage="limits")
        return WalkEnded()

    def _add(self, finding: Diagnostic) -> None:
        self._count += 1
        if finding not in self.diagnostics:
            self.diagnostics.append(finding)
        if self._count >= MAX_REPORTS:
            raise WalkEnded


class Evaluator:
    """One walk over one program in one scope; `nodes` and `names` of the graph so far."""

    def __init__(self, scope: Scope, limits: Limits, collector: DiagnosticCollector) -> None:
        self.scope = scope
        self.limits = limits
        self.collector = collector
        self.nodes: list[Node] = []
        self.names: dict[StreamId, str] = {}
        self.conditions: list[Condition] = []
        self.inputs = {name: StreamRef(index) for index, name in enumerate(scope.inputs)}
        self.env: dict[str, Any] = {"step": _STEP, **scope.lists, **scope.fns, **scope.dims}
        self.env |= {f"{name}_value": Sized.of(size, name) for name, size in scope.sizes.items() if name in scope.dims}
        self.env |= self.inputs
        self.bound: frozenset[str] = frozenset()
        self._streams = len(scope.inputs)
        self._steps = 0
        self.turns: Form = 0
        self._results: tuple[StreamId, ...] = ()
        self._result_span: Span | None = None

    def value(self, node: ast.expr) -> Any:
        """The value of an expression, or `UNKNOWN` if a part of it is unknown."""
        self.spend(node)
        match node:
            case ast.Name(id=name):
                return self._name(node, name)
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return self._bounded(number, node)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = self._elements(parts)
                return tuple(values) if isinstance(node, ast.Tuple) else values
            case ast.ListComp(elt=element, generators=generators):
                return self._comprehension(element, generators)
            case ast.Subscript():
                return self._subscript(node)
            case ast.BinOp():
                return self._arithmetic(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return integer(ast.Sub(), 0, self._index(operand))
            case ast.Call():
                return self._call(node)
        raise self.collector.invalid("expression", *_at(node, hints.expression(node)))

    def sequence(self, node: ast.expr) -> list[Any]:
        """The items of a static sequence."""
        value = self.value(node)
        if value is UNKNOWN:
            raise InvalidCode
        if not isinstance(value, list | tuple):
            message = f"expected a list or tuple, found {kind(value)}"
            raise self.collector.invalid("sequence", message, node, hints.not_a_sequence(value))
        self.spend(node, len(value))
        return Items(value, length(value))

    def assign(self, target: ast.expr, value: Any) -> None:
        """Binds a name, or unpacks into several."""
        self.spend(target)
        match target:
            case ast.Name(id=name):
                self.env[name] = value
                self._remember(name, value, target)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                self._unpack(target, parts, value)
            case ast.Starred(value=inner):
                self.assign(inner, value)
            case _:
                raise self.collector.invalid("assign", *_at(target, hints.target(target)))

    def spend(self, where: ast.AST, steps: int = 1) -> None:
        """Counts steps of the walk."""
        self._steps += steps
        if self._steps > self.limits.steps:
            message = f"the program takes {self._steps:,} steps or more to unroll; {self.limits.stated('steps')}"
            raise self.collector.limit_reached("steps", message, where)

    def is_unknown(self, value: Any, where: ast.AST) -> bool:
        """Whether a value is unknown, or holds something unknown."""
        return is_unknown(value, lambda steps: self.spend(where, steps))

    def unread(self, where: ast.AST, *nodes: ast.AST) -> None:
        """Refuses foreign syntax in a loop over nothing, to which no walk comes: a program carries no other code."""
        for node in nodes:
            self.spend(where)
            match node:
                case _ if is_text(node):
                    continue
                case ast.Name(id=name, ctx=ast.Load()):
                    known = name in self.env or name in self.bound or name in BUILTINS
                case ast.Attribute(attr=word) | ast.keyword(arg=word):
                    known = word in WORDS
                case ast.Constant(value=value):
                    known = type(value) is int
                case ast.For(orelse=others) | ast.comprehension(ifs=others):
                    known = not others
                case _:
                    known = isinstance(node, _FORMS)
            if not known:
                message = "a loop over nothing holds code outside the language"
                raise self.collector.invalid("unread", message, where, "leave the loop out")
            self.unread(where, *ast.iter_child_nodes(node))

    # --- names, sequences, subscripts ---

    def _name(self, node: ast.expr, name: str) -> Any:
        value = self.env.get(name, _STEP)
        if value is not _STEP:
            return value
        raise self.collector.invalid("name", *_at(node, hints.unknown_name(name, self.env)))

    def _remember(self, name: str, value: Any, where: ast.AST) -> None:
        """Reports call a stream by the first name that it gets."""
        if isinstance(value, StreamRef) and value.id >= len(self.inputs):
            self.names.setdefault(value.id, name)
        elif isinstance(value, list | tuple):
            self.spend(where, len(value))
            for index, part in enumerate(value):
                if isinstance(part, StreamRef):
                    self._remember(f"{name}[{index}]", part, where)

    def _unpack(self, target: ast.expr, parts: Sequence[ast.expr], value: Any) -> None:
        if value is UNKNOWN:
            for part in parts:
                self.assign(part, UNKNOWN)
            return
        if not isinstance(value, list | tuple):
            message = f"{kind(value)} cannot be unpacked into {quantity(len(parts), 'name')}"
            raise self.collector.invalid("unpack", message, target, hints.NOT_UNPACKED)
        starred = [index for index, part in enumerate(parts) if isinstance(part, ast.Starred)]
        if len(value) < len(parts) - len(starred) or (not starred and len(value) != len(parts)):
            message = f"{quantity(len(value), 'value')} cannot be unpacked into {quantity(len(parts), 'name')}"
            hint = f"write {quantity(len(value), 'name')}, one per value" if value else None
            raise self.collector.invalid("unpack", message, target, hint)
        self.spend(target, len(value))
        self.counted(length(value), len(value))
        if starred:
            first, after = starred[0], len(parts) - 1 - starred[0]
            end = len(value) - after
            value = [*value[:first], list(value[first:end]), *value[end:]]
        for part, item in zip(parts, value, strict=True):
            self.assign(part, item)

    def _elements(self, parts: Sequence[ast.expr]) -> list[Any]:
        values: list[Any] = []
        count: Form = 0
        for part in parts:
            items = self.sequence(part.value) if isinstance(part, ast.Starred) else [self.value(part)]
            values += items
            count = (add, count, length(items)) if is_sized(items) or names_in(count) else len(values)
        return Items(values, count)

    def _comprehension(self, element: ast.expr, generators: Sequence[ast.comprehension]) -> list[Any]:
        targets = [node for generator in generators for node in ast.walk(generator.target)]
        self.spend(element, len(targets))
        names = {node.id for node in targets if isinstance(node, ast.Name)}
        outer = {name: self.env[name] for name in names if name in self.env}
        try:
            return self._generate(element, generators)
        finally:
            for name in names:
                self.env.pop(name, None)
            self.env |= outer

    def _generate(self, element: ast.expr, generators: Sequence[ast.comprehension]) -> list[Any]:
        if not generators:
            return [self.value(element)]
        first, *others = generators
        if first.ifs or first.is_async:
            where = first.ifs[0] if first.ifs else first.target
            hint = "pick the elements by index or slice, e.g. E2[:2]"
            raise self.collector.invalid("comprehension", "a comprehension cannot have a condition", where, hint)
        items = self.sequence(first.iter)
        values = Items(extent=length(items) if not others else unfollowed(length(items)))
        if not items:
            self.unread(first.target, first.target, *others, element)
        for item in items:
            self.assign(first.target, item)
            values.extend(self._generate(element, others))
        return values

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self.value(node.value)
        if value is UNKNOWN:
            return UNKNOWN
        if not isinstance(value, list | tuple):
            hint = hints.NOT_INDEXED if isinstance(value, StreamRef) else None
            raise self.collector.invalid("subscript", f"{kind(value)} cannot be indexed", node, hint)
        if isinstance(node.slice, ast.Slice):
            self.spend(node, len(value))
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            bounds = [None if part is None else self._index(part) for part in parts]
            if bounds[2] == 0:
                raise self.collector.invalid("subscript", "a slice's step cannot be 0", node)
            for bound in bounds:
                self._placed(bound, value)
            found = value[slice(*bounds)]
            forms = [length(value), *(form_of(bound) for bound in bounds if bound is not None)]
            lost = next((unfollowed(form) for form in forms if names_in(form)), None)
            return Items(found, lost) if isinstance(found, list) or lost else found
        index = self._index(node.slice)
        self._placed(index, value)
        if not -len(value) <= index < len(value):
            message = f"index {index} is out of range for {kind(value)}"
            raise self.collector.invalid("subscript", message, node, "indices count from 0")
        return value[index]

    def _index(self, node: ast.expr) -> int:
        value = self.value(node)
        if value is UNKNOWN:
            raise InvalidCode
        if isinstance(value, int):
            return value
        message = f"expected an int, found {kind(value)}"
        hint = f"write its size: {value}_value" if isinstance(value, sympy.Symbol) else None
        raise self.collector.invalid("int", message, node, hint)

    def _chosen(self, value: Any) -> Any:
        """A value that the graph depends on; where it follows from sizes, that is a condition on them."""
        if not isinstance(value, Sized):
            return value
        self.counted(value.form, int(value))
        return int(value)

    def _placed(self, index: int | None, items: Sequence[Any]) -> None:
        """The graph depends on the place of an index in a sequence."""
        if index is not None:
            self.counted(form_of(index), int(index))
            self.counted((sub, length(items), form_of(index)), len(items) - index)

    def counted(self, form: Form, value: int) -> None:
        """The graph depends on a form."""
        if names_in(form):
            self.conditions.append(Condition(form, partial(eq, value)))

    # --- arithmetic ---

    def _bounded(self, number: int, node: ast.expr) -> int:
        if abs(number) > LARGEST_INT:
            raise self.collector.limit_reached("int", too_large(number), node)
        return number

    def _arithmetic(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        numbers = all(isinstance(value, int | sympy.Expr) for value in (left, right))
        if not numbers or not isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv):
            raise self.collector.invalid("arithmetic", *_at(node, hints.arithmetic(node.op, left, right)))
        if isinstance(node.op, ast.FloorDiv) and right == 0:
            raise self.collector.invalid("arithmetic", "division by zero", node)
        if isinstance(node.op, ast.FloorDiv) and isinstance(right, Sized):
            self.conditions.append(Condition(right.form, bool))
        if isinstance(left, int) and isinstance(right, int):
            return self._bounded(integer(node.op, left, right), node)
        self.spend(node, DIM_STEPS)
        try:
            dims = [sympy.sympify(self._chosen(value)) for value in (left, right)]
            result = combine(dims[0], node.op, dims[1], ast.unparse(node))
            if isinstance(node.op, ast.FloorDiv):
                try_evaluate(result, self.scope.sizes)
                self.conditions.append(Condition(result, is_size))
        except RuleError as error:
            self.collector.rule_broken(error, node)
            raise InvalidCode from None
        return self._bounded(int(result), node) if isinstance(result, sympy.Integer) else result

    # --- calls ---

    def _call(self, node: ast.Call) -> Any:
        match node.func:
            case ast.Attribute(value=ast.Call() as made, attr="apply"):
                return self._apply(node, made)
            case ast.Name(id=name) if name in BUILTINS and name not in self.env:
                return self._builtin(node, name)
            case ast.Name(id=name) if self.env.get(name) is UNKNOWN:
                return UNKNOWN
        raise self.collector.invalid("call", *_at(node, hints.call(node, self.env)))

    def _builtin(self, node: ast.Call, name: str) -> Any:
        args = self._positional(node)
        if node.keywords:
            raise self.collector.invalid(
                "call", f"{name} takes no keyword arguments", node, f"write {name}(…) with positional arguments"
            )
        if name == "range":
            return self._range(node, [self._index(arg) for arg in args])
        sequences = [self.sequence(arg) for arg in args]
        if name == "zip":
            pairs = list(zip(*sequences, strict=False))
            sized = any(map(is_sized, sequences))
            count = reduce(lambda one, other: (min, one, other), map(length, sequences)) if sized else len(pairs)
            self.counted(count, len(pairs))
            return Items(pairs, count)
        if len(sequences) > 1 or (not sequences and name not in ("list", "tuple")):
            raise self.collector.invalid("call", f"{name} takes one sequence", node)
        items = sequences[0] if sequences else []
        found = SEQUENCE_BUILTINS[name](items)
        if name == "len":
            return Sized.of(found, length(items)) if is_sized(items) else found
        return found if name == "tuple" and not is_sized(items) else Items(found, length(items))

    def _range(self, node: ast.Call, bounds: list[int]) -> list[int]:
        if not 1 <= len(bounds) <= 3 or bounds[2:] == [0]:
            raise self.collector.invalid("call", "range takes one to three ints, and its step cannot be 0", node)
        start, stop, step = (*bounds, 1) if len(bounds) == 2 else bounds if len(bounds) == 3 else (0, *bounds, 1)
        # Not `len`, which fails for more than 2**63 - 1.
        self.spend(node, max(0, -((start - stop) // step)))
        items = range(*(self._chosen(bound) for bound in (start, stop, step)))
        if not any(isinstance(bound, Sized) for bound in bounds):
            return Items(items)
        first, every = form_of(start), form_of(step)
        distance: Form = (sub, form_of(stop), first)
        count = distance if every == 1 else (sub, 0, (floordiv, (sub, 0, distance), every))
        self.counted(count, len(items))
        # The last item has the largest distance from the first; what it decides, all of them do at larger sizes.
        last: Form = (add, first, (mul, every, (sub, count, 1)))
        return Items((Sized.of(item, last) for item in items), count)

    def _positional(self, node: ast.Call) -> list[ast.expr]:
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                raise self.collector.invalid("call", "a star in a call is not part of the language", arg, hints.NO_STAR)
        return node.args

    def _apply(self, node: ast.Call, made: ast.Call) -> Any:
        copies = self._copies(made)
        op = Copy() if copies else self._primitive(made)
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            hint = hints.apply_usage(made, node)
            raise self.collector.invalid("apply-argument", "apply takes one stream or one tuple", node, hint)
        argument = self.value(node.args[0])
        if op is None or self.is_unknown(argument, node):
            return UNKNOWN
        try:
            operands = op.operands(argument, lambda value: isinstance(value, StreamRef))
            count = op.output_count(self.scope.sizes)
            if isinstance(op, Partition) and op.N.free_symbols and count is not None:
                self.conditions.append(Condition(op.N, partial(eq, count)))
        except RuleError as error:
            broken = hints.argument(op, argument, error) if error.code == "apply-argument" else error
            self.collector.rule_broken(broken, node)
            raise InvalidCode from None
        if not copies:
            return self._add(op, operands, count, node)
        found = [operands[0]]
        for _ in range(copies - 1):
            found += self._add(op, [found.pop()], count, node)
        return found

    def _copies(self, made: ast.Call) -> int:
        """How many streams `step.Copy(n=4)` gives, as a chain of Copies; 0 for other calls."""
        match made:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="step"), attr="Copy"), args=[],
                          keywords=[ast.keyword(arg="n", value=value)]) if self.env["step"] is _STEP:  # fmt: skip
                count = self._chosen(self.value(value))
                if isinstance(count, int) and count > 1:
                    return min(count, self.limits.primitives + 2)
                raise self.collector.invalid("config", "Copy: n is 2 or more", made, "write step.Copy(n=4).apply(E0)")
        return 0

    def _add(self, op: Primitive, operands: Sequence[StreamRef], count: int | None, node: ast.Call) -> Any:
        first, total = self._streams, 1 if count is None else count
        if max(len(self.nodes) + 1, total) > self.limits.primitives:
            what = "streams of one Partition" if total > len(self.nodes) + 1 else "primitives"
            message = f"{max(len(self.nodes) + 1, total):,} {what} or more; {self.limits.stated('primitives')}"
            raise self.collector.limit_reached("primitives", message, node)
        self._streams += total
        outputs = tuple(range(first, first + total))
        self.nodes.append(Node(op, tuple(operand.id for operand in operands), outputs, self.collector.span(node)))
        refs = [StreamRef(stream) for stream in outputs]
        return refs[0] if count is None else refs

    def _primitive(self, made: ast.Call) -> Primitive | None:
        """The configured primitive, or None if its configuration is wrong (and reported) or unknown."""
        match made.func:
            case ast.Attribute(value=ast.Name(id="step"), attr=name) if self.env["step"] is _STEP:
                if name not in PRIMITIVES:
                    raise self.collector.invalid("primitive", *_at(made.func, hints.unknown_primitive(name)))
                config = self._config(made, name, PRIMITIVES[name].config_names())
            case _:
                raise self.collector.invalid("call", *_at(made, hints.call(made, self.env)))
        if any(self.is_unknown(value, made) for value in config.values()):
            return None
        try:
            return PRIMITIVES[name](**config)
        except RuleError as error:
            self.collector.rule_broken(error, made)
            return None

    def _config(self, made: ast.Call, name: str, names: Sequence[str]) -> dict[str, Any]:
        usage = f"write {hints.usage(name)}"
        positional = self._positional(made)
        if len(positional) > len(names):
            message = f"{name} takes {quantity(len(names), 'value') if names else 'no values'}, found {len(positional)}"
            raise self.collector.invalid("config", message, made, usage)
        config: dict[str, Any] = {}
        for key, arg in [*zip(names, positional, strict=False), *((k.arg, k.value) for k in made.keywords)]:
            if key is None or key not in names:
                raise self.collector.invalid("config", f"{name} has no {key or '**'}", made, usage)
            if key in config:
                raise self.collector.invalid("config", f"{name}: {key} is given twice", made, usage)
            value = self.value(arg)
            sequence = isinstance(value, list | tuple)
            if isinstance(value, StreamRef) or (sequence and (key != "L" or len(value) > MOST_DIMS)):
                raise self.collector.invalid("config", f"{name}: {key} cannot be {kind(value)}", arg, usage)
            config[key] = tuple(map(self._chosen, value)) if sequence else self._chosen(value)
        missing = [key for key in names if key not in config]
        if missing:
            raise self.collector.invalid("config", f"{name} needs {' and '.join(missing)}", made, usage)
        return config

    # --- statements ---

    def run(
        self, statements: Sequence[ast.stmt], parameters: Sequence[ast.arg] | None, bound: frozenset[str]
    ) -> tuple[Program, list[Diagnostic]]:
        """The graph and every diagnostic; `parameters` are those of a `def body`, `bound` what statements bind."""
        self.bound = bound
        try:
            if parameters is not None:
                self._bind_parameters(parameters)
            self._block(statements)
            if not self.collector.diagnostics:
                self._missing_return(statements)
        except WalkEnded:
            pass
        with suppress(WalkEnded):
            self._check_end(statements)
        self._name_unnamed_streams()
        program = Program(
            tuple(self.inputs), tuple(self.nodes), self._results, self.names, self._result_span, tuple(self.conditions)
        )
        return program, self.collector.diagnostics

    def _bind_parameters(self, parameters: Sequence[ast.arg]) -> None:
        count = len(self.inputs)
        if len({parameter.arg for parameter in parameters}) != count or len(parameters) != count:
            found, wanted = quantity(len(parameters), "parameter"), quantity(count, "input")
            message = f"`def body` has {found}; the task has {wanted}"
            if len(parameters) == count:
                message = "`def body` has one parameter twice"
            where = parameters[0] if parameters else None
            self.collector.report("body", message, where, f"write def body({', '.join(self.inputs)}):")
            raise WalkEnded
        for name in self.inputs:
            del self.env[name]
        for parameter, stream in zip(parameters, self.inputs.values(), strict=True):
            self.env[parameter.arg] = stream
            self.names[stream.id] = parameter.arg

    def _check_end(self, statements: Sequence[ast.stmt]) -> None:
        """Reports what follows the first `return`: it is never walked, so it could be anything."""
        blocks = [statements]
        while blocks:
            block = [statement for statement in blocks.pop() if not is_text(statement)]
            for index, statement in enumerate(block):
                if block[index + 1 :] and _returns(statement):
                    message = "the program continues after its `return`"
                    hint = "end with one `return`, and leave out what follows it"
                    self.collector.report("after-return", message, block[index + 1], hint)
                    return
                if isinstance(statement, ast.For):
                    blocks.append(statement.body)

    def _missing_return(self, statements: Sequence[ast.stmt]) -> None:
        last = max(self.names, default=0)
        wanted = self.names.get(last) or next(iter(self.inputs))
        hint = f"end with the outputs, e.g. `return {wanted}`"
        self.collector.report("return", "the program returns nothing", statements[-1] if statements else None, hint)

    def _name_unnamed_streams(self) -> None:
        """Names unnamed streams after the primitive that made them."""
        for node in self.nodes:
            for stream in node.outputs:
                line = f" of line {node.span.line}" if node.span else ""
                self.names.setdefault(stream, f"the {node.op.name}{line}")

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.spend(statement)
            try:
                self._statement(statement)
            except InvalidCode:
                self._poison(statement)

    def _poison(self, statement: ast.stmt) -> None:
        """Marks what a wrong statement would have bound, or appended to, as unknown from here on."""
        for node in ast.walk(statement):
            self.spend(statement)
            match node:
                case ast.Name(id=name, ctx=ast.Store()):
                    self.env[name] = UNKNOWN
                case ast.Attribute(value=ast.Name(id=name), attr="append"):
                    self.env[name] = UNKNOWN
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    self.env[name] = UNKNOWN

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                result = self.value(value)
                for target in targets:
                    self.assign(target, result)
            case _ if is_text(statement):
                pass
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as target, attr="append")) as call):
                self._append(target, call)
            case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                items = self.sequence(iterable)
                if not items:
                    self.unread(target, target, *body)
                self._repeat(target, items, body)
            case ast.Return(value=ast.expr() as value):
                self._return(value)
            case _:
                message, hint = hints.statement(statement)
                raise self.collector.invalid("statement", message, statement, hint)

    def _repeat(self, target: ast.expr, items: Sequence[Any], body: Sequence[ast.stmt]) -> None:
        """A loop. If sizes decide on its turns, only streams that each become themselves are followed through it."""
        sized, before, outer = is_sized(items), dict(self.env), self.turns
        self.turns = length(items) if sized else outer
        for item in items:
            self.assign(target, item)
            self._block(body)
        lost, self.turns = unfollowed(self.turns), outer
        if not sized:
            return
        kept = all(self.env[name] is value for name, value in before.items() if isinstance(value, Fn | sympy.Expr))
        if carries(body) or not kept:
            self.counted(lost, 0)
        for name, value in self.env.items():
            if isinstance(value, int) and value is not before.get(name):
                self.env[name] = Sized.of(value, lost)

    def _append(self, target: ast.Name, call: ast.Call) -> None:
        known = self.value(target)
        if known is UNKNOWN:
            raise InvalidCode
        if not isinstance(known, list):
            hint = f"start with {target.id} = [] to build a list"
            raise self.collector.invalid("append", f"{target.id} is {kind(known)}; append needs a list", call, hint)
        if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
            raise self.collector.invalid("append", "append takes one value", call, f"write {target.id}.append(E0)")
        known.append(self.value(call.args[0]))
        if isinstance(known, Items):
            grown = (add, known.extent, 1) if is_sized(known) else len(known)
            known.extent = unfollowed(self.turns) if names_in(self.turns) else grown

    def _return(self, value: ast.expr) -> None:
        result: Any = self.value(value)
        parts = result if isinstance(result, list | tuple) else [result]
        self._result_span = self.collector.span(value)
        streams = [part for part in parts if isinstance(part, StreamRef)]
        if not self.is_unknown(result, value):
            if not parts or len(streams) < len(parts):
                found = kind(next((part for part in parts if not isinstance(part, StreamRef)), result))
                message = f"a program returns streams, found {found}"
                self.collector.report("return", message, value, hints.RETURN)
            else:
                self._results = tuple(part.id for part in streams)
        raise WalkEnded


def _returns(statement: ast.stmt) -> bool:
    """Whether a statement is a `return`, or a loop that holds one."""
    if isinstance(statement, ast.For):
        return any(isinstance(node, ast.Return) for node in ast.walk(statement))
    return isinstance(statement, ast.Return)


def is_text(node: ast.AST) -> bool:
    """Whether a statement is a string on its own, which is ignored everywhere."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _at(node: ast.AST, advice: hints.Advice) -> tuple[str, ast.AST, str | None]:
    """Advice of `hints` with its place, as `DiagnosticCollector.invalid` takes it."""
    message, hint = advice
    return message, node, hint
