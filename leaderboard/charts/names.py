"""Names beside the points of a plot: as many as fit without covering a point or one another."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leaderboard.charts.figure import Anchor
from leaderboard.charts.text import LINE, measure_text

Array = NDArray[np.float64]
POINT = 6  # pixels from the middle of a point to where its name begins
# Where a name may stand, in the order of preference, as Plotly calls it: to which side of its point, above or below.
POSITIONS = {
    "middle right": (1, 0),
    "middle left": (-1, 0),
    "top center": (0, -1),
    "bottom center": (0, 1),
    "top right": (1, -1),
    "bottom right": (1, 1),
    "top left": (-1, -1),
    "bottom left": (-1, 1),
}
ANCHORS: dict[int, Anchor] = {1: "start", 0: "middle", -1: "end"}
Box = tuple[float, float, float, float]  # left, top, right, bottom in pixels


def place_names(points: Array, names: Sequence[str], size: tuple[float, float]) -> list[str | None]:
    """The position of each name, of POSITIONS; None where there is no room for it.

    points [names, 2]: where they stand in pixels, from the top left of a plot of that `size`. Those with the fewest
    neighbours come first.
    """
    width, height = size
    boxes = np.concatenate([points - POINT, points + POINT], axis=1)
    distances = np.abs(points[:, None] - points[None]).sum(axis=2)
    neighbours = (distances < 4 * LINE).sum(axis=1)
    positions: list[str | None] = [None] * len(names)
    for number in np.argsort(neighbours, kind="stable").tolist():
        for position in POSITIONS:
            box = surround_name(points[number], names[number], position)
            is_whole = box[0] >= 0 and box[2] <= width and box[1] >= -LINE and box[3] <= height
            if is_whole and not _count_overlaps(box, boxes, except_for=number):
                positions[number] = position
                boxes = np.vstack([boxes, box])
                break
    return positions


def surround_name(point: Array, name: str, position: str) -> Box:
    """The box of a name at a position of a point."""
    side, level = POSITIONS[position]
    width = measure_text(name)
    centre_x = float(point[0]) + side * (width / 2 + POINT)
    centre_y = float(point[1]) + level * (LINE / 2 + POINT / 2)
    return centre_x - width / 2, centre_y - LINE / 2, centre_x + width / 2, centre_y + LINE / 2


def _count_overlaps(box: Box, boxes: Array, except_for: int) -> int:
    """How many of the boxes [boxes, 4] a box overlaps, without the one at the place `except_for`."""
    starts, ends = np.array(box[:2]), np.array(box[2:])
    others = np.delete(boxes, except_for, axis=0)
    return int(((starts < others[:, 2:]) & (others[:, :2] < ends)).all(axis=1).sum())
