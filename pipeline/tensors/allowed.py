"""The part of Python that programs of a language may be, checked on their syntax tree, without running any of it.

A language gives a table. Programs have no attribute but those listed, no name but their own and those listed, and no
way to define a class or a lambda, so that what runs can reach the listed functions and nothing else. Whoever runs a
program runs `printed`, which is the tree that was checked, and never the text that its author wrote.
"""

from __future__ import annotations

import ast
import hashlib
import symtable
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from pipeline.languages import Diagnostic, Span
from step_runtime.base.syntax import parse_python

LONGEST = 20_000
"""Characters of a program."""
MOST_SHOWN = 8
"""Diagnostics of one check."""
HIGHEST_POWER, LARGEST_INT = 8, 2**31
BUILTINS = ("abs", "enumerate", "float", "int", "len", "max", "min", "range", "zip")
_NODES = (
    ast.Assign, ast.AugAssign, ast.For, ast.If, ast.With, ast.Expr, ast.Pass, ast.Return, ast.Name, ast.Constant,
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Call, ast.Attribute, ast.Subscript, ast.Slice,
    ast.Tuple, ast.List, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult, ast.USub,
    ast.UAdd, ast.Not, ast.And, ast.Or, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Load, ast.Store,
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.keyword, ast.withitem,
)  # fmt: skip
_ANNOTATIONS = (ast.Name, ast.Attribute, ast.Constant)


