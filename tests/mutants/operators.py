"""What may be changed in a module: one small, realistic change at a time, as an edit of its text."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
# Calls that only say something: to a log, to the reader of an option's help.
LOGS = re.compile(r"(log|logger|logging|warnings)\.\w+")
WORDS = {"help", "help_text", "verbose_name", "verbose_name_plural", "description", "metavar"}
GUARDS = {"zip": {"strict"}}  # they speak up only where the code itself is wrong


@dataclass(frozen=True)
class Mutant:
    """An edit of a module: `replacement` at bytes `start` to `end`, in a statement of lines `first` to `last`."""

    path: str
    function: str
    operator: str
    line: int
    first: int
    last: int
    start: int
    end: int
    replacement: str

    @property
    def key(self) -> str:
        """What tells it from the other mutants of the same code."""
        return f"{self.path}:{self.start}-{self.end}:{self.replacement}"

    def apply(self, source: bytes) -> bytes:
        """The text of the module with the change."""
        return source[: self.start] + self.replacement.encode() + source[self.end :]

    def show_change(self, source: bytes) -> tuple[str, str]:
        """The lines before and after, stripped: what identifies the mutant while other lines move."""
        begin = source.rfind(b"\n", 0, self.start) + 1
        stop = source.find(b"\n", self.end)
        change = source[begin : self.start] + self.replacement.encode() + source[self.end : stop]
        return source[begin:stop].decode().strip(), change.decode().strip()


def list_mutants(folder: Path, path: str) -> list[Mutant]:
    """Every change of the module at `path` of `folder`, in the order of its lines; no two make the same text."""
    source = (folder / path).read_bytes()
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    unique = {(mutant.start, mutant.end, mutant.replacement): mutant for mutant in finder.mutants}
    return sorted(unique.values(), key=lambda mutant: (mutant.start, mutant.end, mutant.replacement))


class _Finder(ast.NodeVisitor):
    """Walks through what a module does; annotations, docstrings and texts of logs are not visited."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source = path, source
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self.offsets = [sum(lengths[:count]) for count in range(len(lengths) + 1)]
        self.functions: list[str] = []
        self.statement: ast.stmt | None = None
        self.mutants: list[Mutant] = []

    def visit(self, node: ast.AST) -> None:
        """Note the changes of a node, then those of its parts."""
        outer = self.statement
        if isinstance(node, ast.stmt):
            self.statement = node
        for operator, place, replacement in CHANGES[type(node)](node) if type(node) in CHANGES else ():
            self._add(operator, place, replacement)
        has_name = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        self.functions += [node.name] if has_name else []
        for part in _list_parts(node):
            self.visit(part)
        del self.functions[len(self.functions) - has_name :]
        self.statement = outer

    def _add(self, operator: str, place: ast.expr | ast.stmt, replacement: ast.AST | str) -> None:
        start = self.offsets[place.lineno - 1] + place.col_offset
        end = self.offsets[place.end_lineno - 1] + place.end_col_offset
        text = replacement if isinstance(replacement, str) else ast.unparse(replacement)
        first = min(self.statement.lineno, place.lineno)
        function = ".".join(self.functions)
        self.mutants.append(
            Mutant(self.path, function, operator, place.lineno, first, place.end_lineno, start, end, text)
        )


