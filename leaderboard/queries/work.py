"""Runs and scorings for those who steer them: filtered, paged, counted."""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet

from leaderboard.models import ControlCheck, Run, Scoring, Work

WORK_A_PAGE = 50
PAUSED = "paused"
STATES = {
    Work.State.QUEUED.value: "Waiting",
    Work.State.RUNNING.value: "Running",
    PAUSED: "Paused",
    Work.State.FAILED.value: "Failed",
    Work.State.CANCELLED.value: "Cancelled",
    Work.State.DONE.value: "Done",
}


@dataclass(frozen=True)
class Kind:
    """A kind of work: its key in addresses, what one and many of it are called, and the table it is in."""

    key: str
    one: str
    label: str
    table: type[Run] | type[Scoring]


KINDS = {of.key: of for of in (Kind("runs", "run", "Runs", Run), Kind("scorings", "scoring", "Scorings", Scoring))}


@dataclass(frozen=True)
class Wanted:
    """Which work: of a kind, and where they are given of a state (see STATES), a metric's slug, a model in words."""

    kind: str
    state: str = ""
    metric: str = ""
    search: str = ""


def find_work(wanted: Wanted) -> QuerySet[Run] | QuerySet[Scoring]:
    """All of it, what changed last first."""
    condition = Q()
    if wanted.state == PAUSED:
        condition &= Q(held=True, state__in=[Work.State.QUEUED, Work.State.RUNNING])
    elif wanted.state:
        condition &= Q(state=wanted.state)
        if wanted.state in (Work.State.QUEUED, Work.State.RUNNING):
            condition &= Q(held=False)
    for word in wanted.search.split():
        condition &= Q(model__name__icontains=word) | Q(model__slug__icontains=word)
    if wanted.kind == "runs":
        if wanted.metric:
            condition &= Q(protocol__metrics__slug=wanted.metric)
        return Run.objects.filter(condition).select_related("model", "protocol__evaluation_set").order_by("-pk")
    if wanted.metric:
        condition &= Q(metric_version__metric__slug=wanted.metric)
    measured = Scoring.objects.filter(condition, run__isnull=False)
    return measured.select_related(
        "model", "metric_version__metric", "run__model", "run__protocol__evaluation_set"
    ).order_by("-pk")


def work_page(wanted: Wanted, number: int) -> "Page[Any]":
    """A page of it, in two queries."""
    return Paginator(find_work(wanted), WORK_A_PAGE).get_page(number)


@dataclass(frozen=True)
class Counts:
    """How much work of a kind there is: by state, in the order of STATES. key: of KINDS; empty for control checks."""

    label: str
    key: str
    states: dict[str, int]


def count_work() -> list[Counts]:
    """Of every kind, in three queries."""
    tables = [(of.label, of.key, of.table) for of in KINDS.values()]
    return [_counts(label, key, table) for label, key, table in [*tables, ("Control checks", "", ControlCheck)]]


def _counts(label: str, key: str, table: type[Work]) -> Counts:
    held = Q(held=True, state__in=[Work.State.QUEUED, Work.State.RUNNING])
    rows = table.objects.filter(run__isnull=False) if table is Scoring else table.objects.all()
    by_state = {state: Count("pk", filter=Q(state=state) & ~held) for state in Work.State.values}
    return Counts(label, key, dict(rows.aggregate(**by_state, paused=Count("pk", filter=held))))