@dataclass(frozen=True)
class AllowList:
    """What programs of a language may be.

    Attributes:
        imports: Imports that a program may begin with, as they are written after `import`; they are left out.
        paths: Dotted names of the language, such as `tl.load`. Their first parts are its modules.
        methods: Attributes of values, which are read and never bound.
        structure: What is wrong with a program's functions, which only the language knows.
        decorators: Dotted names that only decorate.
        annotations: Dotted names that annotate arguments with a meaning; other names there are left out.
        nodes: Further classes of `ast` beside those of all languages.
        texts: Strings that are constants.
        given: Names that the toolchain puts into functions, and a program may read.
    """

    imports: frozenset[str]
    paths: frozenset[str]
    methods: frozenset[str]
    structure: Callable[[ast.Module], Iterator[Diagnostic]]
    decorators: frozenset[str]
    annotations: frozenset[str] = frozenset()
    nodes: tuple[type[ast.AST], ...] = ()
    texts: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()

    @cached_property
    def roots(self) -> frozenset[str]:
        """The names of the language's modules, at which its dotted names begin."""
        return frozenset(path.partition(".")[0] for path in self.paths)

    @cached_property
    def reserved(self) -> frozenset[str]:
        """Names that a program does not bind."""
        imported = {each.split()[-1] for each in self.imports}
        return frozenset({"print", *BUILTINS}) | self.roots | imported | self.given

    def checked(self, text: str) -> tuple[ast.Module | None, tuple[Diagnostic, ...]]:
        """A program's tree, without imports, annotations and docstrings, None if there is none; what is refused."""
        if len(text) > LONGEST:
            return None, (Diagnostic("parse", "length", f"expected at most {LONGEST:,} characters"),)
        try:
            tree = self._bare(parse_python(text))
            found = tuple(self._findings(tree)) or tuple(self._of_scopes(tree))
            return tree, found[:MOST_SHOWN]
        except SyntaxError as error:
            place = (error.lineno, error.offset or 1, error.lineno, (error.offset or 1) + 1) if error.lineno else None
            return None, (Diagnostic("parse", "syntax", str(error.msg), Span(*place) if place else None),)
        except (ValueError, MemoryError, RecursionError) as error:
            return None, (Diagnostic("parse", "syntax", f"not a program: {str(error) or 'nested too deep'}"),)

    def key(self, text: str) -> str:
        """A digest of the tree up to renaming, imports, annotations and comments; of the text if it is no tree."""
        tree, _ = self.checked(text)
        try:
            words = f"text {text}" if tree is None else f"tree {ast.dump(self._renamed(tree))}"
        except RecursionError:
            words = f"text {text}"
        return f"{words[:4]} {hashlib.sha256(words.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def used(self, text: str) -> set[str]:
        """What of the language a program uses: dotted names, methods, and `@` for a matrix product."""
        tree, _ = self.checked(text)
        used = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.MatMult)] if tree else []
        return {self.path(node) or node.attr if isinstance(node, ast.Attribute) else "@" for node in used}

    def path(self, node: ast.AST) -> str | None:
        """The dotted name of something of the language's modules."""
        names: list[str] = []
        while isinstance(node, ast.Attribute):
            names.append(node.attr)
            node = node.value
        return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) and node.id in self.roots else None

    def decorator(self, node: ast.AST) -> str | None:
        """The dotted name of a decorator, called or not."""
        return self.path(_called(node))

    def _findings(self, tree: ast.Module) -> Iterator[Diagnostic]:
        bound = set(_bound(tree))
        yield from self._of_module(tree)
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        decorating = {_called(each) for node in functions for each in node.decorator_list}
        annotating = {each.annotation for node in functions for each in node.args.args}
        inner: set[ast.AST] = set()  # of paths: attributes and names, of which Python shares none between places
        for node in ast.walk(tree):
            if node in inner:
                continue
            if isinstance(node, ast.Attribute) and (path := self.path(node)):
                inner |= {each for each in ast.walk(node.value) if isinstance(each, ast.Attribute | ast.Name)}
                placed = (path in self.decorators and node in decorating) or (
                    path in self.annotations and node in annotating
                )
                if path not in self.paths and not placed:
                    yield refused(node, "attribute", f"`{path}` is not of the language", "the prompt lists what is")
            else:
                yield from self._of_node(node, bound)

    def _of_scopes(self, tree: ast.Module) -> Iterator[Diagnostic]:
        """Names that Python looks up outside of the program, as no scope around them binds them."""
        tables = [symtable.symtable(ast.unparse(tree), "<program>", "exec")]
        own = {each.get_name() for each in tables[0].get_symbols() if each.is_local()}
        known = own | self.roots | self.given | {*BUILTINS}
        for table in tables:
            tables += table.get_children()
            for name in sorted(each.get_name() for each in table.get_symbols() if each.is_global()):
                if name not in known:
                    places = [each for each in ast.walk(tree) if isinstance(each, ast.Name) and each.id == name]
                    yield refused(places[0], "name", f"`{name}` is not defined in `{table.get_name()}`")

    def _of_module(self, tree: ast.Module) -> Iterator[Diagnostic]:
        for node in tree.body:
            if isinstance(node, ast.Assign) and any(isinstance(each, ast.Call) for each in ast.walk(node)):
                yield refused(node, "statement", "a constant calls nothing")
            elif not isinstance(node, ast.Assign | ast.Pass | ast.FunctionDef):
                yield refused(node, "statement", "expected imports, constants and functions of the language")
        yield from self.structure(tree)

    def _of_node(self, node: ast.AST, bound: set[str]) -> Iterator[Diagnostic]:
        """What is wrong with one node, apart from those below it: first whether there may be such a node at all."""
        if isinstance(node, ast.FunctionDef) and node.returns:
            yield refused(node, "annotation", "an annotation is a name")
        if isinstance(node, ast.arg) and node.annotation and self.path(node.annotation) not in self.annotations:
            yield refused(node, "annotation", "an annotation is a name")
        if not isinstance(node, (*_NODES, *self.nodes)):
            yield refused(node, "syntax", f"`{type(node).__name__}` is not of the language")
        elif isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                yield from self._of_binding(node, node.id)
            elif node.id not in bound and node.id not in (*BUILTINS, *self.given):
                hint = "only the language, few builtins and your own names are"
                yield refused(node, "name", f"`{node.id}` is not defined", hint)
        elif isinstance(node, ast.arg):
            yield from self._of_binding(node, node.arg)
        elif isinstance(node, ast.FunctionDef):
            yield from self._of_binding(node, node.name)
            given = node.args
            if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults:
                yield refused(node, "arguments", "a function has plain arguments without defaults")
        elif isinstance(node, ast.Attribute):
            if node.attr not in self.methods or not isinstance(node.ctx, ast.Load):
                yield refused(node, "attribute", f"`.{node.attr}` is not of the language")
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield refused(node, "syntax", "tensors and their parts are written by functions of the language only")
        else:
            yield from self._of_value(node)

    def _of_value(self, node: ast.AST) -> Iterator[Diagnostic]:
        if isinstance(node, ast.Constant) and not self._is_constant(node.value):
            yield refused(node, "constant", "expected a number, True, False or None")
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow):
            exponent = node.right if isinstance(node, ast.BinOp) else node.value
            power = exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent
            value = power.value if isinstance(power, ast.Constant) else None
            if not isinstance(value, int | float) or value > HIGHEST_POWER:
                yield refused(node, "power", f"expected an exponent that is a number of at most {HIGHEST_POWER}")
        elif isinstance(node, ast.For) and node.orelse:
            yield refused(node, "syntax", "a loop has no `else`")
        elif isinstance(node, ast.keyword) and node.arg is None:
            yield refused(node.value, "syntax", "arguments are not unpacked")
        elif isinstance(node, ast.Return) and node.value is not None:
            yield refused(node, "syntax", "nothing is returned: results are written to the output tensors")

    def _of_binding(self, node: ast.AST, name: str) -> Iterator[Diagnostic]:
        if name in self.reserved or (name.startswith("_") and name != "_"):
            yield refused(node, "name", f"`{name}` is reserved; choose another name")

    def _is_constant(self, value: object) -> bool:
        if isinstance(value, str):
            return value in self.texts
        return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST_INT)

    def _bare(self, tree: ast.Module) -> ast.Module:
        """Leaves out what has no meaning: imports of the language, annotations by names, texts such as docstrings."""
        tree.body = [each for each in tree.body if not self._is_import(each)]
        for node in ast.walk(tree):
            for value in vars(node).values():
                if isinstance(value, list) and any(map(self._idle, value)):
                    kept = [each for each in value if not self._idle(each)]
                    value[:] = kept or [ast.copy_location(ast.Pass(), value[0])]
            if isinstance(node, ast.FunctionDef) and isinstance(node.returns, _ANNOTATIONS):
                node.returns = None
            if isinstance(node, ast.arg) and isinstance(node.annotation, _ANNOTATIONS):
                node.annotation = node.annotation if self.path(node.annotation) in self.annotations else None
        return tree

    def _is_import(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Import) and {ast.unparse(each) for each in node.names} <= self.imports

    def _idle(self, node: ast.AST) -> bool:
        value = node.value if isinstance(node, ast.Expr) else None
        return self._is_import(node) or (isinstance(value, ast.Constant) and isinstance(value.value, str))

    def _renamed(self, tree: ast.Module) -> ast.Module:
        """Names a program's own names by the order in which they occur; those that it never binds are none of them."""
        names = {name: f"v{number}" for name, number in _bound(tree).items() if name not in self.reserved}
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        arguments = {node.name: {each.arg for each in node.args.args} for node in functions}
        for node in ast.walk(tree):  # a call before the names in it
            if isinstance(node, ast.Call):
                called = node.func.value if isinstance(node.func, ast.Subscript) else node.func
                own = arguments.get(called.id, set()) if isinstance(called, ast.Name) else set()
                for each in node.keywords:
                    each.arg = names[each.arg] if each.arg in own else each.arg
            elif isinstance(node, ast.Name):
                node.id = names.get(node.id) or (node.id if node.id in self.reserved else f"unbound {node.id}")
            elif isinstance(node, ast.arg):
                node.arg = names.get(node.arg, node.arg)
            elif isinstance(node, ast.FunctionDef):
                node.name = names.get(node.name, node.name)
        return tree


