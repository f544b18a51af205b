"""The pictures of the code in CONTRIBUTING.md are the code."""

import re
import tomllib
from pathlib import Path

from django.conf import settings

ROOT = settings.BASE_DIR
INDENT = 2  # blanks of a level
DRAWN = ("scoring", "leaderboard")  # of which every folder of code is drawn
SOURCES = (".py", ".csv", ".toml")


def read_tree() -> list[Path]:
    """The folders of the picture."""
    lines = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
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


def test_the_picture_has_every_folder_of_code_and_no_other():
    folders = read_tree()
    assert [str(folder) for folder in folders if not (ROOT / folder).is_dir()] == []
    code = {
        path.relative_to(ROOT)
        for top in DRAWN
        for path in (ROOT / top).rglob("*/")
        if path.is_dir() and any(file.suffix in SOURCES for file in path.iterdir())
    }
    code -= {path for path in code if "bundled" in path.parts or path.name in ("commands", "__pycache__")}
    drawn = {folder for folder in folders if folder.parts[0] in DRAWN and len(folder.parts) > 1}
    assert sorted(map(str, code - drawn)) == []
    assert sorted(map(str, drawn - code)) == []


def read_floors() -> list[list[str]]:
    """The packages on each floor of the house, from the top."""
    lines = (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    return [line.rpartition("─ ")[2].split() for line in lines if line.startswith(("    ┌─", "    ├─", "    └─"))]


def read_layers() -> list[list[str]]:
    """The modules and packages of each layer that is checked, from the top, without the name of the site."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    return [[name.removeprefix("leaderboard.") for name in re.split(r" [|:] ", layer)] for layer in contract["layers"]]


def test_the_floors_are_the_layers_that_are_checked():
    heights = {name: height for height, layer in enumerate(read_layers()) for name in layer if "." not in name}
    floors = read_floors()
    drawn_names = {name for floor in floors for name in floor}
    packages = {name for name in heights if (ROOT / "leaderboard" / name).is_dir()}
    assert packages <= drawn_names <= set(heights)
    drawn = [heights[name] for floor in floors for name in sorted(floor, key=heights.__getitem__)]
    assert drawn == sorted(drawn)


def test_each_module_stands_in_a_layer():
    layers = {name for layer in read_layers() for name in layer}
    paths = [path.relative_to(ROOT / "leaderboard") for path in (ROOT / "leaderboard").rglob("*.py")]
    modules = [
        path.with_suffix("").parts for path in paths if path.name != "__init__.py" and path.parts[0] != "migrations"
    ]
    layers_of = {parts: {".".join(parts[: count + 1]) for count in range(len(parts))} & layers for parts in modules}
    assert [".".join(parts) for parts, own in layers_of.items() if not own] == [], (
        "put it into a layer in pyproject.toml"
    )
