"""Which rows make an operator's findings, with their words, and what the same rows count in the metrics."""

from datetime import date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone
from prometheus_client.core import Metric as Family

from leaderboard.models import (
    Artefact,
    ControlCheck,
    ControlSet,
    Download,
    Incident,
    LanguageModel,
    Metric,
    MetricVersion,
    OutboxMessage,
    RetiredScorer,
    Scoring,
    Service,
    Worker,
)
from leaderboard.models.clock import from_now
from leaderboard.operations.alerts import conditions, machinery
from leaderboard.operations.alerts.finding import AlertFinding
from leaderboard.operations.monitoring import board
from leaderboard.services.failures import FailureKind
from tests.leaderboard.stored import metric_of, run_of, version_of

pytestmark = pytest.mark.django_db

Kind = Incident.Kind


def fetch(number: int, **values: Any) -> Download:
    """A download of a model of its own."""
    model = LanguageModel.objects.create(slug=f"m{number}", name=f"M {number}", kind="causal", source="uploaded")
    return Download.objects.create(model=model, **values)


def running(seconds: float = 60) -> dict[str, Any]:
    return {"state": "running", "lease": "12345678123456781234567812345678", "lease_expires_at": from_now(seconds)}


def check(metric: Metric, verdict: str, **values: Any) -> ControlCheck:
    """A check that has ended, with the scores that its verdict rests on."""
    artefact = Artefact.objects.filter(kind="prompts").first()
    version = metric.versions.first() or version_of(metric, "one")
    control, _ = ControlSet.objects.get_or_create(
        metric_version=version, defaults={"items": artefact, "reference": artefact, "fingerprint": "0" * 64}
    )
    values = {"state": "done", "finished_at": from_now(-60)} | values
    scores = artefact if verdict not in ("", "unavailable") else None
    return ControlCheck.objects.create(
        metric=metric, control_set=control, trigger="schedule", verdict=verdict, artefact=scores, **values
    )


def test_work_that_failed_within_a_day_is_counted_by_kind_and_reason():
    failed = {"state": "failed", "reason": "r"}
    now = timezone.now()
    fetch(1, **failed, fault="StorageAway", finished_at=now)
    fetch(2, **failed, fault="StorageAway", finished_at=now - timedelta(hours=23))
    fetch(3, **failed, fault="ModelRefused", finished_at=now)
    fetch(4, **failed, fault="ModelRefused", finished_at=now - timedelta(hours=25))
    fetch(5, state="cancelled", reason="r", fault="ModelRefused", finished_at=now)
    assert set(conditions.failures(now)) == {
        AlertFinding(
            "failed:download:storage",
            Kind.FAILED,
            "downloads",
            "2 downloads failed. The storage cannot be read or written.",
            reverse("operate"),
        ),
        AlertFinding(
            "failed:download:model",
            Kind.FAILED,
            "downloads",
            "1 download failed. The model cannot be run.",
            reverse("operate"),
        ),
    }


def test_work_that_waits_for_a_repair_is_one_finding_a_reason():
    fetch(1, fault="StorageAway", waits_since=from_now(-40))
    fetch(2, fault="StorageAway", waits_since=from_now(-40))
    fetch(3, fault="StorageAway", waits_since=from_now(-20))
    fetch(4, fault="ScorerUnavailable", waits_since=from_now(-40))
    fetch(5, fault="StorageAway", waits_since=from_now(-40), **running())
    metric = metric_of("careful", "profanity")
    ControlCheck.objects.create(metric=metric, trigger="schedule", fault="OSError", waits_since=from_now(-40))
    assert list(conditions.blocked_work()) == [
        AlertFinding(
            "waiting:storage",
            Kind.WAITING,
            "work",
            "The storage cannot be read or written: 1 control check, 2 downloads wait until that is fixed, then go on "
            "by themselves.",
            reverse("operate"),
        )
    ]


