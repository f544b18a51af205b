"""A service that announced its end: operators hear of it, and on the day after its last one it is retired by itself."""

import re
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from leaderboard import tasks
from leaderboard.models import AuditEvent, ControlCheck, Incident, LanguageModel, Metric, RetiredScorer, Scoring
from leaderboard.operations import alerts
from leaderboard.operations.services.retirement import retire_ended_scorers
from leaderboard.services import checks
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.rescore import open_rescoring, pause
from leaderboard.services.scorers import end_of, problem_with
from scoring.refusals import Refused
from scoring.scorers import ScorerState, perspective
from scoring.scorers import service as client_of_services
from tests import standin_perspective
from tests.leaderboard import living

pytestmark = pytest.mark.django_db

SLUG = "by-perspective"
LAST_DAY, DAY_AFTER = date(2026, 12, 31), date(2027, 1, 1)


@pytest.fixture
def move_to(monkeypatch) -> Callable[[date], None]:
    """Let it be another day for services that end."""

    def move(day: date) -> None:
        monkeypatch.setattr(client_of_services, "today", lambda: day)

    move(date(2026, 10, 1))
    return move


@pytest.fixture
def service(settings, monkeypatch) -> Iterator[standin_perspective.StandInPerspective]:
    """A stand-in for the public service, which ends on its last day."""
    with standin_perspective.serving() as stage:
        settings.PERSPECTIVE_URL, settings.PERSPECTIVE_API_KEY = stage.address, standin_perspective.KEY
        settings.PERSPECTIVE_REQUESTS_PER_SECOND = 5000.0
        settings.OPENING_REPLICATES, settings.OPENING_SPREAD_SECONDS = 2, 0
        monkeypatch.setattr(perspective, "PUBLIC_API", stage.address)
        yield stage


@pytest.fixture
def board(service, move_to, tmp_path) -> Metric:
    """A metric that asks the service, with one entry."""
    metric = living.small_metric(tmp_path, slug=SLUG, scorer="perspective")
    assert living.submit(living.entrant(1, metric), metric).state == "done"
    return metric


@pytest.fixture
def operator(client) -> User:
    user = User.objects.create_user("operator", is_staff=True)
    client.force_login(user)
    return user


def words_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html))


@pytest.mark.slow
def test_the_day_after_its_last_one_everybody_reads_that_it_is_retired_and_all_numbers_stay(board, move_to, service):
    version = board.current_version()
    standings = living.standings_of(version)
    move_to(LAST_DAY)
    tasks.watch()
    assert not RetiredScorer.objects.exists()
    assert problem_with("perspective") is None
    move_to(DAY_AFTER)
    tasks.watch()
    tasks.watch()
    row = RetiredScorer.objects.get()
    assert (row.name, row.reason) == ("perspective", "its service ended on 31 December 2026")
    event = AuditEvent.objects.get(verb="retire scorer")
    assert (event.actor, event.detail["after"], event.detail["metrics"]) == (None, {"retired": True}, [SLUG])
    reader = Client()
    notices = "its service ended on 31 December 2026"
    assert notices in words_of(reader.get(f"/rankings/?metric={SLUG}").content.decode())
    assert notices in words_of(reader.get(f"/metrics/{SLUG}/").content.decode())
    assert notices in words_of(reader.get("/scorers/perspective/").content.decode())
    for address in ("/scorers/", "/drift/", f"/drift/?metric={SLUG}", "/metrics/"):
        assert "Retired" in words_of(reader.get(address).content.decode()), address
    assert "The board retired the scorer perspective" in words_of(reader.get("/about/changes/").content.decode())
    assert reader.get(f"/api/v1/metrics/{SLUG}").json()["scorer_state"] == "retired"
    version.refresh_from_db()
    assert (version.status, living.standings_of(version)) == ("current", standings)
    call_command("verify", SLUG)


@pytest.mark.slow
def test_nothing_tries_it_again_and_what_waited_ends_with_the_reason(board, move_to, service, settings):
    waiting = request_evaluation(living.entrant(2, board), board, send=False)
    check = checks.request_check(board, "manual", send=False)
    move_to(DAY_AFTER)
    count = len(service.requests)
    living.drain()
    waiting.refresh_from_db()
    check.refresh_from_db()
    assert (waiting.state, waiting.fault) == ("failed", "ScorerRetired")
    assert "Perspective ended on 31 December 2026" in waiting.reason
    assert (check.state, check.verdict) == ("done", "unavailable")
    tasks.watch()
    ControlCheck.objects.update(environment={"torch": "another"})
    for _ in range(3):
        tasks.watch()
        living.drain()
    assert not Scoring.objects.unfinished().exists()
    assert not ControlCheck.objects.unfinished().exists()
    assert len(service.requests) == count
    with pytest.raises(CannotEvaluate, match="is retired"):
        request_evaluation(LanguageModel.objects.get(slug="entrant-2"), board)
    with pytest.raises(Refused, match="is retired"):
        open_rescoring(board, "again")


