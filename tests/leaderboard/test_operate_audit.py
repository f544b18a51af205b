"""The audit trail: everything that people did is found there, with what was before and after."""

from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from leaderboard.models import AuditEvent
from leaderboard.operations.queries.audit import AuditSearch, describe_event, find_events, format_value, known_verbs
from leaderboard.people.services.roles import set_role
from leaderboard.services.audit import record

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator(client) -> User:
    user = User.objects.create_user("olga", is_staff=True)
    client.force_login(user)
    return user


@pytest.fixture
def events(operator) -> list[AuditEvent]:
    """Five, a day apart, the first on 1 November 2026."""
    other = User.objects.create_user("otto")
    found = [
        record(
            "restrict model", "model alder", {"reason": "a <licence>"}, operator, ({"access": "open"}, {"access": "x"})
        ),
        record("set drift policy", "metric careful", {}, other, ({"threshold": None}, {"threshold": 0.5})),
        record("publish version", "metric careful", {"version": 2, "entries": 4}),
        record("cancel scoring", "scoring 7", {"model": "alder", "metric": "careful"}, operator),
        record("open rescoring", "metric blunt", {"from": 1, "to": 2, "reason": "again"}, other),
    ]
    for day, event in enumerate(found):
        when = datetime(2026, 11, 1, 23, 59, tzinfo=UTC) + timedelta(days=day)
        AuditEvent.objects.filter(pk=event.pk).update(at=when)
    return found


def verbs(client, **query: str) -> list[str]:
    return [told.event.verb for told in client.get(reverse("audit"), query).context["events"]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, [4, 3, 2, 1, 0]),
        ({"actor": "olg"}, [3, 0]),
        ({"actor": "the board"}, [2]),
        ({"verb": "publish version"}, [2]),
        ({"q": "metric careful"}, [2, 1]),
        ({"q": "alder"}, [3, 0]),
        ({"since": "2026-11-02", "until": "2026-11-03"}, [2, 1]),
        ({"actor": "otto", "q": "careful", "since": "2026-11-02"}, [1]),
        ({"q": "nothing"}, []),
    ],
)
def test_events_are_found_by_who_what_object_and_day(client, events, query, found):
    assert verbs(client, **query) == [events[number].verb for number in found]


def test_what_was_before_and_after_is_shown_as_text(client, events):
    html = client.get(reverse("audit")).content.decode()
    assert "<dt>Access</dt><dd><del>open</del>" in html
    assert "<ins>x</ins>" in html
    assert "a &lt;licence&gt;" in html
    changes = {told.event.verb: told.changes for told in client.get(reverse("audit")).context["events"]}
    assert changes["set drift policy"] == [("Label threshold", "", "0.5")]
    assert changes["open rescoring"] == [("Version", "1", "2")]
    assert changes["publish version"] == []
    set_role(User.objects.get(username="otto"), "moderator")
    assert client.get(reverse("audit")).context["events"][0].changes == [("Role", "", "moderator")]


def test_a_line_names_the_actor_the_page_of_the_object_the_changes_and_the_rest(events):
    model_page, metric_page = reverse("operate_model", args=["alder"]), reverse("metric", args=["careful"])
    lines = [describe_event(event) for event in find_events(AuditSearch())]
    assert [(line.actor, line.address, line.changes, sorted(line.rest)) for line in lines] == [
        ("otto", reverse("metric", args=["blunt"]), [("Version", "1", "2")], [("Reason", "again")]),
        ("olga", "", [], [("Metric", "careful"), ("Model", "alder")]),
        ("the board", metric_page, [], [("Entries", "4"), ("Version", "2")]),
        ("otto", metric_page, [("Label threshold", "", "0.5")], []),
        ("olga", model_page, [("Access", "open", "x")], [("Reason", "a <licence>")]),
    ]
    assert [describe_event(AuditEvent(verb="set", subject=kind)).address for kind in ("metric", "model")] == ["", ""]
    assert known_verbs() == sorted(event.verb for event in events)


@pytest.mark.parametrize(
    ("verb", "detail", "changes", "rest"),
    [
        ("set role", {"from": "viewer", "to": "operator"}, [("Role", "viewer", "operator")], []),
        ("replace scorer", {"from": "a", "to": "b"}, [("Scorer", "a", "b")], []),
        ("open rescoring", {"from": 1}, [], []),
        (
            "replace scorer",
            {"from": "a", "to": "b", "before": {"scorer": "a"}, "after": {"scorer": "b"}},
            [("Scorer", "a", "b")],
            [],
        ),
        (
            "pause rescoring",
            {"from": 1, "to": 2, "before": {"state": "running"}, "after": {"paused_by": "olga"}},
            [("State", "running", ""), ("Paused by", "", "olga")],
            [("From", "1"), ("To", "2")],
        ),
        ("make token", {"before": None, "after": {"name": "x"}, "days": 3}, [], [("Days", "3")]),
    ],
)
def test_what_an_event_led_from_and_to_is_a_change_unless_old_and_new_values_say_so(verb, detail, changes, rest):
    line = describe_event(AuditEvent(verb=verb, subject="metric careful", detail=detail))
    assert (line.changes, line.rest) == (changes, rest)


def test_programs_get_an_event_whole(events):
    line = describe_event(AuditEvent.objects.select_related("actor").get(pk=events[3].pk))
    assert line.as_json() == {
        "id": events[3].pk,
        "at": "2026-11-04T23:59:00+00:00",
        "actor": "olga",
        "verb": "cancel scoring",
        "object": "scoring 7",
        "detail": {"model": "alder", "metric": "careful"},
    }
    assert describe_event(events[2]).as_json()["actor"] is None


def test_values_of_an_event_are_in_words_and_letters_of_any_language():
    values = [None, True, False, 0.5, ["a", True], {"Größe": [1]}]
    assert list(map(format_value, values)) == ["", "yes", "no", "0.5", "a, yes", '{"Größe": [1]}']


@pytest.mark.parametrize("query", [{"verb": "explode"}, {"since": "yesterday"}, {"page": "0"}])
def test_what_an_address_cannot_mean_is_said(client, events, query):
    response = client.get(reverse("audit"), query)
    assert response.status_code == 404
    assert next(iter(query)) in response.content.decode()


def test_a_long_trail_is_paged_at_a_constant_cost(client, events):
    def cost(**query: str) -> int:
        with CaptureQueriesContext(connection) as caught:
            client.get(reverse("audit"), query)
        return len(caught)

    few = cost()
    actors = [User.objects.create_user(f"u{number}") for number in range(3)]
    for number in range(120):
        record("make API token", f"API token {number}", {}, actors[number % 3])
    assert cost() == few == cost(page="2")
    page = client.get(reverse("audit"), {"page": "3", "actor": ""})
    assert (len(page.context["events"]), page.context["page"].paginator.count) == (25, 125)
    assert 'rel="prev"' in page.content.decode()