def test_work_that_is_tried_again_and_again_is_an_incident_before_it_fails():
    fetch(1, fault="StorageAway", waits_since=from_now(-50))
    fetch(2, fault="StorageAway", attempts=2)
    fetch(3, fault="StorageAway", waits_since=from_now(-40), attempts=1)
    fetch(4, attempts=2)
    fetch(5, fault="StorageAway", attempts=2, **running())
    fetch(6, fault="ModelRefused", attempts=3)
    page = reverse("operate_work")
    assert set(machinery.retried_work()) == {
        AlertFinding(
            "retrying:download:storage",
            Kind.RETRYING,
            "downloads",
            "2 downloads came to nothing again and again. The storage cannot be read or written.",
            page,
        ),
        AlertFinding(
            "retrying:download:model",
            Kind.RETRYING,
            "downloads",
            "1 download came to nothing again and again. The model cannot be run.",
            page,
        ),
    }


def worker(name: str, **values: Any) -> Worker:
    now = timezone.now()
    return Worker.objects.create(**{"name": name, "started_at": now, "beat_at": now, "queues": ["gpu"]} | values)


def test_the_least_room_of_each_host_counts(settings, monkeypatch):
    settings.HOST, settings.ALERT_DISK_GB = "alpha", 2.0
    monkeypatch.setattr(machinery.shutil, "disk_usage", lambda _: SimpleNamespace(free=5 * 10**9))
    worker("gpu@alpha", host="alpha", disk_free=10**9)
    worker("gpu@beta", host="beta", disk_free=3 * 10**9)
    worker("default@beta", host="beta", disk_free=15 * 10**8)
    worker("gpu@gamma", host="gamma", disk_free=2 * 10**9)
    worker("lone", disk_free=0)
    worker("unknown", host="delta")
    worker("gone", host="epsilon", disk_free=0, beat_at=from_now(-86_400))
    page = reverse("operate_workers")
    rest = "GB free in PLUMBLINE_VAR: make room before work has to wait for it."
    assert set(machinery.full_disks()) == {
        AlertFinding(f"disk:{host}", Kind.DISK, f"host {host}", f"{host} has {room} {rest}", page)
        for host, room in (("alpha", "1.0"), ("beta", "1.5"), ("lone", "0.0"))
    }


def test_workers_that_are_refused_or_silent_are_named_with_what_to_do():
    worker("fine")
    worker("old", refusal="its code is older")
    worker("away", beat_at=datetime.fromisoformat("2026-11-01T10:05:00+00:00"), refusal="its code is older")
    page = reverse("operate_workers")
    assert list(machinery.refused_workers()) == [
        AlertFinding("code:old", Kind.HOSTS, "worker old", "old takes no work: its code is older.", page)
    ]
    assert list(machinery.silent_workers()) == [
        AlertFinding(
            "away:away",
            Kind.HOSTS,
            "worker away",
            "away has given no sign of life since 2026-11-01 10:05 UTC. Others do its work. Look whether its host "
            "reaches the database and the broker; it goes on by itself once it does.",
            page,
        )
    ]


def test_a_drift_is_news_for_a_day():
    metric = metric_of("careful", "profanity")
    now = timezone.now()
    drift = check(metric, "drifted", statistics={"decided_by": "7 labels flipped"})
    late = check(metric, "drifted", finished_at=now - timedelta(hours=23))
    check(metric, "drifted", finished_at=now - timedelta(hours=25))
    check(metric, "stable")
    page = f"{reverse('drift')}?metric=careful&check="
    words = "The scorer of careful drifted:"
    assert list(conditions.drifts(now)) == [
        AlertFinding(
            f"drift:{one.pk}", Kind.DRIFT, "metric careful", f"{words} {cause}", f"{page}{one.pk}", once=True, over=True
        )
        for one, cause in ((drift, "7 labels flipped"), (late, "see the check"))
    ]


def test_a_service_that_changed_is_news_for_a_day_with_what_it_goes_on_as():
    now = timezone.now()
    models = [fetch(number).model for number in range(4)]
    for model, hours in zip(models, (1, 23, 25), strict=False):
        Service.objects.create(model=model, change=f"change {model.slug}")
        LanguageModel.objects.filter(pk=model.pk).update(service_changed_at=now - timedelta(hours=hours))
    Service.objects.filter(model=models[0]).update(successor=models[3])
    start = "is another one: change"
    assert list(conditions.changed_services(now)) == [
        AlertFinding(
            f"service:{model.slug}",
            Kind.SERVICE,
            f"model {model.slug}",
            f"The service behind {model.slug} {start} {model.slug}.{rest}",
            model.get_absolute_url(),
            once=True,
            over=True,
        )
        for model, rest in ((models[0], " It goes on as m3: evaluate that."), (models[1], ""))
    ]


