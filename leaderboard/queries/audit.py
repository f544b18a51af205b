"""The audit trail for those who run the board: searched, paged, with what was before and after."""

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Q, QuerySet
from django.urls import reverse

from leaderboard.models import AuditEvent
from leaderboard.services import policies

EVENTS_A_PAGE = 50
BOARD = "the board"  # the actor of what nobody did by name
CHANGED = {"set role": "role", "replace scorer": "scorer"}  # what from and to are of, where it is not versions
POLICY_LABELS = {field.name: field.label for field in (*policies.FIELDS, policies.MOST_MISSING, policies.BRAKE)}


@dataclass(frozen=True)
class Wanted:
    """Which events: by an actor (BOARD for none), of a verb, about an object, from a day to a day in UTC."""

    actor: str = ""
    verb: str = ""
    about: str = ""
    since: date | None = None
    until: date | None = None


@dataclass(frozen=True)
class Told:
    """An event as people read it: what changed, as (name, before, after), and whatever else is on record."""

    event: AuditEvent
    changes: list[tuple[str, str, str]]
    rest: list[tuple[str, str]]

    @property
    def actor(self) -> str:
        """Who did it."""
        return self.event.actor.get_username() if self.event.actor else BOARD

    @property
    def address(self) -> str:
        """Where its object is operated or shown; empty where that is nowhere."""
        what, _, name = self.event.subject.partition(" ")
        if what == "metric" and name:
            return reverse("metric", args=[name])
        return reverse("operate-model", args=[name]) if what == "model" and name else ""

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


def find_events(wanted: Wanted) -> QuerySet[AuditEvent]:
    """The events, the newest first."""
    found = AuditEvent.objects.select_related("actor").order_by("-at", "-pk")
    if wanted.actor == BOARD:
        found = found.filter(actor=None)
    elif wanted.actor:
        found = found.filter(actor__username__icontains=wanted.actor)
    if wanted.verb:
        found = found.filter(verb=wanted.verb)
    for word in wanted.about.split():
        found = found.filter(Q(subject__icontains=word) | Q(detail__model=word) | Q(detail__metric=word))
    if wanted.since:
        found = found.filter(at__gte=_start(wanted.since))
    if wanted.until:
        found = found.filter(at__lt=_start(wanted.until) + timedelta(days=1))
    return found


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def audit_page(wanted: Wanted, number: int) -> "tuple[Page[AuditEvent], list[Told]]":
    """A page of them, in two queries."""
    page = Paginator(find_events(wanted), EVENTS_A_PAGE).get_page(number)
    return page, [told(event) for event in page.object_list]


def known_verbs() -> list[str]:
    """What was ever done here."""
    return sorted(AuditEvent.objects.order_by().values_list("verb", flat=True).distinct())


def told(event: AuditEvent) -> Told:
    """The event with its detail sorted into what changed and the rest."""
    detail = dict(event.detail)
    before, after = detail.pop("before", None), detail.pop("after", None)
    ends = {name: detail.pop(name) for name in ("from", "to") if name in detail}
    if not (isinstance(before, dict) and isinstance(after, dict)):
        name = CHANGED.get(event.verb, "version")
        before, after = ({name: ends["from"]}, {name: ends["to"]}) if len(ends) == 2 else ({}, {})
    elif event.verb not in CHANGED:
        detail |= ends
    changes = [(label(key), words(before.get(key)), words(after.get(key))) for key in {**before, **after}]
    return Told(event, changes, [(label(key), words(value)) for key, value in detail.items()])


def label(key: str) -> str:
    """A name of the record, as people write it; fields of a policy are called what their form calls them."""
    return POLICY_LABELS.get(key) or key.replace("_", " ").capitalize()


def words(value: Any) -> str:
    """A value of the record, as people write it; empty where there is none."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(words, value))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
