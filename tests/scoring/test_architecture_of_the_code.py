"""Directions that imports must keep."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted((ROOT / "scoring").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_engine_knows_nothing_of_the_site(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & {"django", "leaderboard", "celery"}
