"""What of the three papers is on this board: each table, figure and claim, its page, its commands and both values."""

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from leaderboard.queries.papers import FigurePaper, papers
from leaderboard.services.figures import FOLDER, rows

CONTENTS = FOLDER / "reproductions.toml"


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """One value of a CSV file of published figures: words for it, and the row and column where it stands."""

    words: str
    file: str
    where: dict[str, str]
    column: str

    @property
    def value(self) -> str:
        """As printed. Raises LookupError where no row is such."""
        for row in rows(f"{self.file}.csv"):
            if all(row[name] == value for name, value in self.where.items()):
                return row[self.column]
        raise LookupError(f"{self.file}.csv has no row with {self.where}")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A table, figure or claim. page: its address here; commands: what makes it; ours: what comes out here."""

    item: str
    what: str
    page: str
    commands: tuple[str, ...] = ()
    printed: tuple[PrintedCell, ...] = ()
    ours: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PaperReproductions:
    """The rows of a paper."""

    paper: FigurePaper
    rows: list[Reproduction] = field(default_factory=list)


@lru_cache(maxsize=1)
def reproductions() -> tuple[PaperReproductions, ...]:
    """All rows by paper, in the order of the file, which never changes while it runs."""
    by_key = {paper.key: paper for paper in papers()}
    content = tomllib.loads(CONTENTS.read_text(encoding="utf-8"))
    return tuple(
        PaperReproductions(by_key[entry["key"]], [_row(values) for values in entry["rows"]])
        for entry in content["papers"]
    )


def _row(values: dict[str, Any]) -> Reproduction:
    cells = tuple(PrintedCell(**cell) for cell in values.get("printed", ()))
    return Reproduction(**{**values, "commands": tuple(values.get("commands", ())), "printed": cells})
