"""A check of `make lint`: a local or a parameter is named by a noun, and each class has a name of its own."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

WORDS = """
of at by to in on with from for about above below beside besides beyond among within without against through under over
since until before after apart inside outside near towards between behind along
there here then where what which who whom why how when again anew also still so thus once mine ours theirs yours
found said told spelled shown kept given left made taken sent seen known meant chosen drawn held lost gone written begun
came heard done hidden built broken forgotten spent fallen bound brought sought withdrawn unread unseen unsent
"""
PARTICIPLE = re.compile(r"[a-z]{3,}(ed|ing)")
# What ends as participles do: nouns, and the name that a library gives to a parameter.
NOUNS = """
speed seed feed need embed red string setting scoring rescoring reading rating ranking heading standing embedding
listing warning mapping training spacing thing ping ring finding meaning opening padding decoding encoding rounding
stereotyping ending beginning timing surroundings everything nothing something anything morning spelling sibling
required
"""


def is_refused(name: str) -> bool:
    """Whether nobody can tell from the name what it holds or does."""
    word = name.strip("_")
    return word in WORDS.split() or (word not in NOUNS.split() and bool(PARTICIPLE.fullmatch(word)))


def list_locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The parameters of a function and what is assigned in it, lambdas and functions within it included."""
    parameters = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return parameters | {node.id for node in names if isinstance(node.ctx, ast.Store)}


def check_locals(path: Path, tree: ast.Module) -> Iterator[str]:
    """A line for each function of a file that has such a name."""
    for node in ast.walk(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and (names := sorted(filter(is_refused, list_locals(node)))):
            yield f"{path}:{node.lineno}: {node.name}: name by a noun what these hold: {', '.join(names)}"


def check_classes(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """A line for each class whose name another module has too; one that is part of a class or a command may."""
    places: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name != "Command":
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    for name, lines in places.items():
        if len(lines) > 1:
            yield f"{', '.join(lines)}: each gives the name {name} to another class"


def check(folders: list[Path]) -> list[str]:
    """What is wrong in all modules of the folders but migrations, a line each."""
    paths = sorted(path for folder in folders for path in folder.rglob("*.py") if "migrations" not in path.parts)
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    return [line for path, tree in trees.items() for line in check_locals(path, tree)] + list(check_classes(trees))


if __name__ == "__main__":
    sys.exit("\n".join(check([Path(folder) for folder in sys.argv[1:]])) or 0)