def _list_parts(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node in which changes count."""
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and LOGS.fullmatch(ast.unparse(node.func))):
        return  # and Python 3.11 does not say where in a formatted text its parts stand
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params") or (
            isinstance(node, ast.ClassDef) and field in ("bases", "keywords")
        ):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.Call) and isinstance(part, ast.keyword) and not _counts(node, part):
                continue
            if isinstance(part, ast.AST):
                yield part


def _counts(call: ast.Call, argument: ast.keyword) -> bool:
    """Whether a test need notice the argument of a call."""
    return argument.arg not in WORDS | GUARDS.get(ast.unparse(call.func), set())


Changes = Iterator[tuple[str, ast.expr | ast.stmt, ast.AST | str]]  # the operator, what is replaced, and by what


def _change_comparison(node: ast.Compare) -> Changes:
    if len(node.ops) == 1:
        yield "comparison", node, ast.Compare(node.left, [COMPARISONS[type(node.ops[0])]()], node.comparators)


def _change_boolean(node: ast.BoolOp) -> Changes:
    yield "boolean", node, ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _change_arithmetic(node: ast.BinOp) -> Changes:
    texts = any(isinstance(part, ast.JoinedStr) or _is_text(part) for part in (node.left, node.right))
    if type(node.op) in ARITHMETIC and not texts:
        yield "arithmetic", node, ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)


def _change_sign(node: ast.UnaryOp) -> Changes:
    if isinstance(node.op, ast.USub):
        yield "sign", node, node.operand
    elif isinstance(node.op, ast.Not):
        yield "condition", node, ast.Call(ast.Name("bool"), [node.operand], [])


def _negate_condition(node: ast.If | ast.While | ast.IfExp | ast.comprehension) -> Changes:
    """Of conditions that have no change of their own, as comparisons, `and`, `or` and `not` do."""
    for test in node.ifs if isinstance(node, ast.comprehension) else [node.test]:
        if ast.unparse(test) != "TYPE_CHECKING" and isinstance(
            test, ast.Name | ast.Attribute | ast.Call | ast.Subscript
        ):
            yield "condition", test, ast.UnaryOp(ast.Not(), test)


def _change_constant(node: ast.Constant) -> Changes:
    if isinstance(node.value, bool):
        yield "constant", node, ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant", node, ast.Constant(node.value + 1)
    elif isinstance(node.value, float):
        yield "constant", node, ast.Constant(node.value * 2 or 1.0)


def _change_default(node: ast.arguments) -> Changes:
    for default in filter(None, node.defaults + node.kw_defaults):
        if _is_text(default):
            yield "default", default, ast.Constant(default.value + "_")


def _change_key(node: ast.Subscript) -> Changes:
    if _is_text(node.slice):
        yield "key", node.slice, ast.Constant(node.slice.value + "_")


def _change_keys(node: ast.Dict) -> Changes:
    for key in filter(None, node.keys):
        if _is_text(key):
            yield "key", key, ast.Constant(key.value + "_")


def _change_call(node: ast.Call) -> Changes:
    name = ast.unparse(node.func)
    if LOGS.fullmatch(name):
        return
    if name.endswith(".get") and node.args and _is_text(node.args[0]):
        yield "key", node.args[0], ast.Constant(node.args[0].value + "_")
    for argument in node.keywords:
        if argument.arg and _counts(node, argument):
            keywords = [keyword for keyword in node.keywords if keyword is not argument]
            yield "argument", node, ast.Call(node.func, node.args, keywords)


def _drop_expression(node: ast.Expr) -> Changes:
    if isinstance(node.value, ast.Call) and not LOGS.fullmatch(ast.unparse(node.value.func)):
        yield "statement", node, "pass"


def _drop_statement(node: ast.stmt) -> Changes:
    yield "statement", node, "pass"


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


CHANGES = {
    ast.Compare: _change_comparison,
    ast.BoolOp: _change_boolean,
    ast.BinOp: _change_arithmetic,
    ast.UnaryOp: _change_sign,
    ast.If: _negate_condition,
    ast.While: _negate_condition,
    ast.IfExp: _negate_condition,
    ast.comprehension: _negate_condition,
    ast.Constant: _change_constant,
    ast.arguments: _change_default,
    ast.Subscript: _change_key,
    ast.Dict: _change_keys,
    ast.Call: _change_call,
    ast.Expr: _drop_expression,
    ast.AugAssign: _drop_statement,
    ast.Raise: _drop_statement,
    ast.Continue: _drop_statement,
    ast.Break: _drop_statement,
}
