"""Work for operators: runs and scorings filtered and paged, and all kinds counted."""

from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count, Q, QuerySet

from leaderboard.models import WORK_TABLES, Run, Scoring, Work

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


STEERED: dict[str, type[Run] | type[Scoring]] = {table.kind.many: table for table in (Run, Scoring)}  # in addresses


@dataclass(frozen=True)
class WorkSearch:
    """A search for work: by kind, and optionally by state (see STATES), metric slug and words of the model's name."""

    kind: str
    state: str = ""
    metric: str = ""
    search: str = ""


def find_work(search: WorkSearch) -> QuerySet[Any]:
    """Return the matching work, newest first."""
    condition = Q()
    if search.state == PAUSED:
        condition &= Q(held=True, state__in=[Work.State.QUEUED, Work.State.RUNNING])
    elif search.state:
        condition &= Q(state=search.state)
        if search.state in (Work.State.QUEUED, Work.State.RUNNING):
            condition &= Q(held=False)
    for word in search.search.split():
        condition &= Q(model__name__icontains=word) | Q(model__slug__icontains=word)
    if search.kind == Run.kind.many:
        if search.metric:
            condition &= Q(protocol__metrics__slug=search.metric)
        return Run.objects.filter(condition).select_related("model", "protocol__evaluation_set").order_by("-pk")
    if search.metric:
        condition &= Q(metric_version__metric__slug=search.metric)
    scorings = Scoring.objects.filter(condition, run__isnull=False)
    return scorings.select_related(
        "model", "metric_version__metric", "run__model", "run__protocol__evaluation_set"
    ).order_by("-pk")


def work_page(search: WorkSearch, number: int) -> "Page[Any]":
    """Return a page of matching work, in two queries."""
    return Paginator(find_work(search), WORK_A_PAGE).get_page(number)


@dataclass(frozen=True)
class WorkCounts:
    """The work of a kind, by state in the order of STATES. one: the name of a single piece; key: of STEERED, or ""."""

    label: str
    one: str
    key: str
    states: dict[str, int]


def count_work() -> list[WorkCounts]:
    """Count the work of every kind, one query each."""
    return [_count_states(table) for table in WORK_TABLES]


def _count_states(table: type[Work]) -> WorkCounts:
    is_paused = Q(held=True, state__in=[Work.State.QUEUED, Work.State.RUNNING])
    rows = table.objects.filter(run__isnull=False) if table is Scoring else table.objects.all()
    by_state = {state: Count("pk", filter=Q(state=state) & ~is_paused) for state in Work.State.values}
    key = table.kind.many if table in STEERED.values() else ""
    return WorkCounts(
        table.kind.label, table.kind.one, key, dict(rows.aggregate(**by_state, paused=Count("pk", filter=is_paused)))
    )
