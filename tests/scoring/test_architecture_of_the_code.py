"""Directions that imports must keep."""

import ast
import re
from pathlib import Path

import pytest

from tests.health.code import list_circles

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted((ROOT / "scoring").rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_engine_knows_nothing_of_the_site(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & {"django", "leaderboard", "celery"}


def test_code_that_comes_with_a_model_is_never_run():
    sources = [
        path.read_text(encoding="utf-8")
        for folder in ("scoring", "leaderboard", "tests")
        for path in (ROOT / folder).rglob("*.py")
    ]
    calls = [
        keyword.value.value
        for source in sources
        if "trust_remote_code=" in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "trust_remote_code" and isinstance(keyword.value, ast.Constant)
    ]
    assert set(calls) == {False}


def test_no_modules_import_one_another_in_a_circle():
    assert list_circles() == []


SITE = [*sorted((ROOT / "leaderboard").rglob("*.py")), *sorted((ROOT / "templates").rglob("*.html"))]
KIND_OF_FORMULA = re.compile(r"LikelihoodFormula|ScoreFormula|PairFormula|formula(_name|\.name) [=!]=|asks_scorer")
NAME_OF_SCORER = re.compile(
    r'(startswith|removeprefix)\((LEXICON|CLASSIFIER|"(lexicon|classifier|detoxify|perspective))'
    r'|scorer(\.name)? [=!]= "'
)


@pytest.mark.slow
def test_nothing_outside_asks_which_kind_a_formula_is_or_what_a_scorer_is_called():
    # `formula_name == metric.formula_name` compares two metrics, which is no question about a kind.
    for path in SITE:
        if "migrations" not in path.parts:
            text = re.sub(r"\w+\.formula_name == metric\.formula_name", "", path.read_text(encoding="utf-8"))
            assert not KIND_OF_FORMULA.search(text), path
            assert not NAME_OF_SCORER.search(text), path
