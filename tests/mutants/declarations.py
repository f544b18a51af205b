"""Which functions depend on a line that runs on import: that whose signature it is in, and those that use its name.

Or that use a name which is declared by it, as a form is by the constants of its fields.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def parse_module(path: str) -> ast.Module:
    """Its syntax tree."""
    return ast.parse(Path(path).read_bytes())


@cache
def list_functions(path: str) -> list[tuple[range, frozenset[str]]]:
    """Of each function of a module: its lines, and the names that it uses, bare or after a dot."""
    functions = [node for node in ast.walk(parse_module(path)) if isinstance(node, FUNCTIONS)]
    return [(_lines_of(node), frozenset(_names_in(node))) for node in functions]


@cache
def list_declarations(path: str) -> list[tuple[str, frozenset[str]]]:
    """The names that a module declares, each with the names that its declaration uses on import."""
    pairs: list[tuple[str, frozenset[str]]] = []
    for node in parse_module(path).body:
        parts = [part for part in getattr(node, "body", [node]) if not isinstance(part, FUNCTIONS)]
        uses = frozenset(name for part in parts for name in _names_in(part))
        pairs += [(name, uses) for name in _names_declared_by(node)]
    return pairs


def runs_on_import(path: str, line: int) -> bool:
    """Whether a line is in no function's body: it runs for whichever test imports its module first."""
    functions = [node for node in ast.walk(parse_module(path)) if isinstance(node, FUNCTIONS)]
    return not any(line in _lines_of(statement) for function in functions for statement in function.body)


def list_lines_by_part(path: str, line: int, modules: list[str]) -> Iterator[tuple[str, range]]:
    """The functions that use a part of what is declared which the line names, as in `Kind(queue="gpu")`."""
    parts = {
        node.arg
        for node in ast.walk(parse_module(path))
        if isinstance(node, ast.keyword) and line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    for module in modules:
        for lines, own_names in list_functions(module):
            if parts & own_names:
                yield module, lines


def list_dependent_lines(path: str, line: int, modules: list[str]) -> Iterator[tuple[str, range]]:
    """The functions of `modules` that depend on what a line declares, each as its module and lines."""
    names: set[str] = set()
    for node in ast.walk(parse_module(path)):
        if isinstance(node, ast.stmt) and line in _lines_of(node):
            if isinstance(node, FUNCTIONS):
                yield path, _lines_of(node)
            names.update(_names_declared_by(node))
    for module in modules:
        names.update(name for name, uses in list_declarations(module) if uses & names)
    for module in modules:
        for lines, own_names in list_functions(module):
            if names & own_names:
                yield module, lines


def _names_declared_by(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign):
        yield from (name for target in node.targets for name in _names_in(target))
    elif isinstance(node, ast.AnnAssign):
        yield from _names_in(node.target)


def _lines_of(node: ast.stmt) -> range:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _names_in(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
