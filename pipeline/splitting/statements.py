"""A reference as a list of simple statements, and the slices of it that compute one value from others.

Nothing is run here. Nested expressions become statements of their own, and loops of known members are unrolled, such as
over a literal tuple or a range of one size, so that more of what a reference computes on its way has a name. Other
compound statements stay whole: they bind or change names, and a slice keeps what was before them.
"""

from __future__ import annotations

import ast
import copy
import itertools
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from step_runtime.base.syntax import parse_python

_MOST_UNROLLED = 16
_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "sum", ast.Sub: "difference", ast.Mult: "product", ast.Div: "quotient", ast.MatMult: "matmul",
    ast.Pow: "power",
}  # fmt: skip
"""What the value of an operator is called that has no name in the reference."""
_DATA = "input_data"


@dataclass(frozen=True)
class Statement:
    """One statement of a reference in normal form.

    Attributes:
        tree: Its code.
        temporary: Whether its name is not the author's.
        output: The output that its value is, by number; None for other statements.
    """

    tree: ast.stmt
    temporary: bool = False
    output: int | None = None

    @cached_property
    def defines(self) -> frozenset[str]:
        """The names that it binds or changes."""
        return frozenset(_bound(self.tree) | _changed(self.tree))

    @cached_property
    def uses(self) -> frozenset[str]:
        """The names that it reads; of one that it changes, the value before."""
        loaded = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and is_load(node)}
        return frozenset(loaded | _changed(self.tree)) if self.is_simple else frozenset(loaded | self.defines)

    @cached_property
    def reads(self) -> frozenset[str] | None:
        """The inputs and parameters that it reads by name; None if it may read any."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Subscript) and _is_data(node.value):
                if not (isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)):
                    return None
                found.add(node.slice.value)
        named = sum(_is_data(node) for node in ast.walk(self.tree))
        keyed = sum(isinstance(node, ast.Subscript) and _is_data(node.value) for node in ast.walk(self.tree))
        return frozenset(found) if named == keyed else None

    @property
    def is_simple(self) -> bool:
        """Whether it only binds names anew, so that nothing before it matters to them."""
        return isinstance(self.tree, ast.Assign) and not _changed(self.tree)

    @property
    def is_call(self) -> bool:
        """Whether it binds what a function of PyTorch gives, and no method of a tensor, nor arithmetic."""
        value = self.tree.value if isinstance(self.tree, ast.Assign) else None
        return isinstance(value, ast.Call) and is_module(value.func)

    @property
    def target(self) -> str | None:
        """The name that it binds, if it binds one alone."""
        tree = self.tree
        return tree.targets[0].id if isinstance(tree, ast.Assign) and isinstance(tree.targets[0], ast.Name) else None

    @property
    def code(self) -> str:
        """Its text."""
        return ast.unparse(self.tree)


def normal_form(
    snippets: Sequence[str],
    names: Collection[str] = (),
    *,
    numbers: Mapping[str, int] | None = None,
    expanded: bool = False,
) -> tuple[Statement, ...]:
    """The statements of the snippets of a task's outputs, which run one after the other and share their names.

    Args:
        snippets: The code that gives each component of each output, in order.
        names: Names that temporaries must not have.
        numbers: Names with known values, such as that of a size.
        expanded: Whether a call of attention is written out: scores, weights, and what they make of the values.

    Raises:
        SyntaxError, ValueError: A snippet is not Python.
    """
    modules = [parse_python(textwrap.dedent(snippet)) for snippet in snippets]
    taken = {node.id for module in modules for node in ast.walk(module) if isinstance(node, ast.Name)} | {*names}
    writer = _Writer(taken, numbers or {}, expanded=expanded)
    for number, module in enumerate(modules):
        *before, last = module.body
        for statement in before:
            writer.write(statement)
        value = last.value if isinstance(last, ast.Expr | ast.Assign) else ast.Name("None", ast.Load())
        if isinstance(last, ast.Assign):
            writer.write(last)
            value = copy.deepcopy(last.targets[-1])
            for node in ast.walk(value):
                if isinstance(node, ast.Name):
                    node.ctx = ast.Load()
        writer.result(value, number)
    return tuple(writer.statements)


Place = tuple[int, str]
"""A statement's number, and a name that it binds or changes."""


@dataclass(frozen=True)
class Slice:
    """The statements that compute a value from cuts, inputs and parameters.

    Attributes:
        statements: Their numbers, in order.
        cuts: The places whose values are taken as given, in order: each is bound in the statement's stead, or after it.
    """

    statements: tuple[int, ...]
    cuts: tuple[Place, ...]


