"""The size and the structure of the code, as it lies here."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import grimp
import networkx

from tests.mutants.touching import PACKAGES

TREES = (*PACKAGES, "tests")
LONG_FUNCTION = 40  # lines, as CONTRIBUTING.md says


def list_modules(tree: str) -> list[Path]:
    """The modules of a folder but migrations, which are frozen."""
    return sorted(path for path in Path(tree).rglob("*.py") if "migrations" not in path.parts)


def count_lines() -> dict[str, tuple[int, int]]:
    """Lines and modules of each tree."""
    counts = {}
    for tree in TREES:
        modules = list_modules(tree)
        counts[tree] = (sum(count_lines_of(path) for path in modules), len(modules))
    return counts


def count_lines_of(path: Path) -> int:
    """Lines of a file, as an editor counts them."""
    return len(path.read_text().splitlines())


def rank_modules(count: int) -> list[tuple[str, int]]:
    """The modules with the most lines, and how many."""
    sizes = Counter({str(path): count_lines_of(path) for tree in TREES for path in list_modules(tree)})
    return sizes.most_common(count)


def list_long_functions() -> list[tuple[str, int]]:
    """Functions over 40 lines, the longest first: where they begin, and their lines."""
    functions = Counter(dict(_measure_functions()))
    return [(place, size) for place, size in functions.most_common() if size > LONG_FUNCTION]


def _measure_functions() -> Iterator[tuple[str, int]]:
    for path in (path for tree in TREES for path in list_modules(tree)):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1


def list_circles(packages: Sequence[str] = PACKAGES) -> list[list[str]]:
    """Sets of modules of which each imports each other, in the end; imports for types alone do not count."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    imports = networkx.DiGraph(
        (module, other) for module in graph.modules for other in graph.find_modules_directly_imported_by(module)
    )
    circles = (sorted(circle) for circle in networkx.strongly_connected_components(imports) if len(circle) > 1)
    return sorted(circles, key=len, reverse=True)


def check_layers() -> str:
    """What import-linter says of the layers, in a line."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = process.stdout.splitlines()
    return next((line.lower() for line in reversed(lines) if line.startswith("Contracts:")), "not checked: make lint")