def printed(tree: ast.Module) -> ast.Module:
    """The tree as it reads when it is printed, with the places of the program: what was checked and nothing else.

    Raises:
        ValueError: It does not read as it was.
    """
    read = parse_python(ast.unparse(tree))
    if ast.dump(read) != ast.dump(tree):
        raise ValueError("its tree is not what it prints")
    for new, old in zip(ast.walk(read), ast.walk(tree), strict=True):
        ast.copy_location(new, old)
    return read


def refused(node: ast.AST, code: str, message: str, hint: str | None = None) -> Diagnostic:
    """A finding of the allow-list, at a node."""
    line = getattr(node, "lineno", None)
    if line is None:
        return Diagnostic("static", code, message, None, (), hint)
    column = getattr(node, "col_offset", 0) + 1
    end = node.end_col_offset + 1 if node.end_lineno == line else column + 1  # type: ignore[attr-defined]
    return Diagnostic("static", code, message, Span(line, column, line, end), (), hint)


def _called(node: ast.AST) -> ast.AST:
    return node.func if isinstance(node, ast.Call) else node


def _bound(tree: ast.AST) -> dict[str, int]:
    """The names that a program binds, in the order in which they first occur."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        name = node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else ""
        name = node.arg if isinstance(node, ast.arg) else node.name if isinstance(node, ast.FunctionDef) else name
        if name:
            found.setdefault(name, len(found))
    return found