def slice_to(statements: Sequence[Statement], target: Place, cuts: Collection[Place]) -> Slice:
    """The backward slice to what a name holds after a statement, down to the nearest cuts."""
    needed, kept, given = {target[1]}, list[int](), list[Place]()
    for number in range(target[0], -1, -1):
        statement = statements[number]
        hits = needed & statement.defines
        for name in sorted(hits):
            if (number, name) in cuts and (number, name) != target:
                given.append((number, name))
                needed.discard(name)
                hits = hits - {name}
        if hits:
            kept.append(number)
            needed -= statement.defines if statement.is_simple else set()
            needed |= statement.uses
    return Slice(tuple(kept[::-1]), tuple(given[::-1]))


def written(statements: Sequence[Statement], part: Slice, loads: Mapping[Place, ast.expr], result: ast.expr) -> str:
    """The text of a slice: statements, with temporaries of one use in the places of their uses; last the result.

    `loads` has the expressions that cuts are bound to.
    """
    given: dict[int, list[ast.stmt]] = {}
    for place in part.cuts:
        name = ast.Name(place[1], ast.Store())
        given.setdefault(place[0], []).append(ast.Assign([name], copy.deepcopy(loads[place]), lineno=0))
    lines: list[tuple[ast.stmt, bool]] = []
    for number in sorted({*part.statements, *given}):
        if number in part.statements:
            lines.append((copy.deepcopy(statements[number].tree), statements[number].temporary))
        lines += [(tree, statements[number].temporary) for tree in given.get(number, [])]
    lines.append((ast.Expr(copy.deepcopy(result)), False))
    body = _inlined(lines)
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))


def _inlined(lines: Sequence[tuple[ast.stmt, bool]]) -> list[ast.stmt]:
    """The statements without temporaries that only the next one uses that uses any, once."""
    body: list[ast.stmt] = []
    waiting: dict[str, ast.expr] = {}
    uses: dict[str, int] = {}
    for tree, _ in lines:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and is_load(node):
                uses[node.id] = uses.get(node.id, 0) + 1
    for line, temporary in lines:
        tree = Substitution(waiting).visit(line)
        name = Statement(tree).target
        if temporary and name is not None and uses.get(name) == 1 and isinstance(tree, ast.Assign):
            waiting[name] = tree.value
        else:
            body.append(tree)
    return body


class _Writer:
    """Writes statements in normal form."""

    def __init__(self, taken: set[str], numbers: Mapping[str, int], *, expanded: bool) -> None:
        self.statements: list[Statement] = []
        self._taken, self._numbers, self._expanded = taken, numbers, expanded

    def result(self, value: ast.expr, number: int) -> None:
        """Binds the value of an output."""
        self._add(self._fresh("result"), self._flat(value), temporary=True, output=number)

    def write(self, tree: ast.stmt) -> None:
        """Adds a statement, or those of the passes of a loop."""
        passes = _passes(tree, self._numbers) if isinstance(tree, ast.For) else None
        if passes is not None:
            for statement in passes:
                self.write(statement)
            return
        pairs = list(_assignments(tree, self._numbers))
        if not pairs:
            self.statements.append(Statement(tree))
        later: list[tuple[str, str]] = []
        for place, (name, value) in enumerate(pairs):
            flat = self._flat(value)
            clash = any(name in _loaded(other) for _, other in pairs[place + 1 :])
            if clash:
                later.append((name, self._fresh(name)))
            self._add(later[-1][1] if clash else name, flat)
        for name, kept in later:
            self._add(name, ast.Name(kept, ast.Load()))

    def _add(self, name: str, value: ast.expr, *, temporary: bool = False, output: int | None = None) -> None:
        attention = attention_call(value) if self._expanded else None
        if attention is not None:
            value, temporary = self._written_out(*attention), False
        tree = ast.fix_missing_locations(ast.Assign([ast.Name(name, ast.Store())], value, lineno=0))
        self.statements.append(Statement(tree, temporary, output))

    def _written_out(self, q: ast.expr, k: ast.expr, v: ast.expr, mask: ast.expr | None) -> ast.expr:
        """Attention as its definition, with a mask of truth values; the scores and the weights get names."""
        scores = self._fresh("scores")
        self._add(scores, template("q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5", q=q, k=k))
        shown: ast.expr = ast.Name(scores, ast.Load())
        if mask is not None:
            shown = template("scores.masked_fill(~mask, -torch.inf)", scores=shown, mask=mask)
        weights = self._fresh("weights")
        self._add(weights, template("torch.softmax(scores, -1)", scores=shown))
        return template("weights @ v", weights=ast.Name(weights, ast.Load()), v=v)

    def _fresh(self, hint: str) -> str:
        name = hint
        for number in itertools.count(2):
            if name not in self._taken:
                break
            name = f"{hint}_{number}"
        self._taken.add(name)
        return name

    def _flat(self, value: ast.expr) -> ast.expr:
        """The expression with what is evaluated on its way bound to names, innermost first."""
        value = copy.deepcopy(value)
        for part in _parts(value):
            self._lift(part)
        return value

    def _lift(self, part: tuple[ast.AST, str, int | None]) -> None:
        parent, field, index = part
        child = getattr(parent, field) if index is None else getattr(parent, field)[index]
        for inner in _parts(child):
            self._lift(inner)
        if not isinstance(child, ast.Call | ast.BinOp) or _is_constant(child):
            return
        name = self._fresh(_hint(child))
        self._add(name, child, temporary=True)
        load = ast.Name(name, ast.Load())
        if index is None:
            setattr(parent, field, load)
        else:
            getattr(parent, field)[index] = load


