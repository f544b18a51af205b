"""The scatter charts of the page of agreement."""

import math
from collections.abc import Sequence

import numpy as np

from leaderboard.charts import MOST_GROUPS, Chart, ScatterPanel, Series, scatter_chart
from leaderboard.models import address_of_model
from leaderboard.queries.agreement import PROPERTIES, MeasureColumn, Values
from leaderboard.queries.coefficients import Point, points_of
from leaderboard.templatetags.layout import counted
from scoring.statistics.regression import line

OTHERS = "other families"


def pair_chart(x: MeasureColumn, y: MeasureColumn, points: Sequence[Point], words: str) -> Chart:
    """A point a model, with the straight line through them."""
    fit = line(np.array([point.x for point in points]), np.array([point.y for point in points]))
    panel = ScatterPanel(x.title, series_of(points), line=fit, limits=limits_of(x))
    alternative = (
        f"{y.title}, against {x.title}, of {counted(len(points), 'model')}: {words}. "
        "The table under it has the same numbers."
    )
    return scatter_chart("agreement", [panel], y.label, alternative, limits_of(y))


def architecture_chart(values: Values, column: MeasureColumn, property_name: str) -> Chart | None:
    """One measure against one property, by family."""
    label, logarithmic = PROPERTIES[property_name]
    points = points_of(values, property_name, column)
    if len(points) < 2:
        return None
    fit = None if logarithmic else line(np.array([p.x for p in points]), np.array([p.y for p in points]))
    alternative = (
        f"{column.title}, against {label.lower()}, of {counted(len(points), 'model')}, by family. "
        "The table under it has the correlations in each family."
    )
    title = f"{label}, logarithmic scale" if logarithmic else label
    panel = ScatterPanel(title, series_of(points, label.lower()), logarithmic, line=fit, limits=(0, math.inf))
    return scatter_chart("architecture", [panel], column.label, alternative, limits_of(column))


def limits_of(column: MeasureColumn) -> tuple[float, float]:
    """The least and the largest value that a column can have."""
    return column.measure.smallest, column.measure.largest


def series_of(points: Sequence[Point], unit: str = "") -> list[Series]:
    """The points by family, the largest first; more families than there are symbols share the last one."""
    families: dict[str, list[Point]] = {}
    for point in points:
        families.setdefault(point.model.family or "no family known", []).append(point)
    by_size = sorted(families.items(), key=lambda item: (-len(item[1]), item[0]))
    if len(by_size) > MOST_GROUPS:
        rest = [point for _, family_points in by_size[MOST_GROUPS - 1 :] for point in family_points]
        by_size = [*by_size[: MOST_GROUPS - 1], (OTHERS, rest)]
    return [
        Series(
            family,
            [point.x for point in family_points],
            [point.y for point in family_points],
            [f"{point.model.name}: {f'{point.x_text} {unit}'.strip()}, {point.y_text}" for point in family_points],
            names=[point.model.name for point in family_points],
            links=[address_of_model(point.model.slug) for point in family_points],
        )
        for family, family_points in by_size
    ]
