"""Rankings as they stood at the end of a day."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import Exists, OuterRef, Q

from leaderboard.models import MetricVersion, Result, Standing, Work, not_held, ranked_now
from leaderboard.services.publish import influences, standings

FIRST_DAY, LAST_DAY = date(2000, 1, 1), date(2999, 12, 31)  # that a request may name
MOST_SHOWN = 100  # characters of a wrong value that a message repeats


def parse_day(text: str) -> date:
    """A day written as 2026-11-21, from FIRST_DAY to LAST_DAY. Raises ValueError, which says what to write."""
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"{text[:MOST_SHOWN]!r} is not a day: write it as 2026-11-21") from error
    if not FIRST_DAY <= day <= LAST_DAY:
        raise ValueError(f"{text!r} is too early or too late: use a day from {FIRST_DAY} to {LAST_DAY}")
    return day


def end_of(day: date) -> datetime:
    """The end of the day, in UTC."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


def standings_before(end: datetime) -> Q:
    """The stored standings of entries that were scored before `end` and are neither withdrawn nor hidden."""
    return Q(result__scoring__scored_at__lt=end) & ranked_now("model__")


def is_unchanged(version: MetricVersion, end: datetime) -> bool:
    """Whether `version` has kept its standings since `end`: no entry was added, withdrawn or hidden."""
    others = version.scorings.filter(Q(scored_at__gte=end) | ~ranked_now("model__"))
    own_standings = version.standings.filter(model=OuterRef("model"))
    return not others.filter(Exists(own_standings), state=Work.State.DONE).exists()


def rank_again(version: MetricVersion, measure: str, name: str, end: datetime) -> Iterable[Standing]:
    """Standings on slice `name` of the entries scored before `end`, as publication ranks them; not saved.

    Models that were withdrawn or hidden since are left out, as they would be now. Raises FileNotFoundError or
    ArtefactError where a file that ranks are made from is gone or damaged.
    """
    scorings = list(
        version.scorings.filter(state=Work.State.DONE)
        .filter(scored_at__lt=end)
        .filter(ranked_now("model__"), not_held())
        .select_related("model", "artefact", "replicates")
        .order_by("model__name", "pk")
    )
    if not scorings:
        return []
    results = Result.objects.filter(scoring__in=scorings, measure=measure, slice=name)
    return standings(version, scorings, results, influences(version, scorings, [measure]) if version.measured else {})
