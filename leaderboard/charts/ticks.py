"""Where axes are marked: at round numbers, and never at one that its quantity cannot have."""

import math
from collections.abc import Iterable

from leaderboard.charts.figure import Axis, Tick
from leaderboard.numbers import minus
from leaderboard.rankings.scales import round_up

COUNT = 5  # about as many marks an axis
EQUAL = 1e-9  # of a value: what is nearer than that is one place
ROOM = 0.04  # of an axis, free at either end
Limits = tuple[float, float]  # the least and the largest value that a quantity can have
UNLIMITED: Limits = (-math.inf, math.inf)


def fit_axis(values: Iterable[float], title: str = "", limits: Limits = UNLIMITED) -> Axis:
    """An axis that holds `values`, with marks at round numbers within `limits`."""
    places = list(values)
    least, most = min(places, default=0.0), max(places, default=1.0)
    if most - least <= EQUAL * max(abs(least), abs(most)):
        least, most = least - (abs(least) * 0.1 or 0.5), most + (abs(most) * 0.1 or 0.5)
    room = ROOM * (most - least)
    low, high = max(least - room, min(least, limits[0])), min(most + room, max(most, limits[1]))
    return Axis(low, high, mark_numbers(low, high, limits), title)


def mark_numbers(low: float, high: float, limits: Limits = UNLIMITED, percent: bool = False) -> tuple[Tick, ...]:
    """Marks at round numbers from `low` to `high`. percent: whether they are shares."""
    step = round_up((high - low) / COUNT)
    first, last = math.ceil(max(low, limits[0]) / step - 1e-9), math.floor(min(high, limits[1]) / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step) - 1e-9) + (f"{step:.1e}"[2] != "0")) - 2 * percent
    return tuple(
        Tick(number * step, (write_number(number * step * (100 if percent else 1), max(0, digits)) + "%" * percent,))
        for number in range(first, last + 1)
    )


def write_number(value: float, digits: int) -> str:
    """A number with so many decimals and a true minus."""
    return minus(f"{value:,.{digits}f}")


def fit_logarithmic(values: Iterable[float], title: str = "", places: Iterable[float] | None = None) -> Axis:
    """An axis of positive values by their logarithm, marked at 1, 2 and 5 times powers of ten, or at `places`."""
    logs = [math.log10(value) for value in values]
    least, most = min(logs, default=0.0), max(logs, default=1.0)
    room = ROOM * ((most - least) or 1.0)
    low, high = least - room, most + room
    if places is None:
        factors = (1, 2, 5) if high - low < 3 else (1,)
        places = [
            factor * 10.0**power
            for power in range(math.floor(low), math.ceil(high) + 1)
            for factor in factors
            if low <= power + math.log10(factor) <= high
        ]
    ticks = tuple(Tick(value, (write_compact(value),)) for value in places)
    return Axis(10.0**low, 10.0**high, ticks, title, logarithmic=True)


def write_compact(value: float) -> str:
    """A large number in few characters, as in 125M."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size * 10 or (value >= size and size > 1e3):
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def fit_ranks(ranks: Iterable[int], count: int = COUNT) -> tuple[int, int, tuple[int, ...]]:
    """The best and the worst of `ranks`, and some between them to mark."""
    places = list(ranks)
    best, worst = min(places, default=1), max(places, default=1)
    return best, worst, tuple(range(best, worst + 1, max(1, -(-(worst - best) // (count - 1)))))
