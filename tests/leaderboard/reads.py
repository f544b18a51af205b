"""Which names code reads from a mapping such as the environment, as its syntax tree has them."""

import ast
from collections.abc import Callable, Iterator


def strings_of(node: ast.AST, tree: ast.Module) -> set[str]:
    """The strings that an expression may be: its own, or those of the name that it is, in a loop or in the module."""
    if not isinstance(node, ast.Name):
        return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    sources: list[ast.AST] = []
    for part in ast.walk(tree):
        loops = [part] if isinstance(part, ast.For) else getattr(part, "generators", [])
        if any(inner is node for inner in ast.walk(part) if loops):
            sources += [loop.iter for loop in loops if getattr(loop.target, "id", "") == node.id]
    sources = [source for source in sources if isinstance(source, (ast.Name, ast.Tuple, ast.List))]
    for line in tree.body:
        match line:
            case ast.Assign([ast.Name(name)], source) if name == node.id:
                sources.append(source)
    return set().union(*(strings_of(source, tree) for source in sources))


def reads_of(tree: ast.Module, is_source: Callable[[ast.AST], bool]) -> Iterator[set[str]]:
    """For each place where a module uses the mapping: the names that it reads; empty where they cannot be told."""
    keys: dict[ast.AST, ast.AST] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(source, key) | ast.Call(ast.Attribute(source), [key, *_]) if is_source(source):
                keys[source] = key
            case ast.Call(source, [key, *_]) if is_source(source):
                keys[source] = key
            case ast.Compare(key, [ast.In() | ast.NotIn()], [source]) if is_source(source):
                keys[source] = key
            case ast.BinOp(key, ast.BitAnd(), ast.Call(ast.Attribute(source, "keys"))) if is_source(source):
                keys[source] = key
    for node in filter(is_source, ast.walk(tree)):
        yield strings_of(keys[node], tree) if node in keys else set()
