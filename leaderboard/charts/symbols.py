"""Shapes of points: the same for SVG, PDF and Plotly."""

import math
from functools import cache

Corners = tuple[tuple[float, float], ...]  # in radii from the middle, downwards


def _ring(corners: int, inner: float = 1.0, turn: float = -90.0) -> Corners:
    """A regular polygon; with `inner` a star whose every second corner lies that near to the middle."""
    radii = [1.0, inner] if inner != 1.0 else [1.0]
    count = corners * len(radii)
    angles = [math.radians(turn + 360 * number / count) for number in range(count)]
    return tuple(
        (
            round(1.2 * radii[number % len(radii)] * math.cos(angle), 3),
            round(1.2 * radii[number % len(radii)] * math.sin(angle), 3),
        )
        for number, angle in enumerate(angles)
    )


# By the name that Plotly has for each.
POLYGONS: dict[str, Corners] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle-up": ((0, -1.2), (1.15, 0.85), (-1.15, 0.85)),
    "triangle-down": ((0, 1.2), (1.15, -0.85), (-1.15, -0.85)),
    "cross": (
        (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
        (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
    ),
    "x": (
        (-1.1, -0.6), (-0.6, -1.1), (0, -0.5), (0.6, -1.1), (1.1, -0.6), (0.5, 0),
        (1.1, 0.6), (0.6, 1.1), (0, 0.5), (-0.6, 1.1), (-1.1, 0.6), (-0.5, 0),
    ),
    "star": _ring(5, 0.45),
    "pentagon": _ring(5),
    "bowtie": ((-1.2, -0.9), (1.2, 0.9), (1.2, -0.9), (-1.2, 0.9)),
    "hourglass": ((-0.9, -1.2), (0.9, -1.2), (-0.9, 1.2), (0.9, 1.2)),
    "hexagram": _ring(6, 0.58),
}  # fmt: skip
SHAPES = ("circle", *POLYGONS)
SYMBOLS = tuple(f"{shape}{fill}" for fill in ("", "-open") for shape in SHAPES)


@cache
def describe_symbol(symbol: str) -> tuple[Corners, bool]:
    """The corners of a symbol, none for a circle, and whether it is hollow."""
    shape = symbol.removesuffix("-open")
    return POLYGONS.get(shape, ()), symbol.endswith("-open")
