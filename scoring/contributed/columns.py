"""What a contributed table is made of."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from scoring.contributed.report import Flaw, Problems, shown_name

Row = tuple[int, dict[str, Any]]  # its number (CSV and JSON lines: of its first line) and its cells; null is left out


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its cells are texts, whole numbers, or lists of numbers."""

    name: str
    cells: Literal["text", "whole", "numbers"] = "text"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a cell that its format does not let be read."""

    kind: Flaw
    value: str
    remedy: str


def check_columns(names: list[str], columns: tuple[Column, ...], problems: Problems) -> None:
    """Raises ContributionRefused where a column is missing, unknown or there twice."""
    line = 1 if problems.unit == "line" else None
    column_names = [column.name for column in columns]
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        problems.stop(Flaw.NOT_CSV, line, None, "cells separated by semicolons or tabs", "separate them by commas")
    for name, count in Counter(names).items():
        if count > 1:
            problems.add(Flaw.COLUMN_TWICE, line, None, shown_name(name), "name each column once")
        if name not in column_names:
            problems.add(Flaw.UNKNOWN_COLUMN, line, None, shown_name(name), f"use {', '.join(column_names)}")
    for column in columns:
        if column.required and column.name not in names:
            remedy = f"begin with a line of names: {', '.join(column_names)}" if line else "add the column"
            problems.add(Flaw.MISSING_COLUMN, line, column.name, "absent", remedy)
    if problems:
        raise problems.refused(complete=False)
