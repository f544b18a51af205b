"""What a drawing is made of once every value has a place: shapes in pixels, from the top left."""

from typing import NamedTuple

from leaderboard.charts.figure import Anchor, Dash, Ink

Place = tuple[float, float]
DASHES: dict[Dash, tuple[int, ...]] = {"": (), "dash": (6, 4), "dot": (2, 3)}  # pixels with and without the line


class Stroke(NamedTuple):
    """A line through places."""

    places: tuple[Place, ...]
    ink: Ink
    width: float
    dash: Dash = ""
    title: str = ""
    key: str = ""


class Polygon(NamedTuple):
    """A filled surface between places, a hollow one without `fill`; outline: the colour of its edge."""

    places: tuple[Place, ...]
    fill: Ink | None
    outline: Ink | None
    opacity: float
    title: str = ""
    key: str = ""
    link: str = ""


class Disc(NamedTuple):
    """A circle, hollow without `fill`."""

    middle: Place
    radius: float
    fill: Ink | None
    outline: Ink
    title: str = ""
    key: str = ""
    link: str = ""


class Specks(NamedTuple):
    """Many dots of one size."""

    places: tuple[Place, ...]
    ink: Ink
    radius: float
    opacity: float


class Writing(NamedTuple):
    """A line of text on its baseline. turned: whether it reads upwards. title: all of it, where it is shortened."""

    place: Place
    text: str
    anchor: Anchor = "start"
    ink: Ink = Ink.INK
    strong: bool = False
    turned: bool = False
    title: str = ""
    key: str = ""
    link: str = ""


Shape = Stroke | Polygon | Disc | Specks | Writing


class Sketch(NamedTuple):
    """Shapes in the order in which they cover one another, and the size of all."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
