"""How numbers and names are written in pages."""

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from typing import TypeVar

from django import template
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.humanize.templatetags.humanize import ordinal
from django.utils.html import format_html
from django.utils.safestring import SafeString

from leaderboard.models import Metric, MetricVersion, Result
from leaderboard.models.results import DERIVED, describe_missing
from leaderboard.numbers import MINUS, decimals, minus, plus
from leaderboard.people.services.roles import moderates, operates
from leaderboard.queries.lost_files import MOST_MARKED, marked_entries
from leaderboard.queries.papers import find_contradictions, find_tables
from leaderboard.queries.profiles import ProfileCell
from leaderboard.queries.succession import announced_end
from leaderboard.rankings.digits import PrintedNumber, digits_of, print_value
from scoring.drift import MeasureChange
from scoring.metrics import formulas
from scoring.metrics.formulas import MEASURES
from scoring.statistics.ranks import ALPHA

Item = TypeVar("Item")
register = template.Library()
for write in (minus, decimals, plus):
    register.filter(write)


@register.filter
@lru_cache(maxsize=10_000)
def nth(rank: int) -> str:
    """A rank as in "21st", remembered: the filter beneath looks up eleven translations each time."""
    return str(ordinal(rank))


@register.filter
def slice_label(name: str) -> str:
    """A slice as people call it."""
    return formulas.slice_label(name)


@register.filter
def slice_phrase(name: str) -> str:
    """A slice as people call it within a sentence."""
    return formulas.slice_phrase(name)


@register.filter
def number(result: PrintedNumber | None, version: MetricVersion) -> str:
    """The value of a result of `version`, marked where it was worked out here; empty where there is none."""
    return "" if result is None else print_value(result, version)


@register.filter
def first_known(cells: list[ProfileCell]) -> Result | None:
    """The first result of a row that there is."""
    return next((cell.result for cell in cells if cell.result), None)


@register.filter
def end(value: float) -> str:
    """An end of a scale, as short as it can be."""
    return minus(f"{value:g}")


@register.filter
def p(value: float | None) -> str:
    """A probability with two digits, as in 0.37 or 0.021; "< 0.001" for what is smaller; empty where there is none.

    What two digits would round to 0.05 has three, as in 0.0496: it is on one side of what is told apart.
    """
    if value is None:
        return ""
    if value < 0.001:
        return "< 0.001"
    if round(value, 2) == ALPHA:
        return f"{value:.3g}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


@register.filter
def signed(change: int) -> str:
    """Ranks gained, with their sign: +12, −12, 0."""  # noqa: RUF002 (a minus is as wide as a plus)
    return minus(f"{change:+d}") if change else "0"


@register.filter
def ends(result: PrintedNumber, version: MetricVersion) -> str:
    """An interval under `version` with an en dash between its ends, marked if its source prints none; or empty."""
    if result.ci_low is None or result.ci_high is None:
        return ""
    digits = digits_of(version, result.measure)
    mark = DERIVED if result.interval_derived else ""
    return f"{mark}{result.ci_low:.{digits}f}–{result.ci_high:.{digits}f}"  # noqa: RUF001 (a range wants an en dash)


@register.filter
def without_score(result: PrintedNumber) -> SafeString:
    """The share of its texts without a score, beneath a value; empty where all have one."""
    words = describe_missing(result.n, result.missing, result.missing_texts)
    # Digits and our own words: nothing to escape.
    return SafeString(f'<span class="interval missing">{words}</span>' if words else "")


@register.filter
def worst_cases(result: Result) -> str:
    """The least and the largest that missing texts can make of a value; empty where that is not known."""
    if result.worst_low is None or result.worst_high is None:
        return ""
    digits = MEASURES[result.measure].digits
    return f"{result.worst_low:.{digits}f}–{result.worst_high:.{digits}f}"  # noqa: RUF001 (a range wants an en dash)


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
def duration(remainder: timedelta | None) -> str:
    """Time left, as in 2 min 10 s; empty where it is not known."""
    if remainder is None:
        return ""
    minutes, seconds = divmod(int(remainder.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


@register.filter
def at(items: Sequence[Item], index: int) -> Item:
    """The item at a position."""
    return items[index]


@register.filter
def runs_the_board(user: User | AnonymousUser) -> bool:
    """Whether somebody is an operator."""
    return operates(user)


@register.filter
def decides_upon_submissions(user: User | AnonymousUser) -> bool:
    """Whether somebody is a moderator, or an operator."""
    return moderates(user)


@register.filter
def small(value: float | None) -> str:
    """A difference that may be tiny, with three significant digits; empty where there is none."""
    if value is None:
        return ""
    return (MINUS if value < 0 else "") + f"{abs(value):.3g}"


@register.filter
def get(items: dict[str, Item], key: str) -> Item | None:
    """The item of that key; None where there is none."""
    return items.get(key)


@register.simple_tag
def announced_end_of(scorer: str) -> str:
    """When the service behind a scorer ends, in a sentence; "" where no end is announced."""
    return announced_end(scorer)


@register.filter
def published_mark(version: MetricVersion) -> str:
    """What follows the number of a version in a name: whether its figures are published ones."""
    return "" if version.measured else ", published"


@register.filter
def table_title(number: str) -> str:
    """A table of a paper: its number after the word, or what it is called instead of a number."""
    return f"Table {number}" if len(number) < 3 else number[0].upper() + number[1:]


@register.simple_tag
def metric_link(metric: Metric | None) -> str:
    """The metric's title, leading to what it is; for sentences, in which a template of its own would leave a space."""
    return format_html('<a href="{}">{}</a>', metric.get_absolute_url(), metric.title) if metric else "a metric"


@register.inclusion_tag("partials/lost_files.html")
def lost_files() -> dict[str, object]:
    """The entries of rankings whose files are damaged or missing, for every page that shows their numbers."""
    entries = marked_entries()
    return {"entries": entries[:MOST_MARKED], "more": entries[MOST_MARKED:]}


@register.inclusion_tag("partials/contradictions.html")
def contradictions(version: MetricVersion) -> dict[str, object]:
    """Where the paper whose figures a version has disagrees with itself or its data; nothing of measured numbers."""
    return {"sentences": [] if version.measured else find_contradictions(version.metric.slug)}


@register.inclusion_tag("partials/printed_tables.html")
def printed_tables(metric: Metric) -> dict[str, object]:
    """The tables of papers that have the published figures of a metric."""
    return {"pairs": find_tables(metric.slug)}


@register.inclusion_tag("partials/equivalence.html")
def equivalence(change: MeasureChange) -> dict[str, float]:
    """The interval of a change and the margin it is to lie in, as a small drawing of what the row says in digits."""
    scale = 100 / (1.1 * max(change.margin, abs(change.ci_low), abs(change.ci_high)))
    return {
        "margin": round(scale * change.margin, 1),
        "width": round(2 * scale * change.margin, 1),
        "low": round(scale * change.ci_low, 1),
        "high": round(scale * change.ci_high, 1),
        "change": round(scale * change.change, 1),
    }
