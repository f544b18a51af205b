"""What the database refuses, and what may follow what."""

from datetime import timedelta
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from leaderboard.models import (
    Artefact,
    AuditEvent,
    LanguageModel,
    MetricVersion,
    ModelIdentity,
    Protocol,
    Rescoring,
    Result,
    Run,
    Scoring,
    Standing,
    Submission,
    Work,
    asked_as,
    open_weights,
    ranked_now,
)
from leaderboard.models.clock import from_now
from leaderboard.models.results import describe_missing
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


def test_work_that_is_queued_again_remembers_nothing_of_how_it_ended(metric, published):
    run = Run.objects.create(model=published, protocol=metric.protocol)
    assert not run.queue_again(), "it waits already"
    ended = {"state": "failed", "reason": "It broke.", "fault": "ValueError", "attempts": 3, "held": True}
    moments = ("not_before", "waits_since", "started_at", "finished_at")
    Run.objects.filter(pk=run.pk).update(**ended, **dict.fromkeys(moments, timezone.now()))
    run.refresh_from_db()
    assert run.queue_again()
    row = Run.objects.values(*ended, *moments, "waits_for").get(pk=run.pk)
    forgotten = {"state": "queued", "reason": "", "fault": "", "attempts": 0, "held": False, "waits_for": ""}
    assert row == forgotten | dict.fromkeys(moments)


def test_work_that_is_cancelled_waits_for_nothing_and_belongs_to_nobody(metric, published):
    run = Run.objects.create(model=published, protocol=metric.protocol)
    other_model = LanguageModel.objects.create(slug="o", name="O", kind="causal", source="published")
    done = Run.objects.create(model=other_model, protocol=metric.protocol, state="cancelled", reason="Before.")
    assert run.claim(UUID(int=1), "gpu@here")
    waits = {"held": True, "not_before": timezone.now(), "waits_since": timezone.now(), "waits_for": "check"}
    Run.objects.filter(pk=run.pk).update(**waits)
    assert Run.objects.all().cancel("x" * 600) == 1
    columns = ("state", "lease", "lease_expires_at", *waits, "fault", "reason")
    assert Run.objects.values_list(*columns).get(pk=run.pk) == (
        *("cancelled", None, None, False, None, None, "", ""),
        "x" * 500,
    )
    run.refresh_from_db()
    assert (run.finished_at is None, run.was_given_up()) == (False, False)
    assert run.queue_again()
    assert Run.objects.filter(pk=run.pk).cancel("No.", by_person=True) == 1
    run.refresh_from_db()
    done.refresh_from_db()
    assert (run.was_given_up(), done.was_given_up(), done.reason) == (True, False, "Before.")


def test_a_lease_is_renewed_and_given_back_by_who_holds_it_alone(metric, published):
    run = Run.objects.create(model=published, protocol=metric.protocol, total=10)
    own, foreign = UUID(int=1), UUID(int=2)
    assert run.claim(own, "gpu@here")
    claimed = (run.state, run.lease, run.worker, run.attempts, run.not_before, run.progressed_at is None)
    assert claimed == ("running", own, "gpu@here", 1, None, False)
    started_at = run.started_at
    assert (run.turn_at is None, run.heartbeat_at is None, started_at is None) == (False, False, False)
    assert not run.claim(foreign, "gpu@there"), "a living worker holds it"
    assert (run.is_held(own), run.is_held(foreign)) == (True, False)
    Run.objects.filter(pk=run.pk).update(progressed_at=None, heartbeat_at=None)
    assert not run.renew(foreign, done=3)
    assert run.renew(own, seconds=2.5)
    run.refresh_from_db()
    assert (run.seconds, run.done, run.progressed_at, run.heartbeat_at is None) == (2.5, 0, None, False)
    assert run.renew(own, done=4)
    run.refresh_from_db()
    assert (run.done, run.progressed_at is None) == (4, False)
    assert (run.percent, run.time_left) == (40, timedelta(seconds=round(2.5 / 4 * 6)))
    assert not run.release(foreign, "failed", reason="It broke.")
    Run.objects.filter(pk=run.pk).update(waits_for="check", lease_expires_at=from_now(-1))
    assert run.claim(foreign, "gpu@there"), "the first worker fell silent"
    assert (run.attempts, run.started_at, run.worker) == (2, started_at, "gpu@there")
    assert run.release(foreign, "queued", reason="It gives way.")
    columns = (run.state, run.lease, run.lease_expires_at, run.waits_for, run.finished_at, run.reason)
    assert columns == ("queued", None, None, "", None, "It gives way.")
    assert run.time_left is None
    assert run.claim(own)
    assert run.release(own, "failed", reason="It broke.")
    assert (run.state, run.finished_at is None) == ("failed", False)


