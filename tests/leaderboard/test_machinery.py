"""Who watches the watch: what stops is told, also where what tells has stopped itself."""

import errno
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import default_storage
from django.db import OperationalError
from django.urls import reverse
from django.utils import timezone

from leaderboard.models import Artefact, Incident, OutboxMessage, Pulse, Release, Rescoring, Scoring, Work, Worker
from leaderboard.operations.alerts import conditions, incidents, look, machinery
from leaderboard.operations.monitoring import readiness
from leaderboard.services import artefacts
from leaderboard.services.rescore import open_rescoring
from leaderboard.services.signs_of_life import pulse
from leaderboard.storage import board_storage
from leaderboard.tasks import sweep, watch
from tests.leaderboard import living
from tests.loopback import QuietHandler, serving

pytestmark = pytest.mark.django_db


class Receiver(QuietHandler):
    """A webhook and a dead man's switch; `stage` keeps what came."""

    stage: list[tuple[str, bytes]]

    def do_POST(self) -> None:  # noqa: N802
        self.stage.append((self.path, self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        self.send_response(200)
        self.end_headers()


@pytest.fixture
def came(settings):
    stage: list[tuple[str, bytes]] = []
    with serving(Receiver, stage) as address:
        settings.DEAD_MAN_PING = f"{address}/uuid"
        settings.ALERT_WEBHOOK = [f"{address}/hook"]
        yield stage


@pytest.fixture(autouse=True)
def swept(db) -> None:
    pulse("sweep")


def kinds() -> set[str]:
    look()
    return set(Incident.objects.filter(resolved_at=None).values_list("kind", flat=True))


def age(name: str, **by: float) -> None:
    Pulse.objects.filter(name=name).update(at=timezone.now() - timedelta(**by))


def test_nothing_is_wrong_on_a_board_that_works():
    assert kinds() == set()


@pytest.mark.slow
def test_a_sweep_that_stopped_is_an_incident_makes_readyz_fail_and_is_in_the_metrics(client, monkeypatch):
    sweep()
    monkeypatch.setattr(readiness, "_answer", lambda check: verdict if check is readiness.sweep else "")
    verdict = readiness.sweep()  # in this thread, whose connection sees the rows of the test
    answer = client.get(reverse("readyz")).json()
    assert answer["checks"]["sweep"] == "ok"
    assert answer["last_sweep"].startswith(f"{timezone.now():%Y-%m-%d}")
    age("sweep", minutes=40)
    verdict = readiness.sweep()
    response = client.get(reverse("readyz"))
    assert response.status_code == 503
    assert response.json()["checks"]["sweep"].startswith("the last one was 24")
    assert "sweep" in kinds()
    exposed = client.get(reverse("prometheus")).content.decode()
    assert 'plumbline_last_done_timestamp_seconds{what="sweep"}' in exposed
    sweep()
    assert kinds() == set()


def test_a_board_on_which_nobody_ever_swept_is_late_from_its_installation_on():
    Pulse.objects.all().delete()
    Release.objects.update(installed_at=timezone.now())
    assert machinery.sweep_is_late_by() is None
    Release.objects.update(installed_at=timezone.now() - timedelta(minutes=5))
    assert machinery.sweep_is_late_by() > 299


def test_a_worker_tells_that_beat_is_silent_and_beat_that_it_is_back(came):
    pulse("look")
    incidents.stand_in()
    assert not Incident.objects.exists()
    age("look", seconds=61)
    incidents.stand_in()
    told = Incident.objects.get(kind=Incident.Kind.BEAT)
    assert "no sign of life for 6" in told.summary
    assert [path for path, body in came if told.summary.encode() in body] == ["/hook"]
    incidents.look_once(incidents.DatabaseWatch())
    told.refresh_from_db()
    assert told.resolved_at


def test_a_look_that_fails_keeps_no_other_from_being_told_and_ends_no_incident(monkeypatch):
    age("sweep", minutes=3)
    look()
    opened = Incident.objects.get(kind=Incident.Kind.SWEEP)

    def fail() -> None:
        raise RuntimeError("this look fails")

    monkeypatch.setattr(machinery, "late_sweep", fail)
    default_storage.delete(artefacts.SENTINEL)
    try:
        with pytest.raises(RuntimeError, match="this look fails"):
            look()
    finally:
        artefacts.mark_storage()
    assert Incident.objects.filter(kind=Incident.Kind.STORAGE, resolved_at=None).exists()
    opened.refresh_from_db()
    assert opened.resolved_at is None


def test_the_watch_notes_that_it_was_done():
    watch()
    assert Pulse.objects.filter(name="watch").exists()


def test_the_dead_mans_switch_hears_that_all_is_well_and_what_is_not(came):
    incidents.look_once(incidents.DatabaseWatch())
    assert came == [("/uuid", b"")]
    age("sweep", minutes=3)
    incidents.look_once(incidents.DatabaseWatch())
    assert any(path == "/uuid/fail" and body.startswith(b"no sweep for 18") for path, body in came)
    assert Pulse.objects.filter(name="look").exists()


@pytest.mark.slow
def test_a_database_that_is_away_is_told_without_it_once_and_written_down_afterwards(came, monkeypatch):
    def away() -> None:
        raise OperationalError("connection refused")

    board = incidents.DatabaseWatch()
    with monkeypatch.context() as patch:
        patch.setattr(incidents, "look", away)
        for _ in range(3):
            incidents.look_once(board)
    hooks = [body for path, body in came if path == "/hook"]
    assert len(hooks) == 1
    assert b"The database does not answer" in hooks[0]
    assert [path for path, _ in came if path.startswith("/uuid")] == ["/uuid/fail"] * 3
    incidents.look_once(board)
    incident = Incident.objects.get(kind=Incident.Kind.DATABASE)
    assert incident.resolved_at
    assert OutboxMessage.objects.get(incident=incident).event == OutboxMessage.Event.RESOLVED


def test_a_database_that_takes_questions_and_answers_nothing_is_told_while_the_look_waits(came, monkeypatch):
    answered = threading.Event()
    problems = []

    def ping(problem: str) -> None:
        problems.append(problem)
        if len(problems) == 2:
            answered.set()

    monkeypatch.setattr(incidents, "look_once", lambda _watch: answered.wait(60))
    monkeypatch.setattr(incidents, "ping", ping)
    incidents.look_in_time(incidents.DatabaseWatch(), 0.01)
    assert set(problems) == {"the database does not answer"}
    (hook,) = [body for path, body in came if path == "/hook"]
    assert b"The database does not answer (nothing within 0 s)" in hook


def test_a_broker_that_does_not_answer_is_an_incident(monkeypatch):
    def refuse(_seconds: float) -> Any:
        raise ConnectionRefusedError

    monkeypatch.setattr(machinery, "connect_to_broker", refuse)
    assert kinds() == {"broker"}


def test_a_storage_that_takes_no_files_is_an_incident_before_any_work_needs_it(monkeypatch):
    def refuse(*_arguments: object) -> str:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(type(board_storage()), "save", refuse)
        look()
        incident = Incident.objects.get(kind=Incident.Kind.STORAGE)
        assert "takes no files (Read-only file system)" in incident.summary
    look()
    incident.refresh_from_db()
    assert incident.resolved_at


def test_a_storage_without_its_mark_is_an_incident_and_readyz_says_so(client):
    mark = Path(default_storage.path(artefacts.SENTINEL))
    aside = mark.rename(mark.with_suffix(".aside"))
    try:
        assert "storage" in kinds()
        assert client.get(reverse("readyz")).json()["checks"]["storage"] != "ok"
    finally:
        aside.rename(mark)
    assert kinds() == set()


def test_a_disk_that_is_nearly_full_is_an_incident_by_host(settings):
    settings.ALERT_DISK_GB = 0.0
    now = timezone.now()
    Worker.objects.create(name="gpu@beta", host="beta", started_at=now, beat_at=now, disk_free=10**9, queues=["gpu"])
    assert kinds() == set()
    settings.ALERT_DISK_GB = 1.5
    assert "disk" in kinds()
    assert Incident.objects.filter(key="disk:beta", summary__startswith="beta has 1.0 GB free").exists()


@pytest.fixture
def metric(tmp_path):
    with living.standing_in():
        found = living.small_metric(tmp_path)
        living.submit(living.entrant(1, found), found)
        pulse("sweep")
        yield found


def test_a_damaged_file_is_an_incident_that_names_it_and_the_entries(metric):
    lost = Scoring.objects.get().artefact
    Artefact.objects.filter(pk=lost.pk).update(state=Artefact.State.DAMAGED)
    assert kinds() == {"files"}
    incident = Incident.objects.get()
    assert lost.sha256 in incident.summary
    assert f"entrant-1 in {metric.slug}" in incident.summary
    Artefact.objects.filter(pk=lost.pk).update(state=Artefact.State.WHOLE)
    assert kinds() == set()


@pytest.mark.slow
def test_a_rescoring_that_stands_still_and_work_that_is_retried_are_incidents_before_they_end(metric):
    open_rescoring(metric, "to be sure")
    assert kinds() == set()
    long_ago = timezone.now() - timedelta(minutes=5)
    Scoring.objects.update(created_at=long_ago, progressed_at=long_ago, finished_at=long_ago)
    Rescoring.objects.update(created_at=long_ago)
    waiting = Scoring.objects.filter(state=Work.State.QUEUED)
    waiting.update(waits_for="opening", finished_at=None)
    assert "still" not in kinds(), "its replicates are spread over time"
    waiting.update(waits_for="")
    Rescoring.objects.update(created_at=timezone.now())
    assert "still" not in kinds(), "it has only begun"
    Rescoring.objects.update(created_at=long_ago)
    waiting.update(reason="StorageAway: it is away", fault="StorageAway", waits_since=long_ago, finished_at=None)
    assert {"still", "retrying"} <= kinds()
    assert "StorageAway: it is away" in Incident.objects.get(kind="still").summary
    waiting.update(reason="", fault="", waits_since=None)
    living.drain()
    pulse("sweep")
    assert kinds() == set()


def test_a_worker_of_other_code_is_an_incident():
    now = timezone.now()
    Worker.objects.create(name="gpu@beta", host="beta", started_at=now, beat_at=now, refusal="its code is older")
    assert kinds() == {"hosts"}


def test_a_worker_that_is_stuck_or_lacks_a_required_protection_is_named_with_what_follows(settings):
    now = timezone.now()
    cage = [{"title": "No network", "holds": False}, {"title": "No files", "holds": True}]
    Worker.objects.create(
        name="gpu@beta", started_at=now, beat_at=now, queues=["gpu"], stuck_since=now, stuck_at="run 7", cage=cage
    )
    (stuck,) = conditions.stuck_workers()
    assert stuck.summary == "gpu@beta is stuck at run 7: it does no other work until it is restarted."
    settings.CAGE = "best"
    assert list(conditions.open_cages()) == []
    settings.CAGE = "required"
    (gap,) = conditions.open_cages()
    assert gap.summary == "gpu@beta runs no models: its host lacks no network, and CAGE=required asks for it."
    assert {stuck.kind, gap.kind} == {Incident.Kind.STUCK, Incident.Kind.CAGE}
    Worker.objects.update(beat_at=now - timedelta(days=1))
    assert [*conditions.stuck_workers(), *conditions.open_cages()] == []
