"""The heat map: a value a cell, its shade on either side of an anchor."""

from collections.abc import Sequence
from dataclasses import dataclass

from leaderboard.charts.figure import Axis, Block, Chart, Ink, Panel, Tick

ROW = 24  # pixels
SHADES = {
    -4: Ink.HEAT_WORST,
    -3: Ink.HEAT_WORSE,
    -2: Ink.HEAT_BAD,
    -1: Ink.HEAT_LESS,
    0: Ink.HEAT_SAME,
    1: Ink.HEAT_MORE,
    2: Ink.HEAT_GOOD,
    3: Ink.HEAT_BETTER,
    4: Ink.HEAT_BEST,
}


@dataclass(frozen=True, slots=True)
class ShadedCell:
    """A value as written, its shade from -4, the worst, to 4, and all of it in words."""

    text: str
    level: int
    title: str


def heat_map(
    name: str,
    rows: Sequence[tuple[str, str]],
    columns: Sequence[str],
    cells: Sequence[Sequence[ShadedCell | None]],
    alternative: str,
) -> Chart:
    """Cells by row and column; None where there is no value. rows: the name of each and where it leads."""
    marks = tuple(
        Block((place - 0.5, place + 0.5), (row - 0.5, row + 0.5), SHADES[cell.level], Ink.PAPER, cell.title, cell.text)
        for row, row_cells in enumerate(cells)
        for place, cell in enumerate(row_cells)
        if cell
    )
    x = Axis(
        -0.5,
        len(columns) - 0.5,
        tuple(Tick(place, ("", column)) for place, column in enumerate(columns)),
        grid=False,
        on_top=True,
        upright=True,
    )
    y = Axis(
        len(rows) - 0.5,
        -0.5,
        tuple(Tick(row, (label,), link=link) for row, (label, link) in enumerate(rows)),
        grid=False,
    )
    return Chart(name, alternative, (Panel(x, y, marks, ROW * len(rows)),), long_names=True)