def silent(moment: datetime) -> list[str]:
    return [finding.key for finding in conditions.silent_scorers(moment)]


def test_a_scorer_is_silent_from_its_first_check_without_an_answer_on(settings):
    settings.ALERT_SCORER_SECONDS = 3600
    quiet, other = metric_of("quiet", "profanity"), metric_of("other", "lexicon:starter")
    now = timezone.now()
    check(other, "stable", finished_at=now - timedelta(hours=1))
    check(quiet, "stable", finished_at=now - timedelta(hours=5))
    check(quiet, "unavailable", finished_at=now - timedelta(minutes=50))
    assert silent(now) == [], "not for long"
    check(quiet, "", state="failed", reason="r", finished_at=now - timedelta(hours=2))
    (finding,) = conditions.silent_scorers(now)
    assert finding == AlertFinding(
        "scorer:quiet",
        Kind.SCORER,
        "metric quiet",
        "The scorer profanity of quiet has given no scores for long: nothing new is published.",
        f"{reverse('drift')}?metric=quiet",
    )
    answer = check(quiet, "changed", finished_at=now - timedelta(minutes=55))
    assert silent(now) == [], "it has answered since"
    answer.delete()
    check(quiet, "", state="cancelled", reason="r", finished_at=now - timedelta(hours=9))
    ControlCheck.objects.filter(verdict="stable", metric=quiet).update(finished_at=now - timedelta(hours=3))
    assert silent(now) == ["scorer:quiet"]
    RetiredScorer.objects.create(name="profanity", reason="It ended.")
    assert silent(now) == []


def test_a_scorer_that_never_answered_is_silent_and_so_is_one_for_which_entries_wait(settings):
    settings.ALERT_SCORER_SECONDS = 3600
    never, waited = metric_of("never", "profanity"), metric_of("waited", "lexicon:starter")
    now = timezone.now()
    check(never, "unavailable", finished_at=now - timedelta(hours=2))
    assert silent(now) == ["scorer:never"]
    run = run_of("Alder", waited)
    scoring = Scoring.objects.create(model=run.model, run=run, metric_version=version_of(waited, "one"))
    entry = Scoring.objects.filter(pk=scoring.pk)
    for values, is_silent in (
        ({"fault": "ScorerUnavailable", "started_at": now - timedelta(minutes=50)}, False),
        ({"fault": "StorageAway", "started_at": now - timedelta(hours=2)}, False),
        ({"fault": "ScorerUnavailable", "started_at": now - timedelta(hours=2)}, True),
        ({"state": "failed", "reason": "r"}, False),
    ):
        entry.update(**values)
        assert silent(now) == ["scorer:never", "scorer:waited"][: 1 + is_silent], values


