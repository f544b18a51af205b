"""The tables of agreement as rows for files and programs: every coefficient with its interval, n, p and reason."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from leaderboard.formats import Table, TableColumn
from leaderboard.models import Provenance
from leaderboard.queries.agreement import PROPERTIES, MeasureColumn, Values
from leaderboard.queries.coefficients import (
    COEFFICIENTS,
    CoefficientCell,
    ModelGroup,
    by_family,
    pair_cells,
)

Record = dict[str, Any]


def correlation_rows(groups: Sequence[ModelGroup]) -> Iterator[Record]:
    """A row for every two columns in each group; p_holm is adjusted over the matrix of its group and coefficient."""
    for group in groups:
        cells = {coefficient: pair_cells(group.values, coefficient) for coefficient in COEFFICIENTS}
        for pair in cells["pearson"]:
            first, second = (group.values.columns[place] for place in pair)
            yield {
                "models": group.title,
                **describe_column(first, "a_"),
                **describe_column(second, "b_"),
                **count_origins(group.values, [*pair]),
                **describe_coefficients({name: cells[name][pair] for name in COEFFICIENTS}),
            }


def size_rows(groups: Sequence[ModelGroup]) -> Iterator[Record]:
    """A row for each column, set of models in each group and property of the models.

    The sets are all models, those of each kind and of each family; p_holm is adjusted over those of a column.
    """
    for group in groups:
        for column in group.values.columns:
            tables = {coefficient: by_family(group.values, column, coefficient)[0] for coefficient in COEFFICIENTS}
            for number, row in enumerate(tables["pearson"]):
                for place, (name, (_, logarithmic)) in enumerate(PROPERTIES.items()):
                    yield {
                        "models": group.title,
                        "family": row.title,
                        **describe_column(column),
                        "property": f"log_{name}" if logarithmic else name,
                        **describe_coefficients(
                            {coefficient: rows[number].cells[place] for coefficient, rows in tables.items()}
                        ),
                    }


def model_rows(values: Values) -> Iterator[Record]:
    """A row for each model with its size, and its value and the origin of that in each column."""
    for place, model in enumerate(values.models):
        row: Record = {"model": model.name, "slug": model.slug, "family": model.family, "kind": model.kind}
        row |= {name: getattr(model, name) for name in PROPERTIES}
        for column, value, origin in zip(
            values.columns, values.values[:, place], values.origins[:, place], strict=True
        ):
            has_value = bool(np.isfinite(value)) and origin is not None
            row[column.key] = float(value) if has_value else None
            row[f"{column.key} from"] = origin.in_words if has_value else ""
        yield row


def describe_column(column: MeasureColumn, prefix: str = "") -> Record:
    """A column in the fields of a row, whose names begin with `prefix`."""
    return {
        f"{prefix}metric": column.metric.slug,
        f"{prefix}version": " ".join(str(version.number) for version in column.versions),
        f"{prefix}measure": column.measure.key,
        f"{prefix}slice": column.slice,
    }


def count_origins(values: Values, places: Sequence[int]) -> dict[str, int]:
    """How many models with values of all of the columns have only measured ones, only published ones, or both."""
    has_all = np.isfinite(values.values[places]).all(axis=0)
    origins = [{origin.version.provenance for origin in row} for row in values.origins[places][:, has_all].T]
    return {
        "n_measured": sum(sources == {Provenance.MEASURED.value} for sources in origins),
        "n_published": sum(sources == {Provenance.PUBLISHED.value} for sources in origins),
        "n_mixed": sum(len(sources) > 1 for sources in origins),
    }


def describe_coefficients(cells: dict[Any, CoefficientCell]) -> Record:
    """All coefficients of the same models, by name, in the fields of a row."""
    first = next(iter(cells.values()))
    row: Record = {"n": first.correlation.n}
    for name, cell in cells.items():
        correlation = cell.correlation
        bounds = [None, None] if cell.reason else [correlation.low, correlation.high]
        row |= {
            name: None if cell.reason else correlation.value,
            f"{name}_low": bounds[0],
            f"{name}_high": bounds[1],
            f"{name}_p_holm": cell.p,
        }
    return row | {"reason": first.reason}


def as_table(title: str, rows: Sequence[Record]) -> Table:
    """Rows under the names of their fields, numbers in full."""
    names = list(rows[0]) if rows else []
    columns = [
        TableColumn(name, all(isinstance(row[name], int | float | type(None)) for row in rows)) for name in names
    ]
    return Table(title, columns, [["" if row[name] is None else str(row[name]) for name in names] for row in rows])