def _assignments(tree: ast.stmt, numbers: Mapping[str, int]) -> Iterator[tuple[str, ast.expr]]:
    """What an assignment binds to single names, as far as that is known without running it."""
    if not isinstance(tree, ast.Assign) or len(tree.targets) != 1:
        return
    target = tree.targets[0]
    if isinstance(target, ast.Name):
        yield target.id, tree.value
    elif isinstance(target, ast.Tuple) and all(isinstance(part, ast.Name) for part in target.elts):
        values = _unrolled(tree.value, numbers)
        if len(values) == len(target.elts):
            for part, value in zip(target.elts, values, strict=True):
                if isinstance(part, ast.Name):
                    yield part.id, value


def _unrolled(value: ast.expr, numbers: Mapping[str, int]) -> list[ast.expr]:
    """The members of a tuple, or of a comprehension over known ones; none of another expression."""
    if isinstance(value, ast.Tuple | ast.List):
        return _members(value, numbers) or []
    if not isinstance(value, ast.GeneratorExp | ast.ListComp) or len(value.generators) != 1:
        return []
    loop = value.generators[0]
    bound = [_bindings(loop.target, member) for member in _members(loop.iter, numbers) or ()]
    if loop.ifs or None in bound:
        return []
    return [_with(value.elt, each) for each in bound if each is not None]


def _passes(tree: ast.For, numbers: Mapping[str, int]) -> list[ast.stmt] | None:
    """The statements of all passes of a loop; None if its members aren't known, or it may end early."""
    members = _members(tree.iter, numbers)
    bound = [_bindings(tree.target, member) for member in members or ()]
    names = {name for each in bound for name in each or ()}.union(*(_loaded(member) for member in members or ()))
    early = any(isinstance(node, ast.Break | ast.Continue) for node in ast.walk(tree))
    if members is None or None in bound or early or tree.orelse or any(names & _bound(each) for each in tree.body):
        return None
    last = [ast.Assign([tree.target], members[-1], lineno=0)] if members else []
    return [_with(statement, each) for each in bound if each is not None for statement in tree.body] + last


def _members(tree: ast.expr, numbers: Mapping[str, int]) -> list[ast.expr] | None:
    """What a loop runs over; None if that is not known, or too much."""
    found: list[ast.expr] | None = None
    match tree:
        case ast.Tuple(elts=elts) | ast.List(elts=elts) if not any(isinstance(part, ast.Starred) for part in elts):
            found = list(elts)
        case ast.Call(func=ast.Name(id="range"), args=args):
            known = [numbers.get(each.id) if isinstance(each, ast.Name) else _literal(each) for each in args]
            ends = [each for each in known if isinstance(each, int)]
            found = [ast.Constant(each) for each in range(*ends)] if len(ends) == len(args) else None
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner]):
            members = _members(inner, numbers)
            found = members and [ast.Tuple([ast.Constant(at), each], ast.Load()) for at, each in enumerate(members)]
        case ast.Call(func=ast.Name(id="zip"), args=args):
            every = [_members(each, numbers) or [] for each in args]
            found = [ast.Tuple(list(each), ast.Load()) for each in zip(*every, strict=False)] or None
    return found if found is None or len(found) <= _MOST_UNROLLED else None


def _literal(tree: ast.expr) -> object:
    return tree.value if isinstance(tree, ast.Constant) else None


_Tree = TypeVar("_Tree", bound=ast.AST)


def _with(tree: _Tree, bound: Mapping[str, ast.expr]) -> _Tree:
    """Code with the members of one pass in the places of a loop's names, and formatted into texts."""
    found: _Tree = Substitution(bound).visit(copy.deepcopy(tree))
    return found


def _bindings(target: ast.expr, member: ast.expr) -> dict[str, ast.expr] | None:
    """What a loop's names stand for in one pass; None if that is not known."""
    if isinstance(target, ast.Name):
        return {target.id: member}
    if isinstance(target, ast.Tuple) and isinstance(member, ast.Tuple) and len(target.elts) == len(member.elts):
        pairs = [_bindings(*pair) for pair in zip(target.elts, member.elts, strict=True)]
        if all(pair is not None for pair in pairs):
            return {name: value for pair in pairs if pair for name, value in pair.items()}
    return None


