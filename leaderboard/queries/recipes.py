"""The ten common changes of the code, step by step, as `leaderboard/recipes/*.toml` declares them.

The documentation shows a recipe, and a test carries it out on a copy of the tree: the text is what runs.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

FOLDER = settings.BASE_DIR / "leaderboard" / "recipes"


@dataclass(frozen=True, slots=True)
class RecipeEdit:
    """What is written into a file of the tree. `text` goes below the lines `after`, or replaces the lines `replaces`.

    Those lines stand in the file exactly once. With neither, the file is new and `text` is all of it.
    """

    file: str
    words: str
    text: str
    after: str = ""
    replaces: str = ""


@dataclass(frozen=True, slots=True)
class RecipeRun:
    """What to do then, and what is seen: a command as typed at a terminal, or the address of a page to open.

    shows: words of the output or of the page.
    """

    words: str
    command: str = ""
    page: str = ""
    shows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recipe:
    """A change. `notes`: what else to think of, a sentence or two each."""

    key: str
    title: str
    summary: str
    notes: tuple[str, ...]
    edits: tuple[RecipeEdit, ...]
    runs: tuple[RecipeRun, ...]


def read_recipes() -> list[Recipe]:
    """Every recipe, in the order of the guide."""
    return [read_recipe(path) for path in sorted(FOLDER.glob("*.toml"))]


def read_recipe(path: Path) -> Recipe:
    """The recipe in a file, whose name is its place in the guide and its key, as in `01_scorer.toml`."""
    table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    edits = tuple(RecipeEdit(**edit) for edit in table["edits"])
    runs = tuple(RecipeRun(**run | {"shows": tuple(run.get("shows", ()))}) for run in table["runs"])
    key = path.stem.partition("_")[2].replace("_", "-")
    return Recipe(key, table["title"], table["summary"], tuple(table["notes"]), edits, runs)