def test_the_end_of_a_scorer_is_announced_twice_before_and_once_after_it(monkeypatch):
    first, second = metric_of("first", "profanity"), metric_of("second", "profanity")
    metric_of("third", "lexicon:starter")
    page = reverse("operate")
    monkeypatch.setattr(conditions, "end_of", lambda name: date(2026, 12, 31) if name == "profanity" else None)
    monkeypatch.setattr(conditions.service_client, "today", lambda: date(2026, 12, 1))
    version = version_of(first, "one")
    version_of(second, "one")
    assert list(conditions.ending_scorers()) == [], "nobody sees numbers of it"
    MetricVersion.objects.filter(pk=version.pk).update(status="current", published_at=timezone.now())
    tail = "Nothing new is scored with it from then on, and what it scored stays."
    notices = [
        AlertFinding(
            f"ending:profanity:{days}",
            Kind.ENDING,
            "scorer profanity",
            f"profanity ends on 31 December 2026, within {days} days: choose a successor for first, second. {tail}",
            page,
        )
        for days in (60, 30)
    ]
    assert list(conditions.ending_scorers()) == notices
    monkeypatch.setattr(conditions.service_client, "today", lambda: date(2026, 11, 30))
    assert list(conditions.ending_scorers()) == notices[:1]
    monkeypatch.setattr(conditions.service_client, "today", lambda: date(2026, 11, 1))
    assert list(conditions.ending_scorers()) == notices[:1]
    monkeypatch.setattr(conditions.service_client, "today", lambda: date(2026, 10, 31))
    assert list(conditions.ending_scorers()) == []
    monkeypatch.setattr(conditions.service_client, "today", lambda: date(2026, 12, 1))
    row = RetiredScorer.objects.create(name="profanity", reason="the service ended")
    RetiredScorer.objects.create(name="lexicon:starter", reason="nobody measures with it")
    assert list(conditions.ending_scorers()) == [], "it has ended"
    assert list(conditions.ended_scorers(timezone.now())) == [
        AlertFinding(
            f"retired:profanity:{row.pk}",
            Kind.ENDING,
            "scorer profanity",
            "profanity is retired: the service ended. Its rankings stay; first, second go on once they are rescored "
            "with another scorer.",
            page,
            once=True,
            over=True,
        )
    ]
    RetiredScorer.objects.update(retired_at=timezone.now() - timedelta(hours=25))
    assert list(conditions.ended_scorers(timezone.now())) == []


def disagree(metric: Metric, **values: Any) -> ControlCheck:
    return check(metric, "stable", **{"first_host": "beta", "first_finding": "3 labels", "host": "alpha"} | values)


def test_hosts_disagree_until_the_first_one_answers_alike_about_that_metric():
    metric, other = metric_of("careful", "profanity"), metric_of("other", "profanity")
    now = timezone.now()
    disagree(metric)
    disagree(other, finished_at=now - timedelta(hours=25))
    disagree(other, first_host="")
    disagree(other, first_host="alpha")
    check(other, "drifted", first_host="beta", host="alpha")
    check(metric, "stable", host="beta", finished_at=now - timedelta(hours=2))
    check(metric, "stable", host="alpha", finished_at=now)
    check(metric, "drifted", host="beta", finished_at=now)
    check(other, "stable", host="beta", finished_at=now)
    assert list(machinery.disagreements(now)) == [
        AlertFinding(
            "disagree:careful:beta",
            Kind.HOSTS,
            "host beta",
            "beta found that the scorer of careful drifted (3 labels), and alpha scores as at first: beta gets no work "
            "of careful. Compare the two hosts.",
            f"{reverse('drift')}?metric=careful",
        )
    ]
    check(metric, "changed", host="beta", finished_at=now)
    assert list(machinery.disagreements(now)) == []


# Metrics for Prometheus


def samples(*families: Family) -> dict[tuple[str, ...], float]:
    """The values by name and labels."""
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_work_is_exposed_by_state_and_what_failed_or_waits_by_reason():
    fetch(1)
    fetch(2, fault="StorageAway")
    fetch(3, state="failed", reason="r", fault="ModelRefused")
    fetch(4, state="failed", reason="r", fault="ModelRefused")
    fetch(5, state="done", fault="StorageAway")
    values = {key: value for key, value in samples(*board.work_families()).items() if key[1] == "download"}
    none = {(name, "download", kind): 0 for kind in FailureKind for name in ("plumbline_failed", "plumbline_retrying")}
    states = {"queued": 2, "running": 0, "done": 1, "failed": 2, "cancelled": 0}
    assert values == none | {("plumbline_work", "download", state): count for state, count in states.items()} | {
        ("plumbline_failed", "download", "model"): 2,
        ("plumbline_retrying", "download", "storage"): 1,
    }


