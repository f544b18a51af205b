"""The words of this board and their meanings, as `glossary.toml` declares them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Term:
    """A word and its meaning. page: the name of the page that says more, with what its address takes and an anchor.

    also: other words that a reader may look for.
    """

    key: str
    name: str
    meaning: str
    page: tuple[str, ...] = ()
    anchor: str = ""
    also: str = ""


@dataclass(frozen=True, slots=True)
class TermGroup:
    """Terms that belong together."""

    title: str
    terms: tuple[Term, ...]


def read_term(row: dict[str, Any]) -> Term:
    """A term as the file declares it."""
    return Term(**(row | {"page": tuple(row.get("page", ()))}))


FILE = Path(__file__).with_suffix(".toml")
GLOSSARY = tuple(
    TermGroup(group["title"], tuple(read_term(row) for row in group["term"]))
    for group in tomllib.loads(FILE.read_text(encoding="utf-8"))["group"]
)
TERMS = {term.key: term for group in GLOSSARY for term in group.terms}