def _parts(value: ast.expr) -> Iterator[tuple[ast.AST, str, int | None]]:
    """The places of the expressions that are evaluated before a value is, whichever way it goes."""
    match value:
        case ast.Call(func=func, args=args, keywords=keywords):
            if isinstance(func, ast.Attribute) and not is_module(func.value):
                yield func, "value", None
            yield from ((value, "args", place) for place, part in enumerate(args) if not isinstance(part, ast.Starred))
            yield from ((part, "value", None) for part in args if isinstance(part, ast.Starred))
            yield from ((keyword, "value", None) for keyword in keywords)
        case ast.BinOp():
            yield from ((value, "left", None), (value, "right", None))
        case ast.UnaryOp():
            yield value, "operand", None
        case ast.Compare(comparators=comparators):
            yield value, "left", None
            yield from ((value, "comparators", place) for place in range(len(comparators)))
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            yield from ((value, "elts", place) for place, part in enumerate(elts) if not isinstance(part, ast.Starred))
        case ast.Attribute(value=whole) if not is_module(whole):
            yield value, "value", None
        case ast.Subscript():
            yield value, "value", None


def _hint(value: ast.expr) -> str:
    """A name for the value of an expression: of the function or the operator."""
    match value:
        case ast.BinOp(op=op):
            return _OPERATORS.get(type(op), "value")
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name.strip("_") if name.strip("_").isidentifier() else "value"
    return "value"


def _is_constant(value: ast.expr) -> bool:
    """Whether an expression has numbers, sizes and modules alone."""
    names = [node.id for node in ast.walk(value) if isinstance(node, ast.Name)]
    return all(name.endswith("_value") for name in names)


def _is_data(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == _DATA


def _loaded(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and is_load(node)}


def _bound(tree: ast.stmt) -> set[str]:
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found |= {alias.asname or alias.name.split(".")[0] for node in ast.walk(tree)
              if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
    return found | {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _changed(tree: ast.stmt) -> set[str]:
    """The names whose values it may change in place: by an index, an operator, or a method that is called alone."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                found |= {root for target in targets for root in _roots(target)}
            case ast.AugAssign(target=target):
                found |= {target.id} if isinstance(target, ast.Name) else set(_roots(target))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=receiver))):
                found |= set(_roots(receiver, whole=True))
            case ast.Call(func=ast.Attribute(attr=name, value=receiver)) if name.endswith("_") and name[0] != "_":
                found |= set(_roots(receiver, whole=True))
    return found


def _roots(target: ast.expr, *, whole: bool = False) -> Iterator[str]:
    """The names of what an expression is a part of; with `whole`, of a name itself, too."""
    inner = target
    while isinstance(inner, ast.Subscript | ast.Attribute | ast.Call):
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    if isinstance(inner, ast.Name) and (whole or inner is not target) and not _is_data(inner):
        if not is_module(inner):
            yield inner.id
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            yield from _roots(part)


def attention_call(value: ast.expr) -> tuple[ast.expr, ast.expr, ast.expr, ast.expr | None] | None:
    """Queries, keys, values and the mask of a call of attention; None for another expression, or further arguments."""
    if not isinstance(value, ast.Call) or not is_module(value.func):
        return None
    if not ast.unparse(value.func).endswith(".scaled_dot_product_attention"):
        return None
    if len(value.args) != 3 or any(isinstance(part, ast.Starred) for part in value.args):
        return None
    options = {keyword.arg: keyword.value for keyword in value.keywords}
    if options.keys() - {"attn_mask", "is_causal"} or len(options) > 1:
        return None
    q, k, v = value.args
    mask = options.get("attn_mask")
    if "is_causal" in options:
        if ast.unparse(options["is_causal"]) != "True":
            return None
        mask = template("torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()", q=q, k=k)
    return q, k, v, mask


def template(text: str, **parts: ast.expr) -> ast.expr:
    """An expression with others in the places of names."""
    tree = ast.parse(text, mode="eval").body
    found: ast.expr = Substitution(parts).visit(tree)
    return found


class Substitution(ast.NodeTransformer):
    """Puts expressions in the place of names that are read."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """The expression for a name."""
        known = self._values.get(node.id) if is_load(node) else None
        return node if known is None else copy.deepcopy(known)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """A constant, where all parts of a formatted text are known."""
        self.generic_visit(node)
        parts = [_literal(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values]
        return node if None in parts else ast.Constant("".join(map(str, parts)))


def is_module(node: ast.expr) -> bool:
    """Whether an expression names a module of PyTorch's or Python's, or a part of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "F", "nn", "math")


def is_load(node: ast.Name) -> bool:
    """Whether a name is read."""
    return isinstance(node.ctx, ast.Load)
