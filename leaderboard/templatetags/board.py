"""How numbers and names are written in pages."""

from datetime import timedelta

from django import template
from django.contrib.auth.models import AnonymousUser, User

from leaderboard.models import Result
from leaderboard.services.roles import operates
from scoring.metrics import formulas
from scoring.metrics.formulas import MEASURES
from scoring.metrics.measures import Measure

register = template.Library()


@register.filter
def slice_label(name: str) -> str:
    """A slice as people call it."""
    return formulas.slice_label(name)


@register.filter
def number(result: Result | None, decimals: int | None = None) -> str:
    """A value with the digits of its measure, or as many as its source prints."""
    if result is None:
        return ""
    return f"{result.value:.{MEASURES[result.measure].digits if decimals is None else decimals}f}"


@register.filter
def decimals(value: float, digits: int) -> str:
    """A value with so many digits after the point."""
    return f"{value:.{digits}f}"


@register.filter
def signed(change: int) -> str:
    """Ranks gained, with their sign: +12, −12, 0."""  # noqa: RUF002 (a minus is as wide as a plus)
    return f"{change:+d}".replace("-", "−") if change else "0"  # noqa: RUF001


@register.filter
def ends(result: Result) -> str:
    """An interval with an en dash between its ends; empty where there is none."""
    if result.ci_low is None or result.ci_high is None:
        return ""
    digits = MEASURES[result.measure].digits
    return f"{result.ci_low:.{digits}f}–{result.ci_high:.{digits}f}"  # noqa: RUF001 (a range wants an en dash)


@register.filter
def percent(share: float) -> str:
    """A share of 1, as in 97.2%."""
    return f"{100 * share:.1f}%"


@register.filter
def compact(count: int | None) -> str:
    """A number of parameters, as in 4.3M."""
    if count is None:
        return ""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


@register.filter
def duration(left: timedelta | None) -> str:
    """Time left, as in 2 min 10 s; empty where it is not known."""
    if left is None:
        return ""
    minutes, seconds = divmod(int(left.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


@register.inclusion_tag("partials/whisker.html")
def whisker(result: Result, measure: Measure, scale: float | None = None) -> dict[str, float | None]:
    """A value on the scale from 0 to `scale` (default: the measure's) with its interval, as a small drawing.

    It repeats what the cell says in digits.
    """
    percent = 100 / (scale or measure.largest)
    return {
        "value": round(percent * result.value, 1),
        "low": None if result.ci_low is None else round(percent * result.ci_low, 1),
        "high": None if result.ci_high is None else round(percent * result.ci_high, 1),
        "neutral": None if measure.neutral is None else percent * measure.neutral,
    }


@register.filter
def at(items: list[Measure], index: int) -> Measure:
    """The item at a position."""
    return items[index]


@register.filter
def runs_the_board(user: User | AnonymousUser) -> bool:
    """Whether somebody is an operator."""
    return operates(user)