def test_only_finished_work_is_timed_and_the_pace_is_that_of_the_last_hour():
    metric = metric_of("careful", "profanity")
    rows = [
        {"seconds": 1.0, "done": 10, "finished_at": from_now(-60)},
        {"seconds": 9.0, "done": 40, "finished_at": from_now(-3500)},
        {"seconds": 400.0, "done": 1000, "finished_at": from_now(-3700)},
        {"seconds": 0.0, "done": 5, "finished_at": from_now(-60)},
        {"seconds": 2.0, "done": 7, "state": "failed", "reason": "r", "finished_at": from_now(-60)},
    ]
    for number, row in enumerate(rows):
        run = run_of(f"model {number}", metric, f"m{number}")
        type(run).objects.filter(pk=run.pk).update(**row, total=row["done"])
    values = samples(board.durations(type(run)))
    assert [values["plumbline_run_seconds_bucket", limit] for limit in ("1.0", "5.0", "15.0", "300.0", "900.0")] == [
        1,
        1,
        2,
        2,
        3,
    ]
    assert values["plumbline_run_seconds_bucket", "+Inf"] == values[("plumbline_run_seconds_count",)] == 3
    assert values[("plumbline_run_seconds_sum",)] == 410.0
    assert samples(*board.texts()) == {
        ("plumbline_texts_total", "run"): 1050,
        ("plumbline_texts_total", "scoring"): 0,
        ("plumbline_texts_per_second", "run"): 5.0,
        ("plumbline_texts_per_second", "scoring"): 0.0,
    }


def test_verdicts_are_exposed_by_metric_with_the_time_of_the_newest_one():
    metric, other = metric_of("careful", "profanity"), metric_of("other", "profanity")
    moments = [from_now(-hours * 3600) for hours in (1, 5, 9)]
    check(metric, "stable", finished_at=moments[1])
    check(metric, "stable", finished_at=moments[2])
    check(metric, "drifted", finished_at=moments[0])
    check(other, "unavailable", finished_at=None)
    check(other, "", state="failed", reason="r")
    newest = metric.checks.get(verdict="drifted").finished_at
    assert samples(*board.checks()) == {
        ("plumbline_checks_total", "careful", "stable"): 2,
        ("plumbline_checks_total", "careful", "drifted"): 1,
        ("plumbline_checks_total", "other", "unavailable"): 1,
        ("plumbline_last_check_timestamp_seconds", "careful"): newest.timestamp(),
    }


def test_the_machinery_is_exposed_by_queue_host_and_kind(settings):
    settings.BACKUP_SECONDS = 1234
    worker("gpu@alpha", host="alpha", disk_free=5, queues=["gpu", "default"])
    worker("gpu@beta", host="alpha", disk_free=3, queues=["gpu"])
    worker("lone", disk_free=1, queues=["other"])
    worker("gone", host="gamma", disk_free=0, beat_at=from_now(-86_400))
    fetch(1, heartbeat_at=from_now(-100), **running())
    fetch(2, heartbeat_at=from_now(-500))
    Artefact.objects.create(sha256="0" * 64, kind="file", size=1, rows=0, schema_version=1, state="damaged")
    Artefact.objects.create(sha256="1" * 64, kind="file", size=1, rows=0, schema_version=1)
    for number, resolved_at in enumerate((None, None, timezone.now())):
        incident = Incident.objects.create(
            key=f"disk:{number}",
            kind="disk",
            subject="s",
            summary="s",
            path="/",
            opened_at=from_now(-60),
            resolved_at=resolved_at,
        )
    incident.messages.add_alerts(OutboxMessage.Event.OPENED, ["e-mail"])
    values = samples(*board.machinery())
    assert {key: value for key, value in values.items() if key[0] == "plumbline_workers"} == {
        ("plumbline_workers", name): count
        for name, count in {"gpu": 2, "default": 1, "other": 1, "readings": 0, "downloads": 0}.items()
    }
    assert {key[1]: value for key, value in values.items() if key[0] == "plumbline_disk_free_bytes"} == {"alpha": 3}
    assert 100 <= values[("plumbline_lease_age_seconds",)] < 200
    assert values[("plumbline_files_lost",)] == 1
    assert values[("plumbline_backup_interval_seconds",)] == 1234
    assert values[("plumbline_alerts_undelivered",)] == 1
    counts = {key[1]: value for key, value in values.items() if key[0] == "plumbline_incidents"}
    assert counts == dict.fromkeys(Kind.values, 0) | {"disk": 2}
