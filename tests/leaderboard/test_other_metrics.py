"""What is done to one metric changes nothing of another, though both are under way at once."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.utils import timezone

from leaderboard.models import (
    AuditEvent,
    LanguageModel,
    Metric,
    MetricVersion,
    OutdatedEntry,
    Rescoring,
    Result,
    Run,
    Scoring,
    Standing,
)
from leaderboard.services.policies import set_policy
from leaderboard.services.publish import publish_standings
from leaderboard.services.rescore import cancel, estimate, open_rescoring, pause, resume
from leaderboard.services.versions import bind, hold_paused_work, keep_attributes, keep_chat_protocol
from scoring.attributes import Attribute, Meaning
from tests.leaderboard.living import NAME, drain, standing_in

pytestmark = pytest.mark.django_db

OTHER = "toxicity-other"
TABLES: tuple[tuple[type[Model], str], ...] = (
    (Metric, "slug"),
    (MetricVersion, "metric__slug"),
    (Rescoring, "metric__slug"),
    (OutdatedEntry, "metric_version__metric__slug"),
    (Scoring, "metric_version__metric__slug"),
    (Result, "scoring__metric_version__metric__slug"),
    (Standing, "metric_version__metric__slug"),
)


@pytest.fixture(autouse=True)
def stage() -> Iterator[Any]:
    with standing_in() as opened:
        yield opened


@pytest.fixture
def board(load_living) -> Metric:
    """One entry under the first version."""
    return load_living(1)


def copy_row(row: Any, **changes: Any) -> Any:
    """Another row of the same table, as this one but for the changes."""
    new_row = copy.copy(row)
    new_row.pk, new_row._state.adding = None, True
    for name, value in changes.items():
        setattr(new_row, name, value)
    new_row.save(force_insert=True)
    return new_row


@pytest.fixture
def other(board) -> Metric:
    """A metric with a ranked entry, one that is outdated, and a rescoring that is under way and on hold."""
    version = board.current_version()
    scoring, results = version.scorings.get(), list(Result.objects.filter(scoring__metric_version=version))
    run, protocol = scoring.run, board.protocol
    metric = copy_row(Metric.objects.get(pk=board.pk), slug=OTHER, labels={"rude": "harm"}, scorer="profanity")
    first = copy_row(version, metric=metric, scorer="profanity", most_missing=0.5, publications=7, ranges_due=True)
    rows = {"kind": "causal", "source": "local", "revision": "1"}
    models = [LanguageModel.objects.create(slug=f"o{n}", name=f"O{n}", location=f"/o/{n}", **rows) for n in range(4)]
    runs = [copy_row(run, model=model) for model in models]
    ranked = copy_row(scoring, model=models[0], metric_version=first, run=runs[0])
    for result in results:
        Standing.objects.create(
            metric_version=first,
            measure=result.measure,
            slice=result.slice,
            model=models[0],
            result=copy_row(result, scoring=ranked),
            rank=1,
            value=result.value,
        )
    last = copy_row(ranked, model=models[1], metric_version=first, run=runs[1])
    OutdatedEntry.objects.create(metric_version=first, model=models[1], last_scoring=last, reason="It is gone.")
    second = MetricVersion.objects.create(
        metric=metric,
        number=2,
        protocol=protocol,
        scorer="profanity",
        formula_version=first.formula_version,
    )
    Rescoring.objects.create(metric=metric, from_version=first, to_version=second, reason="to be sure", total=2)
    for run in runs[2:]:
        Run.objects.filter(pk=run.pk).update(state="queued", held=True, artefact=None)
        Scoring.objects.create(model=run.model, metric_version=second, run=run, held=True)
    stray = Run.objects.create(model=models[2], protocol=protocol, epoch=5, held=True)
    assert stray.scorings.count() == 0, "to collect a lost file again"
    return metric


def rows_of(metric: Metric) -> dict[str, list[dict[str, Any]]]:
    """All rows of a metric, and the runs of its entries."""
    rows = {
        table.__name__: list(table._default_manager.filter(**{lookup: metric.slug}).order_by("pk").values())
        for table, lookup in TABLES
    }
    return rows | {"Run": list(Run.objects.filter(model__slug__startswith="o").order_by("pk").values())}


def test_a_rescoring_from_its_opening_to_its_cancellation_changes_nothing_of_another_metric(board, other):
    before = rows_of(other)
    operator = User.objects.create_superuser("operator")
    assert (estimate(board).entries, board.current_version().number) == (1, 1)
    rescoring = open_rescoring(board, "a mistake", user=operator)
    assert (rescoring.done, rescoring.total) == (0, 1)
    assert pause(rescoring, operator)
    assert resume(rescoring, operator)
    assert cancel(rescoring, operator)
    rescoring.refresh_from_db()
    assert (rescoring.state, rescoring.finished_at is None) == ("cancelled", False)
    assert rows_of(other) == before
    steps = {"from": 1, "to": 2}
    running, paused = {"state": "running"}, {"state": "paused"}
    reason = "the rescoring was cancelled"
    events = AuditEvent.objects.filter(subject=f"metric {board.slug}", verb__endswith="rescoring").order_by("pk")
    assert list(events.values_list("verb", "actor__username", "detail")) == [
        ("open rescoring", "operator", steps | {"reason": "a mistake", "entries": 1}),
        ("pause rescoring", "operator", steps | {"before": running, "after": paused}),
        ("resume rescoring", "operator", steps | {"before": paused, "after": running}),
        (
            "cancel rescoring",
            "operator",
            steps | {"reason": reason, "before": running, "after": {"state": "cancelled"}},
        ),
    ]


def test_another_scorer_and_its_labels_are_those_of_that_metric_alone(board, other):
    before = rows_of(other)
    Metric.objects.filter(pk=board.pk).update(labels={"toxicity": "harm"})
    rescoring = open_rescoring(board, "another scorer", scorer="profanity")
    board.refresh_from_db()
    assert (rescoring.to_version.scorer, rescoring.former_labels) == ("profanity", {"toxicity": "harm"})
    assert (board.scorer, board.labels) == (NAME, {}), "readers see the scorer of now until the version is published"
    assert cancel(rescoring)
    board.refresh_from_db()
    assert (board.scorer, board.labels) == (NAME, {"toxicity": "harm"})
    assert rows_of(other) == before


@pytest.mark.slow
def test_a_version_that_takes_over_changes_nothing_of_another_metric(board, other):
    before = rows_of(other)
    rescoring = open_rescoring(board, "to be sure")
    drain()
    rescoring.refresh_from_db()
    ends = (rescoring.state, rescoring.done, rescoring.total, rescoring.finished_at is None)
    assert ends == ("published", 1, 1, False)
    assert board.current_version() == rescoring.to_version
    assert rows_of(other) == before
    published = AuditEvent.objects.filter(verb="publish version", subject=f"metric {board.slug}").latest("pk")
    assert published.detail == {"version": 2, "entries": 1, "outdated": 0}
    assert not AuditEvent.objects.filter(verb__in=["replace scorer", "leave outdated"]).exists()


def test_a_publication_and_a_policy_change_nothing_of_another_metric(board, other, django_capture_on_commit_callbacks):
    before = rows_of(other)
    version = board.current_version()
    publications = version.publications
    publish_standings(version)
    version.refresh_from_db()
    assert (version.publications, version.ranges_due, version.most_missing) == (publications + 1, False, 0.05)
    with django_capture_on_commit_callbacks() as callbacks:
        assert set_policy(board, {"most_missing": 0.2}, "a test", User.objects.create_superuser("operator"))
    version.refresh_from_db()
    assert (version.publications, version.ranges_due, version.most_missing) == (publications + 2, True, 0.2)
    assert len(callbacks) == 1, "a worker is asked for the ranges"
    event = AuditEvent.objects.get(verb="set drift policy")
    change = {"before": {"most_missing": 0.05}, "after": {"most_missing": 0.2}}
    assert event.detail == {"reason": "a test"} | change
    assert rows_of(other) == before


def test_what_a_scorer_is_bound_to_is_bound_to_the_version_of_that_metric_alone(board, other):
    before = rows_of(other)
    version = MetricVersion.objects.create(
        metric=board, number=2, protocol=board.protocol, scorer=NAME, formula_version=board.formula.version
    )
    attribute = Attribute("toxicity", Meaning.HARM, 0.5)
    bind(version, "e" * 64)
    keep_attributes(version, [attribute])
    keep_chat_protocol(version, board.protocol)
    version.refresh_from_db()
    assert (version.scorer_fingerprint, version.declared, version.chat_protocol) == (
        "e" * 64,
        (attribute,),
        board.protocol,
    )
    assert rows_of(other) == before


def test_work_of_a_paused_rescoring_waits_and_that_of_another_metric_goes_on(board, other):
    rescoring = Rescoring.objects.get(metric=other)
    Rescoring.objects.update(state=Rescoring.State.PAUSED)
    scorings = rescoring.to_version.scorings
    scorings.update(held=False)
    hold_paused_work([board.current_version()])
    assert not scorings.filter(held=True).exists()
    hold_paused_work([rescoring.to_version])
    assert scorings.filter(held=True).exists()
    Rescoring.objects.update(state=Rescoring.State.RUNNING, finished_at=timezone.now())
    hold_paused_work([rescoring.to_version])
    assert scorings.filter(held=True).exists(), "only a resumption lets it go"
