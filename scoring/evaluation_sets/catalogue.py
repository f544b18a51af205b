"""The catalogue: every evaluation set this project knows, declared once in catalogue.toml."""

import difflib
import re
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

KINDS = ("labelled_sentences", "prompts", "stereotype_pairs", "coreference", "text")
FORMATS = ("", "safenlp", "prompts")  # what can be imported; empty where nothing reads the set from a file
_CATALOGUE = Path(__file__).with_name("catalogue.toml")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class CatalogueError(ValueError):
    """A declaration in a catalogue file is wrong: the message names the set and the key."""


class UnknownEvaluationSetError(LookupError):
    """There is no evaluation set of that name: the message lists those there are."""


@dataclass(frozen=True, slots=True)
class CatalogueFile:
    """A file of a set, fixed by its checksum."""

    path: str  # relative to the folder PLUMBLINE_DATA names, with forward slashes
    url: str  # its public home at a pinned commit; empty where none is known
    bytes: int
    sha256: str  # 64 hex digits


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """An evaluation set as its source describes it."""

    name: str
    title: str
    kind: str  # one of KINDS
    format: str  # one of FORMATS
    licence: str
    citation: str  # one line
    citation_key: str  # for BibTeX
    paper: str  # address of the paper; empty where there is none
    notice: str  # what a reader should know before looking at the texts
    files: tuple[CatalogueFile, ...]  # data first, then licences; none where texts are built, or have no pinned home


def load_catalogue(path: Path = _CATALOGUE) -> dict[str, CatalogueEntry]:
    """Every declared set by its name, in the file's order. Raises CatalogueError where a declaration is wrong."""
    return dict(_load(path))


def get(name: str) -> CatalogueEntry:
    """The set of that name. Raises UnknownEvaluationSetError, which lists the known names and the closest."""
    known = _load(_CATALOGUE)
    if name in known:
        return known[name]
    closest = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean '{closest[0]}'?" if closest else ""
    raise UnknownEvaluationSetError(f"there is no evaluation set '{name}'.{hint} Known: {', '.join(known)}.")


@cache
def _load(path: Path) -> dict[str, CatalogueEntry]:
    try:
        declared = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CatalogueError(f"{path}: not a TOML file in UTF-8: {error}") from error
    return {name: _entry(name, table, f"{path}, [{name}]") for name, table in declared.items()}


def _entry(name: str, table: Any, where: str) -> CatalogueEntry:
    if not isinstance(table, dict):
        raise CatalogueError(f"{where}: expected a table")
    files = tuple(_file(file, f"{where}, file {number}") for number, file in enumerate(table.pop("files", []), start=1))
    _check_keys(table, {field.name for field in fields(CatalogueEntry)} - {"name", "files"}, where)
    for key, value in table.items():
        if not isinstance(value, str):
            raise CatalogueError(f"{where}: {key} is not a string")
        if not value and key not in ("format", "paper"):
            raise CatalogueError(f"{where}: {key} is empty")
    for key, allowed in (("kind", KINDS), ("format", FORMATS)):
        if table[key] not in allowed:
            raise CatalogueError(f"{where}: {key} '{table[key]}' is none of {', '.join(filter(None, allowed))}")
    return CatalogueEntry(name=name, files=files, **table)


def _file(table: dict[str, Any], where: str) -> CatalogueFile:
    _check_keys(table, {field.name for field in fields(CatalogueFile)}, where)
    file = CatalogueFile(**table)
    path = PurePosixPath(file.path)
    if path.is_absolute() or ".." in path.parts or "\\" in file.path:
        raise CatalogueError(f"{where}: path '{file.path}' leaves the data folder")
    if not _SHA256.fullmatch(file.sha256):
        raise CatalogueError(f"{where}: sha256 is not 64 hex digits in lower case")
    if isinstance(file.bytes, bool) or not isinstance(file.bytes, int) or file.bytes < 1:
        raise CatalogueError(f"{where}: bytes is not a positive whole number")
    return file


def _check_keys(table: dict[str, Any], expected: set[str], where: str) -> None:
    if missing := expected - table.keys():
        raise CatalogueError(f"{where}: missing {', '.join(sorted(missing))}")
    if unknown := table.keys() - expected:
        raise CatalogueError(f"{where}: unknown {', '.join(sorted(unknown))}")
