"""The picture of the code in README.md and CONTRIBUTING.md is the code."""

from pathlib import Path

import pytest
from django.conf import settings

ROOT = settings.BASE_DIR
INDENT = 2  # blanks of a level
DRAWN = ("scoring", "leaderboard")  # of which every folder of code is drawn


def read_tree(name: str) -> list[Path]:
    """The folders of the picture in a document."""
    lines = (ROOT / name).read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("    scoring/"))
    folders: list[Path] = []
    parents: dict[int, Path] = {}
    for line in lines[start:]:
        if not line.startswith("    "):
            return folders
        level = (len(line) - len(line.lstrip()) - 4) // INDENT
        for word in line.split():
            if not word.endswith("/"):
                break
            folder = parents.get(level - 1, Path()) / word.rstrip("/") if level else Path(word.rstrip("/"))
            folders.append(folder)
            parents[level] = folder
    return folders


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_the_picture_has_every_folder_of_code_and_no_other(name):
    folders = read_tree(name)
    assert [str(folder) for folder in folders if not (ROOT / folder).is_dir()] == []
    code = {
        path.relative_to(ROOT)
        for top in DRAWN
        for path in (ROOT / top).rglob("*/")
        if path.is_dir() and (any(path.glob("*.py")) or any(path.glob("*.csv")))
    }
    code -= {path for path in code if "bundled" in path.parts or path.name in ("commands", "__pycache__")}
    drawn = {folder for folder in folders if folder.parts[0] in DRAWN and len(folder.parts) > 1}
    assert sorted(map(str, code - drawn)) == []
    assert sorted(map(str, drawn - code)) == []
