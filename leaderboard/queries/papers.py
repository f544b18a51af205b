"""The papers whose figures come with Plumbline: their tables, as `leaderboard/published/papers.toml` lists them."""

import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from leaderboard.services.figures import FOLDER, rows

SOURCE = "source"  # columns that say where a row stands begin so


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table of a paper: a CSV file, as printed.

    metrics: slugs of the boards that hold its numbers, none where they are no scores of a model; page: the name of a
    page about it; group: the column that divides its rows; contradictions: where the paper disagrees with its own data.
    """

    file: str
    title: str
    what: str
    metrics: tuple[str, ...] = ()
    page: str = ""
    group: str = ""
    contradictions: tuple[str, ...] = ()

    @property
    def rows(self) -> list[dict[str, str]]:
        """Its rows, values as printed."""
        return rows(f"{self.file}.csv")


@dataclass(frozen=True, slots=True)
class FigurePaper:
    """A paper. data: the repository of its numbers, if any; contradictions: those that are of no one table."""

    key: str
    authors: str
    title: str
    address: str
    tables: tuple[FigureTable, ...]
    data: str = ""
    contradictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A column of a table: its name as in the file, and whether it holds numbers."""

    name: str
    is_number: bool

    @property
    def label(self) -> str:
        """As in "Hidden dim"."""
        words = self.name.replace("_", " ")
        return words[:1].upper() + words[1:]


@dataclass(frozen=True, slots=True)
class FigureContents:
    """What a page shows of a table: columns, and rows by their group, "" where they are not divided.

    sources: what the columns that say where a row stands have in common for all rows; then they are not shown.
    """

    columns: list[FigureColumn]
    groups: dict[str, list[list[str]]] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(map(len, self.groups.values()))


@lru_cache(maxsize=1)
def papers() -> tuple[FigurePaper, ...]:
    """All papers, in the order of the file, which never changes while it runs."""
    content = tomllib.loads((FOLDER / "papers.toml").read_text(encoding="utf-8"))
    return tuple(
        FigurePaper(**_with_tuples(entry) | {"tables": tuple(FigureTable(**_with_tuples(t)) for t in entry["tables"])})
        for entry in content["papers"]
    )


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def find_table(name: str) -> tuple[FigurePaper, FigureTable] | None:
    """The table of that file, with its paper; None where there is none."""
    pairs = ((paper, table) for paper in papers() for table in paper.tables)
    return next((pair for pair in pairs if pair[1].file == name), None)


def find_tables(metric: str) -> list[tuple[FigurePaper, FigureTable]]:
    """The tables whose numbers the metric of that slug holds, each with its paper."""
    return [(paper, table) for paper in papers() for table in paper.tables if metric in table.metrics]


def find_contradictions(metric: str) -> list[str]:
    """Where the papers whose numbers the metric of that slug holds disagree with their own data."""
    return [sentence for _, table in find_tables(metric) for sentence in table.contradictions]


def read_contents(table: FigureTable) -> FigureContents:
    """The table as its page shows it."""
    table_rows = table.rows
    names = [name for name in table_rows[0] if name != table.group]
    constant_names = [name for name in names if name.startswith(SOURCE) and len({row[name] for row in table_rows}) == 1]
    columns = [
        FigureColumn(name, all(is_number(row[name]) for row in table_rows))
        for name in names
        if name not in constant_names and any(row[name] for row in table_rows)
    ]
    groups: dict[str, list[list[str]]] = {}
    for row in table_rows:
        key = row[table.group].replace("_", " ") if table.group else ""
        groups.setdefault(key, []).append([row[column.name] for column in columns])
    return FigureContents(columns, groups, [table_rows[0][name] for name in constant_names])


def is_number(text: str) -> bool:
    """Whether a cell holds a number, or nothing."""
    try:
        float(text or "0")
    except ValueError:
        return False
    return True
