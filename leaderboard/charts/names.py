"""Names beside the points of a scatter: as many as fit without covering a point or one another."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leaderboard.charts.look import CHARACTER, LINE

Array = NDArray[np.float64]
POINT = 5  # pixels from the middle of a point to where its name begins
# Where a name may stand, in the order of preference: as Plotly calls it, and its middle in widths and heights of it.
POSITIONS = {
    "middle right": (0.5, 0.0, 1, 0),
    "middle left": (-0.5, 0.0, -1, 0),
    "top center": (0.0, -0.5, 0, -1),
    "bottom center": (0.0, 0.5, 0, 1),
    "top right": (0.5, -0.5, 1, -1),
    "bottom right": (0.5, 0.5, 1, 1),
    "top left": (-0.5, -0.5, -1, -1),
    "bottom left": (-0.5, 0.5, -1, 1),
}
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels


def place_names(
    x: Array, y: Array, names: Sequence[str], size: tuple[float, float], heights: tuple[float, float]
) -> list[str | None]:
    """The position of each name, of POSITIONS; None where there is no room for it.

    x and y on the scale that they are drawn on. size: width and height of the plot in pixels. heights: the smallest and
    the largest y of all that is drawn. Those with the fewest neighbours come first.
    """
    if not names:
        return []
    width, height = size
    widths = float(x.min()), float(x.max())
    points = np.column_stack([_pixels(x, widths, width), height - _pixels(y, heights, height)])
    boxes: list[Box] = [
        (across - POINT, down - POINT, across + POINT, down + POINT) for across, down in points.tolist()
    ]
    distances = np.abs(points[:, None] - points[None]).sum(axis=2)
    neighbours = (distances < 4 * LINE).sum(axis=1)
    positions: list[str | None] = [None] * len(names)
    for number in np.argsort(neighbours, kind="stable").tolist():
        for position in POSITIONS:
            box = _box(points[number], names[number], position)
            is_whole = box[0] >= 0 and box[2] <= width and box[1] >= -LINE and box[3] <= height
            others = (other for place, other in enumerate(boxes) if place != number)
            if is_whole and not any(_overlap(box, other) for other in others):
                positions[number] = position
                boxes.append(box)
                break
    return positions


def _pixels(values: Array, ends: tuple[float, float], length: float) -> Array:
    """Places on an axis that Plotly chooses: a twentieth of it stays free at each end."""
    places: Array = (0.05 + 0.9 * (values - ends[0]) / ((ends[1] - ends[0]) or 1.0)) * length
    return places


def _box(point: Array, name: str, position: str) -> Box:
    across, down, side, level = POSITIONS[position]
    width = CHARACTER * len(name)
    centre_x = float(point[0]) + across * width + side * POINT
    centre_y = float(point[1]) + down * LINE + level * POINT / 2
    return centre_x - width / 2, centre_y - LINE / 2, centre_x + width / 2, centre_y + LINE / 2


def _overlap(first: Box, second: Box) -> bool:
    return first[0] < second[2] and second[0] < first[2] and first[1] < second[3] and second[1] < first[3]
