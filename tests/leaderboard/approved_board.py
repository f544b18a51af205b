"""The board whose pages are approved: rows of every kind, in as many of their states as one board can show."""

import hashlib
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, models
from django.test import Client
from django.utils import timezone

from leaderboard import models as rows
from leaderboard.models import AuditVerb, LanguageModel, Metric, Submission, Work
from leaderboard.services.audit import record
from leaderboard.services.evaluate import request_evaluation
from leaderboard.services.published import seed_published
from leaderboard.services.rescore import open_rescoring
from leaderboard.services.seed import seed_metrics
from tests.approved_text import compare_with_approved, describe_answer, name_file
from tests.leaderboard.living import Stage, deliver, drain, entrant, small_metric, submit, waiting
from tests.leaderboard.submitting import sent
from tests.leaderboard.test_accounts import person
from tests.leaderboard.test_drift_page import check, go_through_verdicts

MODEL = "entrant-1"
DAY = datetime(2026, 3, 12, 10, tzinfo=UTC)
LONG_AGO, FAR_AHEAD = DAY - timedelta(days=400), datetime(2126, 3, 12, tzinfo=UTC)
LASTING = ("expires_at", "not_before")  # dates whose meaning is before or after the present
FLAGS = [{"key": "far", "words": "Its score is far above those of models of its size."}]


