"""Names beside the points of a plot: as many as fit without covering a point or one another."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from leaderboard.charts.figure import Anchor
from leaderboard.charts.text import LINE, measure_text

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
MOST_NAMES = 200  # of one plot; where more points have one, they stand too close for it
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

    points [names, 2]: where they stand in pixels, from the top left of a plot of that `size`. The MOST_NAMES with the
    fewest neighbours are tried, in that order.
    """
    neighbours = KDTree(points).query_ball_point(points, 4 * LINE, p=1, return_length=True)
    order = np.argsort(neighbours, kind="stable")[:MOST_NAMES].tolist()
    boxes = np.array([[surround_name(points[number], names[number], one) for one in POSITIONS] for number in order])
    is_free = _fit_plot(boxes, size) & _miss_points(boxes, points, order)
    positions: list[str | None] = [None] * len(names)
    name_boxes = np.empty((0, 4))
    for number, own_boxes, own_free in zip(order, boxes, is_free, strict=True):
        for place in np.flatnonzero(own_free):
            if not _overlap(own_boxes[place], name_boxes).any():
                positions[number] = list(POSITIONS)[place]
                name_boxes = np.vstack([name_boxes, own_boxes[place]])
                break
    return positions


def surround_name(point: Array, name: str, position: str) -> Box:
    """The box of a name at a position of a point."""
    side, level = POSITIONS[position]
    width = measure_text(name)
    centre_x = float(point[0]) + side * (width / 2 + POINT)
    centre_y = float(point[1]) + level * (LINE / 2 + POINT / 2)
    return centre_x - width / 2, centre_y - LINE / 2, centre_x + width / 2, centre_y + LINE / 2


def _fit_plot(boxes: Array, size: tuple[float, float]) -> Mask:
    """Whether each of the boxes [..., 4] is inside of a plot of that size; a line above it is inside too."""
    return np.asarray((boxes[..., :2] >= (0, -LINE)).all(axis=-1) & (boxes[..., 2:] <= size).all(axis=-1))


def _miss_points(boxes: Array, points: Array, own: Sequence[int]) -> Mask:
    """Whether each of the boxes [names, positions, 4] covers none of the points, but perhaps the name's `own` one."""
    point_boxes = np.hstack([points - POINT, points + POINT])
    covers = np.stack([_overlap(one[:, None], point_boxes) for one in boxes])
    covers[np.arange(len(own)), :, own] = False
    return np.asarray(~covers.any(axis=-1))


def _overlap(boxes: Array, others: Array) -> Mask:
    """Whether boxes and others, both [..., 4], overlap."""
    intersection = (boxes[..., 0] < others[..., 2]) & (others[..., 0] < boxes[..., 2])
    return np.asarray(intersection & (boxes[..., 1] < others[..., 3]) & (others[..., 1] < boxes[..., 3]))
