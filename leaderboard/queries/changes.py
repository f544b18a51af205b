"""The public change log: what happened to the numbers, when and why, from the audit trail.

What is only operational (a check asked for by hand, a pause) is left out, and so is who did it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.core.paginator import Page, Paginator

from leaderboard.models import AuditEvent, AuditVerb, LanguageModel, Metric, MetricVersion
from leaderboard.models.audit import LogSection

CHANGES_A_PAGE = 50
MOST_NAMED = 5  # models in a sentence


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """A section of the log, and what one and many events of it are called."""

    key: LogSection
    one: str
    label: str

    @property
    def verbs(self) -> tuple[AuditVerb, ...]:
        """The verbs of the audit trail that it tells."""
        return tuple(verb for verb in AuditVerb if verb.section == self.key)


KINDS = (
    ChangeKind(LogSection.ADDED, "Entry added", "Entries added"),
    ChangeKind(LogSection.ACCESS, "Access changed", "Entries withdrawn or restricted"),
    ChangeKind(LogSection.CORRECTED, "Entry corrected", "Entries corrected"),
    ChangeKind(LogSection.RESCORED, "Rescored", "Rescored"),
    ChangeKind(LogSection.PUBLISHED, "Version published", "Versions published"),
    ChangeKind(LogSection.DRIFT, "Drift found", "Drifts found"),
    ChangeKind(LogSection.SERVICE, "Service changed", "Services changed"),
    ChangeKind(LogSection.OUTDATED, "Entries outdated", "Entries outdated"),
    ChangeKind(LogSection.SCORER, "Scorer replaced", "Scorers replaced or retired"),
    ChangeKind(LogSection.POLICY, "Drift policy set", "Drift policies set"),
    ChangeKind(LogSection.TEXTS, "Evaluation set", "Evaluation sets"),
)
OF_VERB = {str(verb): kind for kind in KINDS for verb in kind.verbs}


@dataclass(frozen=True, slots=True)
class LogLine:
    """An event as the log tells it.

    `metric`, `model` (slug and name) and `version`, by its `number`, are those it is about, None where it is not about
    one. `by_operator`: whether a person did it; the board itself otherwise. `why`: the reason on record. `outdated`:
    models with reasons.
    """

    at: datetime
    verb: str
    kind: ChangeKind
    subject: str
    detail: dict[str, Any]
    by_operator: bool
    metric: Metric | None
    model: tuple[str, str] | None
    number: int | None
    version: "Known | None"
    why: str
    outdated: list[tuple[str, str, str]]
    more_outdated: int


@dataclass(frozen=True, slots=True)
class Known:
    """A version that an event is about: whether readers may look at it, and which check opened it."""

    number: int
    published: bool
    check: int | None


def changes_page(
    metric: Metric | None, kind: str, number: int, metrics: Iterable[Metric]
) -> "tuple[Page[Any], list[LogLine]]":
    """A page of the log, the newest first, in four queries; of one metric, and of one kind, where these are given."""
    verbs = [verb for entry in KINDS for verb in entry.verbs if kind in ("", entry.key)]
    events = AuditEvent.objects.filter(verb__in=verbs).order_by("-at", "-pk")
    if metric:
        events = events.filter(subject=f"metric {metric.slug}")
    page = Paginator(events.only("at", "verb", "subject", "detail", "actor"), CHANGES_A_PAGE).get_page(number)
    page_events = list(page.object_list)
    by_slug = {entry.slug: entry for entry in metrics}
    names = model_names(page_events)
    versions = versions_of(page_events)
    return page, [change(event, by_slug, names, versions) for event in page_events]


def latest(most: int, metrics: Iterable[Metric]) -> list[LogLine]:
    """The newest events."""
    return changes_page(None, "", 1, metrics)[1][:most]


def slug_of_subject(event: AuditEvent, noun: str) -> str:
    """The slug that the event is about, where it is about a `what`; else empty."""
    start = f"{noun} "
    return event.subject.removeprefix(start) if event.subject.startswith(start) else ""


def model_names(events: Sequence[AuditEvent]) -> dict[str, str]:
    """The names of the models that events speak of, by slug, in one query; hidden ones are not named."""
    slugs = {slug_of_subject(event, "model") or event.detail.get("model", "") for event in events}
    for event in events:
        slugs.update(list(event.detail.get("reasons", {}))[:MOST_NAMED])
    return dict(LanguageModel.objects.listed().filter(slug__in=slugs - {""}).values_list("slug", "name"))


def versions_of(events: Sequence[AuditEvent]) -> dict[tuple[str, int], tuple[Known, str]]:
    """The versions that events speak of, with the reason they were opened for, in one query."""
    keys = {(slug_of_subject(event, "metric"), number_in(event)) for event in events}
    rows = MetricVersion.objects.filter(
        metric__slug__in={slug for slug, _ in keys}, number__in={number for _, number in keys if number}
    )
    return {
        (slug, number): (Known(number, published_at is not None, check), reason or "")
        for slug, number, published_at, check, reason in rows.values_list(
            "metric__slug", "number", "published_at", "opened_because", "rescorings_to__reason"
        )
    }


def number_in(event: AuditEvent) -> int | None:
    """The number of the version that an event is about."""
    number: int | None = event.detail.get("version") or event.detail.get("to")
    return number if isinstance(number, int) else None


def change(
    event: AuditEvent,
    metrics: dict[str, Metric],
    names: dict[str, str],
    versions: dict[tuple[str, int], tuple[Known, str]],
) -> LogLine:
    """The event with what it speaks of."""
    slug, number = slug_of_subject(event, "metric"), number_in(event)
    version, opened_for = versions.get((slug, number or 0), (None, ""))
    model = slug_of_subject(event, "model") or event.detail.get("model", "")
    reasons = list(event.detail.get("reasons", {}).items())
    given_reason = event.detail.get("reason", "") or event.detail.get("note", "")
    outdated_models = [(slug, names[slug], reason) for slug, reason in reasons[:MOST_NAMED] if slug in names]
    return LogLine(
        at=event.at,
        verb=event.verb,
        kind=OF_VERB[event.verb],
        subject=event.subject.partition(" set ")[2] if event.verb == AuditVerb.IMPORT_EVALUATION_SET else "",
        detail=event.detail,
        by_operator=event.actor_id is not None or bool(event.detail.get("by_operator")),
        metric=metrics.get(slug),
        model=(model, names[model]) if model in names else None,
        number=number,
        version=version,
        why=given_reason or (opened_for if event.verb == AuditVerb.PUBLISH_VERSION else ""),
        outdated=outdated_models,
        more_outdated=len(reasons) - len(outdated_models),
    )