@pytest.mark.slow
@pytest.mark.parametrize("is_noted", [False, True])
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_rescoring_to_it_ends_and_readers_keep_the_whole_version(board, move_to, is_noted, is_paused):
    living.submit(living.entrant(2, board), board)
    version = board.current_version()
    standings = living.standings_of(version)
    rescoring = open_rescoring(board, "to be sure")
    for _ in range(100):  # until one of the two is scored under the new version
        living.hurry()
        living.deliver(living.waiting()[0])
        if rescoring.to_version.scorings.filter(state="done").count() == 1:
            break
    if is_paused:
        pause(rescoring)
    move_to(DAY_AFTER)
    if is_noted or is_paused:
        tasks.watch()
    living.drain()
    rescoring.refresh_from_db()
    version.refresh_from_db()
    assert (rescoring.state, rescoring.to_version.status) == ("cancelled", "retired")
    assert (version.status, living.standings_of(version)) == ("current", standings)
    assert not Scoring.objects.unfinished().exists()
    reason = AuditEvent.objects.get(verb="cancel rescoring").detail["reason"]
    assert "ended on" in reason


@pytest.mark.slow
def test_operators_are_told_sixty_and_thirty_days_before_and_at_the_end(board, move_to, client, operator):
    def notices() -> list[tuple[str, bool]]:
        alerts.look()
        rows = Incident.objects.filter(kind="ending").order_by("pk")
        return [
            (
                row.key.removesuffix(f":{RetiredScorer.objects.values_list('pk', flat=True).first()}"),
                row.resolved_at is None,
            )
            for row in rows
        ]

    assert notices() == []
    move_to(date(2026, 11, 1))  # 60 days before
    assert notices() == [("ending:perspective:60", True)]
    incident = Incident.objects.get(kind="ending")
    assert f"choose a successor for {SLUG}" in incident.summary
    assert "31 December 2026" in incident.summary
    html = words_of(client.get(reverse("operate")).content.decode())
    assert "Its scorer ends on 31 December 2026, in 60 days." in html
    move_to(date(2026, 12, 1))
    assert notices() == [("ending:perspective:60", True), ("ending:perspective:30", True)]
    move_to(DAY_AFTER)
    tasks.watch()
    alerts.look()
    Incident.objects.update(opened_at="2026-11-01T00:00Z")
    assert notices() == [
        ("ending:perspective:60", False),
        ("ending:perspective:30", False),
        ("retired:perspective", False),
    ]
    ending = Incident.objects.filter(kind="ending").order_by("pk").last()
    assert f"{SLUG} go on once they are rescored" in ending.summary
    html = words_of(client.get(reverse("operate")).content.decode())
    assert "The scorer is retired" in html
    assert "Its scorer ends" not in html


def test_a_scorer_behind_no_number_alarms_nobody(service, move_to, tmp_path):
    living.small_metric(tmp_path, slug=SLUG, scorer="perspective")
    move_to(date(2026, 12, 20))
    alerts.look()
    move_to(DAY_AFTER)
    assert retire_ended_scorers() == ["perspective"]
    alerts.look()
    assert not Incident.objects.filter(kind="ending").exists()


def test_another_address_has_no_end(service, settings, move_to):
    assert end_of("perspective") == LAST_DAY
    settings.PERSPECTIVE_URL = "https://example.org"
    assert end_of("perspective") is None
    move_to(DAY_AFTER)
    assert problem_with("perspective") is None
    settings.PERSPECTIVE_URL = service.address
    assert problem_with("perspective").state is ScorerState.RETIRED


@pytest.mark.slow
def test_a_metric_goes_on_with_another_scorer_after_the_end(board, move_to):
    old: Any = board.current_version()
    standings = living.standings_of(old)
    move_to(DAY_AFTER)
    tasks.watch()
    open_rescoring(board, "Perspective ended", scorer="profanity")
    living.drain()
    board.refresh_from_db()
    assert (board.scorer, board.current_version().scorer) == ("profanity", "profanity")
    old.refresh_from_db()
    assert (old.status, living.standings_of(old)) == ("superseded", standings)