def restart_counting() -> None:
    """Number rows from 1, whatever other tests have made."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM sqlite_sequence")


def build(folder: Path, stage: Stage) -> None:
    """Published figures; and a metric that three models were measured under before and after its scorer drifted."""
    restart_counting()
    seed_metrics()
    seed_published()
    metric = small_metric(folder)
    for number in (1, 2, 3):
        submit(entrant(number, metric), metric)
    go_through_verdicts(metric, stage)
    while work := waiting():
        deliver(work[0])
    drain()
    check(metric)


def hash_word(word: str) -> str:
    """Where a sha256 is asked for."""
    return hashlib.sha256(word.encode()).hexdigest()


def add_people_and_their_work(metric: Metric) -> None:
    """Somebody who submits, with a submission in each of several states, an operator, and what is on her page."""
    ada, olga = person("ada", pk=1), person("olga", "operator", pk=2, is_staff=True, is_superuser=True)
    model = LanguageModel.objects.get(slug=MODEL)
    states = {
        "checking": "",
        "moderated": "",
        "returned": "Say which texts it was trained on.",
        "accepted": "",
        "failed": "The weights hold numbers that are not finite.",
        "ranked": "",
    }
    for number, (state, reason) in enumerate(states.items(), 1):
        submission = sent(ada, metric.slug, number=number)
        ranked_model = model if state in ("accepted", "ranked") else None
        Submission.objects.filter(pk=submission.pk).update(id=number, state=state, reason=reason, model=ranked_model)
    Submission.objects.get(state="ranked").scorings.set(model.scorings.all())
    scoring = request_evaluation(entrant(8, metric), metric, send=False)
    type(scoring).objects.filter(pk=scoring.pk).update(
        state=Work.State.FAILED, reason="The outputs hold no text.", attempts=3, fault="ValueError"
    )
    request_evaluation(entrant(9, metric), metric, send=False)
    rows.Incident.objects.create(
        key="drift a",
        kind="drift",
        subject=f"metric {metric.slug}",
        summary="It drifted.",
        path="/drift/",
        opened_at=DAY,
    )
    record(
        AuditVerb.SET_DRIFT_POLICY,
        f"metric {metric.slug}",
        {"reason": "Fewer alarms."},
        olga,
        ({"level": 1}, {"level": 2}),
    )


def add_accounts() -> None:
    """Invitations and tokens in each of their states."""
    ada, olga = User.objects.get(username="ada"), User.objects.get(username="olga")
    invitations: list[dict[str, Any]] = [
        {"expires_at": FAR_AHEAD, "email": "grace@example.org"},
        {"expires_at": FAR_AHEAD, "used_at": DAY, "used_by": ada},
        {"expires_at": FAR_AHEAD, "revoked_at": DAY},
        {"expires_at": LONG_AGO},
    ]
    for number, changes in enumerate(invitations):
        rows.Invitation.objects.create(token_hash=hash_word(f"invitation {number}"), invited_by=olga, **changes)
    tokens: list[dict[str, Any]] = [
        {"name": "nightly", "last_used_at": DAY},
        {"name": "lost laptop", "expires_at": FAR_AHEAD, "revoked_at": DAY},
        {"name": "trial", "expires_at": LONG_AGO},
    ]
    for number, changes in enumerate(tokens):
        rows.ApiToken.objects.create(
            owner=ada, token_hash=hash_word(f"token {number}"), last_four=f"abc{number}", **changes
        )
    rows.Preferences.objects.create(user=olga, letters=False)


def add_machinery() -> None:
    """Workers, backups, stored folders, and what has been over or failed."""
    cage = [{"name": "network", "title": "No network", "holds": False, "remedy": "Start it as root."}]
    workers: list[dict[str, Any]] = [
        {"name": "gpu@alpha", "host": "alpha", "queues": ["gpu"], "cage": cage, "memory": 2**33, "disk_free": 2**40},
        {"name": "default@beta", "host": "beta", "queues": ["default"], "refusal": "Its code is older: upgrade it."},
        {"name": "gpu@gamma", "host": "gamma", "queues": ["gpu"], "stuck_since": DAY, "stuck_at": "run 7"},
    ]
    for changes in workers:
        rows.Worker.objects.create(started_at=DAY, beat_at=DAY, **changes)
    backups: list[dict[str, Any]] = [
        {"finished_at": DAY, "files": 3, "size": 2**21, "copied": 2**20, "encryption": "age", "verified_at": DAY},
        {"problem": "The disk is full."},
    ]
    for number, changes in enumerate(backups):
        rows.Backup.objects.create(name=f"2026031{number}", target="/mnt/backups", begun_at=DAY, **changes)
    rows.StorageMark.objects.create(number=1, newest="0" * 64, marked_at=DAY)
    folder = rows.StoredFolder.objects.create(name="scorer lexicon:own", sha256="1" * 64)
    artefact = rows.Artefact.objects.order_by("pk")[0]
    rows.FolderFile.objects.create(folder=folder, path="home.txt", artefact=artefact)
    rows.Artefact.objects.filter(pk=artefact.pk).update(state="missing", checked_at=DAY)
    rows.Incident.objects.create(
        key="disk b",
        kind="disk",
        subject="alpha",
        summary="It was full.",
        path="/operate/",
        opened_at=DAY,
        resolved_at=DAY,
    )


def add_models_of_each_kind(metric: Metric) -> None:
    """One behind a service that changed, one of a hub that was withdrawn, and what is noted of each."""
    served = entrant(4, metric)
    LanguageModel.objects.filter(pk=served.pk).update(
        source=LanguageModel.Source.SERVER,
        location="https://models.example.org/v1#small/one",
        revision="r1",
        interface="chat",
        service_changed_at=DAY,
        notes="Its maker says that it was aligned.",
    )
    service: dict[str, Any] = {
        "identity": {"models.root": "/models/small"},
        "likelihoods": {"way": "vllm", "leads": False, "can_lead": False},
        "verification": {"against": "weights", "sentences": 10, "largest": 0.00001, "texts": "2" * 64},
        "change": "Its answers to 3 of 10 openings differ.",
    }
    rows.Service.objects.create(model=served, asked_at=DAY, successor=entrant(5, metric), **service)
    checks = rows.ServiceCheck.objects
    checks.create(
        model=served,
        trigger="schedule",
        state=Work.State.DONE,
        verdict="changed",
        finished_at=DAY,
        statistics={"decided_by": "Its answers to 3 of 10 openings differ."},
    )
    checks.create(model=served, trigger="manual")
    withdrawn = entrant(6, metric)
    LanguageModel.objects.filter(pk=withdrawn.pk).update(
        source=LanguageModel.Source.HUB,
        location="an-institute/a-model",
        access=LanguageModel.Access.WITHDRAWN,
        licence="mit",
        parameters=124_439_808,
        layers=12,
        heads=12,
        hidden_size=768,
        context=1024,
        precision="bfloat16",
        weight_format="safetensors",
        release_date=date(2025, 2, 1),
    )
    record(AuditVerb.WITHDRAW_MODEL, f"model {withdrawn.slug}", {"reason": "Its authors asked."})
    rows.Download.objects.create(model=withdrawn, state=Work.State.FAILED, reason="The hub is away.", attempts=2)


def add_rare_work(metric: Metric) -> None:
    """A version being opened, entries that are left behind or held back, a report card, and a scorer to take over."""
    version = metric.current_version()
    assert version is not None
    first, *_ = version.scorings.filter(state=Work.State.DONE).order_by("pk")
    _, second, third = metric.versions.get(number=1).scorings.order_by("pk")
    checks = rows.EntryCheck.objects
    checks.create(scoring=first, flags=FLAGS, state="marked")
    checks.create(scoring=second, flags=FLAGS, state="refused", reason="Nobody can explain it.", decided_at=DAY)
    checks.create(scoring=third, flags=FLAGS, state="held")
    earlier = entrant(7, metric)
    rows.OutdatedEntry.objects.create(
        metric_version=version, model=earlier, last_scoring=first, reason="Its weights are gone."
    )
    succession = rows.Succession.objects.create(metric=metric, scorer="standin", successor="profanity")
    rows.Succession.objects.filter(pk=succession.pk).update(
        state=Work.State.FAILED, reason="The successor cannot be had.", attempts=3
    )
    open_rescoring(metric, "To be sure.")
    rows.RetiredScorer.objects.create(name="standin", reason="Another takes over.")
    control = version.control_set
    opening = rows.Opening.objects.create(
        metric_version=metric.versions.latest("number"),
        items=control.items,
        fingerprint="3" * 64,
        wanted=9,
        refusals=1,
        reason="two groups of a scores",
        not_before=FAR_AHEAD,
    )
    rows.Replicate.objects.create(opening=opening, number=0, artefact=control.reference)
    calibration = rows.Calibration.objects.create(
        metric_version=version, evaluation_set=metric.protocol.evaluation_set, fingerprint=version.scorer_fingerprint
    )
    rows.Calibration.objects.filter(pk=calibration.pk).update(
        state=Work.State.FAILED, reason="Its texts have no labels.", attempts=3
    )


def add_submissions_that_are_read() -> None:
    """What is known of them while they are read and when they are refused."""
    reading = Submission.objects.get(state="checking")
    rows.Reading.objects.create(submission=reading, state=Work.State.RUNNING, done=3, total=4, started_at=DAY)
    rows.SubmissionLine.objects.create(submission=reading, text="75% is read.")
    Submission.objects.filter(state="moderated").update(concerns=["Its licence is none that is known."])
    Submission.objects.filter(state="ranked").update(
        concerns=["Its name is much like GPT-2's."], name_asked="GPT-2 small"
    )


def fix_dates() -> None:
    """Date every row by its key, whenever it was made; what is ahead of the present stays so, or lies behind it."""
    for model in [*apps.get_app_config("leaderboard").get_models(), User]:
        fields = model._meta.concrete_fields
        dates = [field.attname for field in fields if isinstance(field, models.DateTimeField)]
        for row in model._default_manager.values("pk", *dates) if dates else ():
            moment = DAY + timedelta(minutes=row["pk"] if isinstance(row["pk"], int) else 0)
            changes = {name: moment for name in dates if row[name]}
            changes |= {name: FAR_AHEAD for name in LASTING if row.get(name) and row[name] > timezone.now()}
            if changes:
                model._base_manager.filter(pk=row["pk"]).update(**changes)


def add_everything(metric: Metric) -> None:
    """Whatever a board may hold beside its measurements."""
    add_people_and_their_work(metric)
    add_accounts()
    add_machinery()
    add_models_of_each_kind(metric)
    add_rare_work(metric)
    add_submissions_that_are_read()


def compare_pages(client: Client, *paths: str) -> None:
    """Compare what is at these addresses of another board, dated, with what is kept of it in approved/comparisons."""
    if connection.vendor != "sqlite":
        pytest.skip("numbers rows as SQLite does: the run on SQLite tests it")
    fix_dates()
    for path in paths:
        compare_with_approved(f"comparisons/{name_file(path)}", describe_answer(client.get(path)))
