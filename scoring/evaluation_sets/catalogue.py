"""The catalogue: every evaluation set this project knows, declared once in catalogue.toml."""

import difflib
import re
import tomllib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from scoring.refusals import Missing

KINDS = (
    *("labelled_sentences", "labelled_texts", "prompts", "stereotype_pairs", "stereotype_triples", "coreference"),
    "text",
)
# What can be imported; empty where nothing reads the set from a file.
FORMATS = (
    *("", "safenlp", "prompts", "crows_pairs", "stereoset", "winobias", "winogender"),
    *("hatecheck", "rtp-lx", "civil-comments"),
)
_CATALOGUE = Path(__file__).with_name("catalogue.toml")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class CatalogueError(ValueError):
    """A declaration in a catalogue file is wrong: the message names the set and the key."""


class UnknownEvaluationSetError(Missing, LookupError):
    """There is no evaluation set of that name: the message lists them."""


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

    @property
    def source(self) -> str:
        """Where the texts are from: the address of the first file, or of the paper; empty where they are built."""
        return self.files[0].url if self.files else self.paper


def load_catalogue(path: Path = _CATALOGUE) -> dict[str, CatalogueEntry]:
    """Every declared set by its name, in the file's order. Raises CatalogueError where a declaration is wrong."""
    return dict(_load(path))


def readable_sets() -> list[str]:
    """The names of the sets that are read from files."""
    return [name for name, entry in _load(_CATALOGUE).items() if entry.format]


def get(name: str) -> CatalogueEntry:
    """The set of that name. Raises UnknownEvaluationSetError, which lists the known names and the closest."""
    entries = _load(_CATALOGUE)
    if name in entries:
        return entries[name]
    closest = difflib.get_close_matches(name, entries)
    hint = f" Did you mean '{closest[0]}'?" if closest else ""
    raise UnknownEvaluationSetError(f"there is no evaluation set '{name}'.{hint} Known: {', '.join(entries)}.")


@cache
def _load(path: Path) -> dict[str, CatalogueEntry]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CatalogueError(f"{path}: not a TOML file in UTF-8: {error}") from error
    return {name: _entry(name, table, f"{path}, [{name}]") for name, table in tables.items()}


def _entry(name: str, table: Any, place: str) -> CatalogueEntry:
    if not isinstance(table, dict):
        raise CatalogueError(f"{place}: expected a table")
    files = tuple(_file(file, f"{place}, file {number}") for number, file in enumerate(table.pop("files", []), start=1))
    _check_keys(table, {field.name for field in fields(CatalogueEntry)} - {"name", "files"}, place)
    for key, value in table.items():
        if not isinstance(value, str):
            raise CatalogueError(f"{place}: {key} is not a string")
        if not value and key not in ("format", "paper"):
            raise CatalogueError(f"{place}: {key} is empty")
    for key, choices in (("kind", KINDS), ("format", FORMATS)):
        if table[key] not in choices:
            raise CatalogueError(f"{place}: {key} '{table[key]}' is none of {', '.join(filter(None, choices))}")
    return CatalogueEntry(name=name, files=files, **table)


def _file(table: dict[str, Any], place: str) -> CatalogueFile:
    _check_keys(table, {field.name for field in fields(CatalogueFile)}, place)
    file = CatalogueFile(**table)
    path = PurePosixPath(file.path)
    if path.is_absolute() or ".." in path.parts or "\\" in file.path:
        raise CatalogueError(f"{place}: path '{file.path}' leaves the data folder")
    if not _SHA256.fullmatch(file.sha256):
        raise CatalogueError(f"{place}: sha256 is not 64 hex digits in lower case")
    if isinstance(file.bytes, bool) or not isinstance(file.bytes, int) or file.bytes < 1:
        raise CatalogueError(f"{place}: bytes is not a positive whole number")
    return file


def _check_keys(table: dict[str, Any], expected_keys: set[str], place: str) -> None:
    if absent := expected_keys - table.keys():
        raise CatalogueError(f"{place}: missing {', '.join(sorted(absent))}")
    if unknown := table.keys() - expected_keys:
        raise CatalogueError(f"{place}: unknown {', '.join(sorted(unknown))}")