def test_there_is_no_time_left_to_tell_before_there_is_a_pace():
    run = Run(state="running", total=10)
    assert (run.percent, run.time_left, Run().percent) == (0, None, 0)
    run.done = 5
    assert (run.percent, run.time_left) == (50, None)
    run.done, run.seconds = 0, 5.0
    assert run.time_left is None


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((90, 0, None), ""),
        ((90, 0, 0), ""),
        ((90, 0, 1), "1 text without a score"),
        ((90, 0, 1200), "1,200 texts without a score"),
        ((90, 10, 30), "10.0% without a score"),
        ((None, 3, None), "100.0% without a score"),
        ((999, 1, None), "0.1% without a score"),
        ((1000, 1, None), "under 0.1% without a score"),
    ],
)
def test_what_has_no_score_is_told_in_words(counts, words):
    assert describe_missing(*counts) == words


def test_the_share_that_has_no_score_is_of_all_texts():
    assert (Result(n=90, missing=10).missing_share, Result(n=None, missing=0).missing_share) == (0.1, 0.0)


@pytest.mark.parametrize(
    ("measure", "p_adjusted", "is_significant"),
    [
        ("likelihood_auc", 0.0499, True),
        ("likelihood_auc", 0.05, False),
        ("likelihood_auc", None, None),
        ("safety_score", 0.01, None),
    ],
)
def test_a_difference_is_significant_below_5_percent_of_what_an_indifferent_model_would_have(
    measure, p_adjusted, is_significant
):
    assert Result(measure=measure, p_adjusted=p_adjusted).significant is is_significant


def test_models_are_found_by_how_they_are_asked_and_where_their_weights_are():
    identity = ModelIdentity.objects.create(slug="open", name="Open", hub_id="a/open")
    closed = ModelIdentity.objects.create(slug="closed", name="Closed")
    template = "a" * 64
    rows = {
        "base": {"source": "local"},
        "raw": {"source": "hub", "chat_template": template},
        "chat": {"source": "server", "interface": "chat", "chat_template": template},
        "seen": {"source": "uploaded", "chat_template": template, "identity": identity},
        "unknown": {"source": "uploaded", "identity": closed},
        "figures": {"source": "published", "identity": identity, "access": "withdrawn"},
        "hidden": {"source": "bundled", "hidden_note": "By mistake."},
    }
    for slug, row in rows.items():
        columns = {"location": f"/{slug}", "revision": "1", "kind": "causal", "name": slug} | row
        LanguageModel.objects.create(slug=slug, **columns)
    models = LanguageModel.objects.all()

    def slugs(condition: Q) -> set[str]:
        return set(models.filter(condition).values_list("slug", flat=True))

    manners = {
        "base": {"base", "hidden"},
        "raw": {"raw", "seen"},
        "chat": {"chat"},
        "unknown": {"unknown", "figures"},
    }
    assert {manner: slugs(asked_as(manner)) for manner in manners} == manners
    assert {manner: {row.slug for row in models if row.prompting == manner} for manner in manners} == manners
    assert slugs(open_weights()) == {"base", "raw", "seen", "figures", "hidden"}
    assert {row.slug for row in models if row.has_open_weights} == slugs(open_weights())
    assert slugs(ranked_now()) == set(rows) - {"figures", "hidden"}
    assert {row.slug for row in models if not row.is_off_rankings} == slugs(ranked_now())
    assert models.hidden_slugs() == {"hidden"}
    assert set(models.listed().values_list("slug", flat=True)) == set(rows) - {"hidden"}
    assert set(models.evaluable().values_list("slug", flat=True)) == {"base", "raw", "chat", "hidden"}
    LanguageModel.objects.filter(slug="chat").update(service_changed_at=timezone.now())
    LanguageModel.objects.filter(slug="raw").update(access="restricted")
    assert set(models.evaluable().values_list("slug", flat=True)) == {"base", "hidden"}


