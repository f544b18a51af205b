"""Which functions depend on a line that runs on import: that whose signature it is in, and those that use its name."""

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


def list_dependent_lines(path: str, line: int, modules: list[str]) -> Iterator[tuple[str, range]]:
    """The functions of `modules` that depend on what a line declares, each as its module and lines."""
    names = set()
    for node in ast.walk(parse_module(path)):
        if not isinstance(node, ast.stmt) or line not in _lines_of(node):
            continue
        if isinstance(node, FUNCTIONS):
            yield path, _lines_of(node)
        elif isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(name for target in targets for name in _names_in(target))
    for module in modules:
        for lines, own_names in list_functions(module):
            if names & own_names:
                yield module, lines


def _lines_of(node: ast.stmt) -> range:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _names_in(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
