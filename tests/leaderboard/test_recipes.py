"""The guide of ten changes is true: all of them are made in one copy of the tree, and what it says to run is run."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from django.conf import settings

from leaderboard.queries.recipes import Recipe, RecipeEdit, RecipeRun, read_recipes
from tests.conftest import keep_migrated, make_file

pytestmark = pytest.mark.either_database

RECIPES = read_recipes()
KEPT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".env", "var", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"
)
FIRST = ("makemigrations", "migrate", "seed")  # these come once for all changes, in this order
OF_TESTS = ("PYTEST", "DJANGO", "PLUMBLINE", "DATABASE_URL", "BROKER_URL", "CACHE_URL", "COV")
LINTERS = (  # of `make lint`, but for the types, the migrations, the workflows and what is pinned
    *("ruff check .", "ruff format --check .", "lint-imports", "python tests/names.py leaderboard scoring"),
    *("djlint templates --lint --quiet", "python -W error manage.py check --fail-level WARNING"),
)


@dataclass
class ChangedTree:
    """A copy of the tree in which all changes are made, what each step answered, and the tests that passed."""

    folder: Path
    answers: dict[str, str]
    passed: list[tuple[str, str]]  # module and name

    def answer(self, run: RecipeRun) -> str:
        """What somebody sees who makes the step."""
        if not run.command.startswith("pytest "):
            return self.answers[run.command or run.page]
        chosen_tests = [test.partition("::") for test in shlex.split(run.command)[1:]]
        modules = [(file.removesuffix(".py").replace("/", "."), name) for file, _, name in chosen_tests]
        count = sum((module, "") in modules or (module, name) in modules for module, name in self.passed)
        return f"{count} passed"


def apply_edit(folder: Path, edit: RecipeEdit) -> None:
    path = folder / edit.file
    if not edit.after and not edit.replaces:
        assert not path.exists(), f"{edit.file} is there already"
        path.write_text(edit.text)
        return
    content, lines = path.read_text(), edit.after or edit.replaces
    assert content.count(lines) == 1, f"{edit.file} has these lines {content.count(lines)} times:\n{lines}"
    path.write_text(content.replace(lines, edit.after + edit.text))


def surroundings(folder: Path) -> dict[str, str]:
    """The environment of a board in the tree, without data and without what tests set."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(OF_TESTS)}
    board = {"DJANGO_SETTINGS_MODULE": "leaderboard.settings", "PLUMBLINE_VAR": str(folder / "var")}
    return own | board | {"PLUMBLINE_DATA": str(folder / "var" / "data"), "PYTHONPATH": str(folder)}


def run_in(folder: Path, command: str, content: str = "") -> str:
    program, *words = shlex.split(command)
    path = sys.executable if program == "python" else str(Path(sys.executable).with_name(program))
    process = subprocess.run(
        [path, *words], cwd=folder, env=surroundings(folder), input=content, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, f"{command}:\n{process.stdout[-8000:]}{process.stderr[-8000:]}"
    return process.stdout


def order_steps(recipes: list[Recipe]) -> list[str]:
    """Commands of `manage.py`, those of FIRST before the others, then pages; each once."""
    runs = [run for recipe in recipes for run in recipe.runs if not run.command.startswith("pytest ")]
    commands = list(dict.fromkeys(run.command for run in runs if run.command))
    order = {name: place for place, name in enumerate(FIRST)}
    commands.sort(key=lambda command: order.get(command.split()[2], len(order)))
    return [*commands, *dict.fromkeys(run.page for run in runs if run.page)]


@pytest.fixture(scope="module")
def changed_tree(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> ChangedTree:
    folder = tmp_path_factory.mktemp("changes") / "plumbline"
    shutil.copytree(settings.BASE_DIR, folder, ignore=KEPT_OUT)
    for recipe in RECIPES:
        for edit in recipe.edits:
            apply_edit(folder, edit)
    (folder / "var" / "data").mkdir(parents=True)
    database = keep_migrated(pytestconfig.cache.mkdir("databases"), make_file)
    shutil.copyfile(database, folder / "var" / "plumbline.sqlite3")
    answers = run_in(folder, "python -m tests.leaderboard.recipe_steps", json.dumps(order_steps(RECIPES)))
    commands = [run.command for recipe in RECIPES for run in recipe.runs if run.command.startswith("pytest ")]
    chosen_tests = dict.fromkeys(test for command in commands for test in shlex.split(command)[1:])
    run_in(folder, shlex.join(["python", "-m", "pytest", "-q", "--junitxml=passed.xml", *chosen_tests]))
    cases = ElementTree.parse(folder / "passed.xml").iter("testcase")  # noqa: S314 (the tests above wrote it)
    passed = [(case.attrib["classname"], case.attrib["name"]) for case in cases if not len(case)]
    return ChangedTree(folder, json.loads(answers), passed)


def test_the_guide_has_the_common_changes():
    assert [recipe.key for recipe in RECIPES] == [
        *("scorer", "measure", "formula", "model-field", "column"),
        *("page", "upload-format", "evaluation-set", "kind-of-work", "alert"),
    ]


def test_the_page_shows_every_line_and_every_command(client, db):
    html = unescape(client.get("/docs/changes/").content.decode())
    for recipe in RECIPES:
        for edit in recipe.edits:
            assert all(lines.strip("\n") in html for lines in (edit.text, edit.after, edit.replaces))
        assert all((run.command or run.page) in html for run in recipe.runs)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.key)
def test_each_change_brings_a_test_and_says_what_is_seen(recipe: Recipe):
    tests = [edit.file for edit in recipe.edits if Path(edit.file).name.startswith("test_")]
    commands = [run.command for run in recipe.runs]
    assert any(file in command.split() for file in tests for command in commands)
    assert any(run.shows for run in recipe.runs)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.key)
def test_who_follows_the_steps_sees_what_the_guide_says(recipe: Recipe, changed_tree: ChangedTree):
    for run in recipe.runs:
        answer = changed_tree.answer(run)
        assert [words for words in run.shows if words not in answer] == [], answer[-4000:]


@pytest.mark.slow
@pytest.mark.parametrize("linter", LINTERS)
def test_the_code_of_the_guide_keeps_the_rules(linter: str, changed_tree: ChangedTree):
    run_in(changed_tree.folder, linter)