def test_the_lineage_of_a_model_is_of_its_place_and_its_revisions_are_run_as_it_is(django_user_model):
    def add(slug: str, **row) -> LanguageModel:
        columns = {"name": "One", "kind": "causal", "source": "hub", "location": "a/one", "revision": slug}
        return LanguageModel.objects.create(slug=slug, **(columns | row))

    first, second = add("r1"), add("r2")
    rounded, chat = add("r3", precision="bfloat16"), add("r4", interface="chat")
    add("r5", location="a/two")
    add("r6", source="local")
    models = LanguageModel.objects
    assert set(models.lineage(first)) == {first, second, rounded, chat}
    assert set(models.revisions(first)) == {first, second}
    twin = add("r7", revision="r1", interface="chat")
    assert set(first.twins()) == {twin}
    figures = [add(f"f{number}", source="published", location="", revision="") for number in (1, 2)]
    assert set(models.lineage(figures[0])) == {figures[0]}
    assert set(figures[0].twins()) == set()
    uploads = [add(f"u{number}", source="uploaded", location="", revision=str(number)) for number in (1, 2, 3)]
    ada, bob = (django_user_model.objects.create_user(name) for name in ("ada", "bob"))
    for model, submitter in zip(uploads, (ada, ada, bob), strict=True):
        Submission.objects.create(submitter=submitter, form="outputs", payload={}, state="ranked", model=model)
    assert set(models.lineage(uploads[0])) == set(uploads[:2])
    assert set(models.lineage(uploads[2])) == {uploads[2]}
    assert (first.was_submitted(), first.is_evaluated()) == (False, False)


def test_an_evaluation_is_under_way_until_its_run_has_ended_without_outputs(scoring, published, metric):
    assert published.is_evaluated(), "it waits"
    for state in ("failed", "cancelled", "queued"):
        run, _ = Run.objects.update_or_create(
            model=published, protocol=metric.protocol, defaults={"state": state, "reason": "It broke."}
        )
        Scoring.objects.filter(pk=scoring.pk).update(run=run)
        assert published.is_evaluated() is (state == "queued")
    Scoring.objects.filter(pk=scoring.pk).update(state="cancelled")
    assert not published.is_evaluated()


def test_a_version_shows_first_what_it_ranks_of_its_metrics_measures(version, published, scoring):
    formula = version.metric.formula
    first, second = formula.ranked[0].key, formula.ranked[1].key
    assert version.metric.measure == first
    neighbour = MetricVersion.objects.create(
        metric=version.metric, number=9, protocol=version.protocol, scorer_fingerprint="0" * 64, formula_version=1
    )
    for key, name in ((first, "average"), (second, "average"), (second, "women")):
        result = Result.objects.create(scoring=scoring, measure=key, slice=name, value=0.5)
        row = {"measure": key, "slice": name, "model": published, "result": result, "rank": 1, "value": 0.5}
        Standing.objects.create(metric_version=version, **row)
    assert [version.measure_on(name) for name in ("average", "women", "nowhere")] == [first, second, first]
    assert version.measure_among([second, "other"]) == second
    for ranked_measures, fallback in (([second], second), ([first, second], ""), ([], ""), (["other"], "")):
        version.fall_back(ranked_measures)
        assert version.fallback_measure == fallback
        assert version.first_measure == (fallback or first)
        assert MetricVersion.objects.get(pk=version.pk).fallback_measure == fallback
    version.fall_back([second])
    neighbour.refresh_from_db()
    assert neighbour.fallback_measure == ""


def test_the_first_scores_of_the_prompts_are_kept_and_no_others(version):
    first, second = (
        Artefact.objects.create(sha256=letter * 64, kind="scores", rows=1, size=1, schema_version=1) for letter in "ab"
    )
    neighbour = MetricVersion.objects.create(
        metric=version.metric, number=9, protocol=version.protocol, scorer_fingerprint="0" * 64, formula_version=1
    )
    version.keep_prompt_scores(first)
    assert version.prompt_scores == first
    version.keep_prompt_scores(second)
    assert version.prompt_scores == first
    neighbour.refresh_from_db()
    assert neighbour.prompt_scores is None


def test_of_what_is_fixed_a_published_version_takes_its_first_chat_protocol_alone(version):
    MetricVersion.objects.filter(pk=version.pk).update(status=MetricVersion.Status.CURRENT, scorer_fingerprint="0" * 64)
    version.refresh_from_db()
    other = Protocol.objects.create(evaluation_set=version.protocol.evaluation_set, method="likelihood", parameters={})
    version.chat_protocol = version.protocol
    version.save()
    version.chat_protocol = other
    with pytest.raises(ValueError, match="chat_protocol_id cannot change; open a new version"):
        version.save()
    version.refresh_from_db()
    version.source, version.epoch = "A paper", 2
    with pytest.raises(ValueError, match="epoch, source cannot change"):
        version.save()
    version.refresh_from_db()
    assert (version.chat_protocol, version.source, version.epoch) == (version.protocol, "", 1)


def test_the_audit_trail_is_append_only():
    event = AuditEvent.objects.create(verb="submit", subject="at this")
    with pytest.raises(ValueError, match="cannot be changed"):
        event.save()
    with pytest.raises(ValueError, match="cannot be deleted"):
        event.delete()
