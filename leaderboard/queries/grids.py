"""Families of models that differ in depth and width: their numbers over both, and what size has to do with them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leaderboard.models import LanguageModel, MetricVersion, Result, Work, is_unranked, not_held, ranked_now
from scoring.metrics.formulas import MEASURES, slice_label, slice_parts, slices_in_order
from scoring.metrics.measures import Measure
from scoring.statistics.correlations import Correlation, pearson

LEAST_SIZES = 2  # depths, and widths, of a grid
LEVELS = 4  # shades on either side of the middle
SIZES = {"layers": "Layers", "heads": "Attention heads", "hidden_size": "Hidden size"}


@dataclass(frozen=True, slots=True)
class GridCell:
    """A model of the grid with its result. level: its shade from -4, the worst, to 4; None where none is better."""

    model: LanguageModel
    result: Result
    level: int | None


@dataclass(frozen=True, slots=True)
class SizeGrid:
    """One measure on one slice over depth and width. rows: each depth with the cells of each width, mostly one.

    correlations: with each of SIZES, over the models but those that share neither depth nor width with another, as the
    teacher of the others may.
    """

    version: MetricVersion
    measure: Measure
    slice: str
    widths: list[int]
    rows: list[tuple[int, list[list[GridCell]]]]
    correlations: dict[str, Correlation]

    @property
    def title(self) -> str:
        """What sets it apart from the other grids of its page."""
        return f"{self.measure.label}, {slice_label(self.slice)}, of {self.version}, by depth and width"


def grid_families() -> list[str]:
    """The families of which models of two depths have two widths each or more, by name, in one query."""
    rows = LanguageModel.objects.listed().exclude(family="").filter(layers__isnull=False, hidden_size__isnull=False)
    widths: dict[str, dict[int, set[int]]] = {}
    for family, layers, hidden_size in rows.values_list("family", "layers", "hidden_size"):
        widths.setdefault(family, {}).setdefault(layers or 0, set()).add(hidden_size or 0)
    return sorted(family for family, by_depth in widths.items() if is_grid(by_depth.values()))


def is_grid(widths: Iterable[set[int]]) -> bool:
    """Whether two depths or more have two widths or more in common."""
    many = [sizes for sizes in widths if len(sizes) >= LEAST_SIZES]
    return any(len(first & second) >= LEAST_SIZES for place, first in enumerate(many) for second in many[:place])


def size_grids(family: str) -> list[SizeGrid]:
    """Every measure of the family under current versions, on the first slice that makes a grid; in one query.

    Without entries that are in no ranking: withdrawn, held back, or of too few scores. Where the slice is of an
    attribute, on the other parts of the attribute too, such as the benchmarks of a perplexity.
    """
    results = (
        Result.objects.filter(
            ranked_now("scoring__model__"),
            not_held("scoring__"),
            ~is_unranked("scoring__"),
            scoring__model__family=family,
            scoring__model__layers__isnull=False,
            scoring__model__hidden_size__isnull=False,
            scoring__state=Work.State.DONE,
            scoring__metric_version__status=MetricVersion.Status.CURRENT,
        )
        .select_related("scoring__model", "scoring__metric_version__metric")
        .order_by("scoring__metric_version__metric__position", "scoring__metric_version__pk", "pk")
    )
    by_place: dict[tuple[int, str], dict[str, list[Result]]] = {}
    for result in results:
        if result.measure in MEASURES:
            place = (result.scoring.metric_version_id, result.measure)
            by_place.setdefault(place, {}).setdefault(result.slice, []).append(result)
    grids: list[SizeGrid] = []
    for (_, key), by_slice in by_place.items():
        candidates = (make_grid(MEASURES[key], name, by_slice[name]) for name in slices_in_order(by_slice))
        by_attribute = [(slice_parts(grid.slice)[0], grid) for grid in candidates if grid]
        # Of slices without attributes, as demographics, the first speaks for all.
        grids += [
            grid
            for place, (attribute, grid) in enumerate(by_attribute)
            if not place or (attribute and attribute == by_attribute[0][0])
        ]
    order, versions = list(MEASURES), [grid.version for grid in grids]
    return sorted(grids, key=lambda grid: (versions.index(grid.version), order.index(grid.measure.key)))


def make_grid(measure: Measure, name: str, results: list[Result]) -> SizeGrid | None:
    """The results of models over their depth and width; None where these make no grid."""
    levels = shade([result.value for result in results], measure)
    cells: dict[tuple[int, int], list[GridCell]] = {}
    for result, level in zip(results, levels, strict=True):
        model = result.scoring.model
        cells.setdefault((model.layers or 0, model.hidden_size or 0), []).append(GridCell(model, result, level))
    widths: dict[int, set[int]] = {}
    depths: dict[int, set[int]] = {}
    for layers, hidden_size in cells:
        widths.setdefault(layers, set()).add(hidden_size)
        depths.setdefault(hidden_size, set()).add(layers)
    if not is_grid(widths.values()):
        return None
    inner_cells = [
        cell
        for (layers, hidden_size), group in cells.items()
        for cell in group
        if len(widths[layers]) > 1 or len(depths[hidden_size]) > 1
    ]
    return SizeGrid(
        version=results[0].scoring.metric_version,
        measure=measure,
        slice=name,
        widths=sorted(depths),
        rows=[(layers, [cells.get((layers, width), []) for width in sorted(depths)]) for layers in sorted(widths)],
        correlations=correlate([cell.result for cell in inner_cells]),
    )


def shade(values: list[float], measure: Measure) -> list[int | None]:
    """The shades of values: the best of them 4, the worst -4; None where neither direction is better."""
    if not measure.direction:
        return [None] * len(values)
    low, high = min(values), max(values)
    sign = 1 if measure.direction == "higher" else -1
    if high == low:
        return [0] * len(values)
    return [round(sign * LEVELS * (2 * (value - low) / (high - low) - 1)) for value in values]


def correlate(results: list[Result]) -> dict[str, Correlation]:
    """Pearson's r of the values with each of SIZES, over the models that have it; none where fewer than two have."""
    coefficients = {}
    for name in SIZES:
        pairs: NDArray[np.float64] = np.array(
            [(size, result.value) for result in results if (size := getattr(result.scoring.model, name))], dtype=float
        ).reshape(-1, 2)
        if len(pairs) > 1:
            coefficients[name] = pearson(pairs[:, 0], pairs[:, 1])
    return coefficients
