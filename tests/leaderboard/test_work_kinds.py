"""A kind of work is declared once: everything else that knows the kinds reads the declaration."""

import ast
from pathlib import Path

import pytest
import structlog
from django.contrib import admin
from django_structlog.celery.signals import modify_context_before_task_publish

from leaderboard import logs, models, tasks
from leaderboard.celery import app
from leaderboard.models import WORK_TABLES, LanguageModel, Submission, Work
from leaderboard.operations.alerts import conditions
from leaderboard.operations.monitoring.board import work_families
from leaderboard.operations.queries.work import STATES, count_work
from leaderboard.services import queue, workers
from leaderboard.services.signs_of_life import count_waiting

ROOT = Path(tasks.__file__).parent
NAMES = {table.__name__ for table in WORK_TABLES}


def test_every_table_of_work_is_a_kind_with_names_of_its_own():
    assert set(WORK_TABLES) == set(Work.__subclasses__())
    for name in ("key", "one", "many", "task"):
        assert len({getattr(table.kind, name) for table in WORK_TABLES}) == len(WORK_TABLES), name


@pytest.mark.parametrize("table", WORK_TABLES, ids=lambda table: table.kind.key)
def test_work_that_nobody_has_begun_took_no_time_and_no_attempt(table):
    work = table()
    assert (work.seconds, work.attempts, work.started_at) == (0, 0, None)


@pytest.mark.parametrize("table", WORK_TABLES, ids=lambda table: table.kind.key)
def test_each_place_that_knows_the_kinds_reads_the_declaration(table, db):
    kind = table.kind
    assert kind.task_name in app.tasks
    assert callable(getattr(tasks, kind.task))
    assert app.amqp.router.route({}, kind.task_name)["queue"].name == kind.queue
    assert kind.queue in workers.QUEUES
    assert kind.queue in count_waiting()
    assert not queue.ready_work(table).exists()
    list(table.objects.select_related(*kind.related))
    for path in kind.abilities.values():
        list(table.objects.filter(**{path: "x"}))
    assert kind.key in logs.id_names()
    context = {kind.key: 1, "request_id": "kept"}
    modify_context_before_task_publish.send(None, context=context)
    assert context == {"request_id": "kept"}
    counts = next(counts for counts in count_work() if counts.label == kind.label)
    assert set(counts.states) == set(STATES)
    assert all(any(sample.labels["kind"] == kind.key for sample in family.samples) for family in work_families())
    assert admin.site.is_registered(table)


def test_failed_work_of_every_kind_is_an_incident(db, django_user_model):
    work = models.Download.objects.create(
        model=LanguageModel.objects.create(
            slug="oak", name="Oak", kind="causal", source="hub", location="org/oak", revision="0" * 40
        )
    )
    user = django_user_model.objects.create_user("ada")
    submission = Submission.objects.create(submitter=user, form="outputs", payload={}, state="checking")
    reading = models.Reading.objects.create(submission=submission)
    for row in (work, reading):
        table = type(row)
        table.objects.filter(pk=row.pk).update(
            state=Work.State.FAILED, reason="it broke", fault="ValueError", finished_at="2026-01-01T00:00Z"
        )
    now = models.Download.objects.get().finished_at
    summaries = [finding.summary for finding in conditions.failures(now)]
    assert any(summary.startswith(f"1 {models.Download.kind.one} failed.") for summary in summaries)
    assert any(summary.startswith(f"1 {models.Reading.kind.one} failed.") for summary in summaries)


@pytest.mark.slow
def test_no_other_module_lists_the_kinds_of_work():
    listing = []
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Dict, ast.Tuple, ast.List, ast.Set)):
                parts = [*node.keys, *node.values] if isinstance(node, ast.Dict) else node.elts
                names = {name.id for part in parts if part for name in ast.walk(part) if isinstance(name, ast.Name)}
                if len(names & NAMES) >= 3:
                    listing.append(path.relative_to(ROOT).as_posix())
    assert set(listing) <= {"models/__init__.py", "exchange/tables.py"}, listing


def test_lines_name_the_work_that_they_are_about():
    with structlog.contextvars.bound_contextvars(check=7):
        event = {"timestamp": "2026-11-23T05:00:00", "level": "info", "logger": "x", "event": "y"}
        line = logs.as_line(None, "info", structlog.contextvars.merge_contextvars(None, "info", event))
    assert "  check=7" in line
