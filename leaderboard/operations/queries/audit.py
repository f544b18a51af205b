"""The audit trail for operators: searched, paged, with old and new values."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Q, QuerySet
from django.urls import reverse

from leaderboard.models import AuditEvent, AuditVerb
from leaderboard.services import policies

EVENTS_A_PAGE = 50
BOARD = "the board"  # the actor of what nobody did by name
CHANGED: dict[str, str] = {AuditVerb.SET_ROLE: "role", AuditVerb.REPLACE_SCORER: "scorer"}  # else of versions
POLICY_LABELS = {field.name: field.label for field in (*policies.FIELDS, policies.MOST_MISSING, policies.BRAKE)}


@dataclass(frozen=True)
class AuditSearch:
    """A search for events: by actor (BOARD: by nobody), verb, object, and first and last day in UTC."""

    actor: str = ""
    verb: str = ""
    about: str = ""
    since: date | None = None
    until: date | None = None


@dataclass(frozen=True)
class AuditLine:
    """An event for people. changes: (name, old value, new value); then the other recorded details."""

    event: AuditEvent
    changes: list[tuple[str, str, str]]
    rest: list[tuple[str, str]]

    @property
    def actor(self) -> str:
        """The name of the actor."""
        return self.event.actor.get_username() if self.event.actor else BOARD

    @property
    def address(self) -> str:
        """The page of its object; "" if it has none."""
        kind, _, name = self.event.subject.partition(" ")
        if kind == "metric" and name:
            return reverse("metric", args=[name])
        return reverse("operate_model", args=[name]) if kind == "model" and name else ""

    def as_json(self) -> dict[str, Any]:
        event = self.event
        return {
            "id": event.pk,
            "at": event.at.isoformat(),
            "actor": event.actor.get_username() if event.actor else None,
            "verb": event.verb,
            "object": event.subject,
            "detail": event.detail,
        }


def find_events(search: AuditSearch) -> QuerySet[AuditEvent]:
    """Return the matching events, newest first."""
    events = AuditEvent.objects.select_related("actor").order_by("-at", "-pk")
    if search.actor == BOARD:
        events = events.filter(actor=None)
    elif search.actor:
        events = events.filter(actor__username__icontains=search.actor)
    if search.verb:
        events = events.filter(verb=search.verb)
    for word in search.about.split():
        events = events.filter(Q(subject__icontains=word) | Q(detail__model=word) | Q(detail__metric=word))
    if search.since:
        events = events.filter(at__gte=_start(search.since))
    if search.until:
        events = events.filter(at__lt=_start(search.until) + timedelta(days=1))
    return events


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def audit_page(search: AuditSearch, number: int) -> "tuple[Page[AuditEvent], list[AuditLine]]":
    """Return a page of matching events and their lines, in two queries."""
    page = Paginator(find_events(search), EVENTS_A_PAGE).get_page(number)
    return page, [describe_event(event) for event in page.object_list]


def known_verbs() -> list[str]:
    """List the verbs that occur in the trail."""
    return sorted(AuditEvent.objects.order_by().values_list("verb", flat=True).distinct())


def describe_event(event: AuditEvent) -> AuditLine:
    """Sort the detail of an event into changes and the rest."""
    detail = dict(event.detail)
    old_values, new_values = detail.pop("before", None), detail.pop("after", None)
    ends = {name: detail.pop(name) for name in ("from", "to") if name in detail}
    if not (isinstance(old_values, dict) and isinstance(new_values, dict)):
        name = CHANGED.get(event.verb, "version")
        old_values, new_values = ({name: ends["from"]}, {name: ends["to"]}) if len(ends) == 2 else ({}, {})
    elif event.verb not in CHANGED:
        detail |= ends
    changes = [
        (label(key), format_value(old_values.get(key)), format_value(new_values.get(key)))
        for key in {**old_values, **new_values}
    ]
    return AuditLine(event, changes, [(label(key), format_value(value)) for key, value in detail.items()])


def label(key: str) -> str:
    """Return a key of the record in words; fields of a policy have the labels of their form."""
    return POLICY_LABELS.get(key) or key.replace("_", " ").capitalize()


def format_value(value: Any) -> str:
    """Return a value of the record in words; "" if there is none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(format_value, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
