"""What the database refuses, and what may follow what."""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from leaderboard.models import (
    Artefact,
    AuditEvent,
    LanguageModel,
    MetricVersion,
    Rescoring,
    Result,
    Run,
    Scoring,
    Standing,
    Work,
)
from leaderboard.services.versions import open_first_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def published(db):
    return LanguageModel.objects.create(slug="m", name="M", kind="causal", source="published")


@pytest.fixture
def version(metric):
    return open_first_version(metric)


@pytest.fixture
def scoring(published, version):
    return Scoring.objects.create(model=published, metric_version=version)


def refused(create) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        create()


@pytest.mark.parametrize("changes", [{"kind": "psychic"}, {"access": "secret"}, {"source": "rumour"}])
def test_a_language_model_has_known_kind_access_and_source(changes):
    valid = {"slug": "x", "name": "X", "kind": "causal", "source": "published"}
    refused(lambda: LanguageModel.objects.create(**(valid | changes)))


def test_a_model_with_weights_has_a_pinned_revision():
    refused(lambda: LanguageModel.objects.create(slug="x", name="X", kind="causal", source="hub", location="a/b"))


def test_one_revision_is_entered_once():
    pinned = {"name": "X", "kind": "causal", "source": "hub", "location": "a/b", "revision": "1"}
    LanguageModel.objects.create(slug="x", **pinned)
    refused(lambda: LanguageModel.objects.create(slug="y", **pinned))


def test_revisions_of_one_model_come_from_one_place():
    first, other, stranger = (
        LanguageModel.objects.create(slug=slug, name="X", kind="causal", source="hub", location=place, revision=slug)
        for slug, place in (("first", "a/b"), ("other", "a/b"), ("stranger", "a/c"))
    )
    assert set(LanguageModel.objects.lineage(first)) == {first, other}
    assert set(LanguageModel.objects.lineage(stranger)) == {stranger}


def test_an_artefact_is_named_by_a_sha256():
    refused(lambda: Artefact.objects.create(sha256="zz", kind="k", rows=1, size=1, schema_version=1))


def test_figures_of_a_paper_that_wait_to_be_published_are_no_measured_version(metric):
    figures = {"provenance": "published", "source": "A paper", "formula_version": metric.formula.version}
    entered = metric.versions.create(number=1, protocol=metric.protocol, scorer=metric.scorer, **figures)
    first = open_first_version(metric)
    assert (first.pk != entered.pk, first.measured, first.number) == (True, True, 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_result_is_a_number(scoring, value):
    refused(lambda: Result.objects.create(scoring=scoring, measure="m", slice="s", value=value))


def test_a_result_has_an_ordered_interval_and_a_probability(scoring):
    refused(lambda: Result.objects.create(scoring=scoring, measure="m", slice="s", value=0.5, ci_low=0.6, ci_high=0.4))
    refused(lambda: Result.objects.create(scoring=scoring, measure="m", slice="s", value=0.5, p_value=1.2))


def test_one_result_for_a_measure_and_slice(scoring):
    Result.objects.create(scoring=scoring, measure="m", slice="s", value=0.5)
    refused(lambda: Result.objects.create(scoring=scoring, measure="m", slice="s", value=0.6))


def test_a_standings_range_holds_its_rank(scoring, version, published):
    result = Result.objects.create(scoring=scoring, measure="m", slice="s", value=0.5)
    row = {"metric_version": version, "measure": "m", "slice": "s", "model": published, "result": result, "value": 0.5}
    refused(lambda: Standing.objects.create(**row, rank=3, rank_low=1, rank_high=2))
    refused(lambda: Standing.objects.create(**row, rank=0))
    Standing.objects.create(**row, rank=2, rank_low=1, rank_high=2)
    refused(lambda: Standing.objects.create(**row, rank=1))


def test_a_metric_has_one_current_measured_version(metric, version):
    version.status = MetricVersion.Status.CURRENT
    version.save()
    other = MetricVersion.objects.create(
        metric=metric, number=9, protocol=metric.protocol, scorer_fingerprint="0" * 64, formula_version=1
    )
    other.status = MetricVersion.Status.CURRENT
    refused(other.save)


def test_a_published_version_cannot_change_what_fixes_its_numbers(version):
    version.status = MetricVersion.Status.CURRENT
    version.save()
    version.formula_version += 1
    with pytest.raises(ValueError, match="formula_version cannot change"):
        version.save()


def test_at_most_one_rescoring_of_a_metric_is_active(metric, version):
    target = MetricVersion.objects.create(
        metric=metric, number=9, protocol=metric.protocol, scorer_fingerprint="0" * 64, formula_version=1
    )
    row = {"metric": metric, "from_version": version, "to_version": target, "reason": "why"}
    first = Rescoring.objects.create(**row)
    refused(lambda: Rescoring.objects.create(**row, state="paused"))
    assert first.move(Rescoring.State.CANCELLED)
    Rescoring.objects.create(**row)


def test_a_run_is_done_only_with_an_artefact_and_leased_only_while_running(metric, published):
    row = {"model": published, "protocol": metric.protocol}
    refused(lambda: Run.objects.create(**row, state=Work.State.DONE))
    refused(lambda: Run.objects.create(**row, state=Work.State.FAILED))
    refused(lambda: Run.objects.create(**row, done=2, total=1))
    refused(
        lambda: Run.objects.create(**row, lease="00000000-0000-0000-0000-000000000001", lease_expires_at=timezone.now())
    )


def test_a_state_moves_along_arrows_only(metric, published):
    run = Run.objects.create(model=published, protocol=metric.protocol)
    assert not run.move(Work.State.DONE)
    assert run.move(Work.State.CANCELLED)
    assert not run.move(Work.State.RUNNING)
    assert run.move(Work.State.QUEUED)


def test_the_audit_trail_is_append_only():
    event = AuditEvent.objects.create(verb="submit", subject="at this")
    with pytest.raises(ValueError, match="cannot be changed"):
        event.save()
    with pytest.raises(ValueError, match="cannot be deleted"):
        event.delete()
