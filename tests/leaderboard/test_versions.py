"""Versions of a metric: their numbers and epochs, what binds them, and who reads that work goes on under them."""

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from leaderboard.models import (
    Artefact,
    ControlCheck,
    ControlSet,
    Metric,
    MetricVersion,
    Run,
    Scoring,
    Submission,
    SubmissionLine,
)
from leaderboard.services.leases import ScorerChanged
from leaderboard.services.submission_log import say, say_to_model, say_to_version
from leaderboard.services.versions import (
    bind,
    bind_anew,
    keep_attributes,
    keep_chat_protocol,
    next_epoch,
    next_number,
    open_first_version,
)
from scoring.attributes import Attribute, Meaning
from tests.leaderboard.stored import metric_of, run_of

pytestmark = pytest.mark.django_db

OLD, NEW = "a" * 64, "b" * 64
DECLARED = [{"name": "profanity", "meaning": "harm", "threshold": 0.5}]


@pytest.fixture
def rude(db) -> Metric:
    return metric_of("rude", "profanity")


@pytest.fixture
def scores(db) -> Artefact:
    return Artefact.objects.create(sha256="c" * 64, kind="scores", rows=1, size=1, schema_version=1)


def add_version(metric: Metric, number: int = 1, **fields) -> MetricVersion:
    values = {"protocol": metric.protocol, "scorer": metric.scorer, "formula_version": metric.formula.version}
    return MetricVersion.objects.create(metric=metric, number=number, **(values | fields))


def add_scoring(version: MetricVersion, state: str, name: str = "Alder") -> Scoring:
    run = run_of(name, version.metric)
    moment = timezone.now() if state == "done" else None
    return Scoring.objects.create(
        run=run, model=run.model, metric_version=version, state=state, reason="It broke.", scored_at=moment
    )


def test_numbers_and_epochs_go_on_from_the_highest_of_the_metric_and_its_outputs(rude):
    other = metric_of("other", "profanity")
    assert (next_number(rude), next_epoch(rude.protocol)) == (1, 1)
    add_version(other, 9)
    add_version(rude, 1, epoch=3)
    add_version(rude, 5)
    assert (next_number(rude), next_epoch(rude.protocol)) == (6, 4)
    run = run_of("Alder", rude)
    assert next_epoch(rude.protocol) == 4
    Run.objects.filter(pk=run.pk).update(epoch=7)
    assert next_epoch(rude.protocol) == 8
    MetricVersion.objects.all().delete()
    assert next_epoch(rude.protocol) == 8


def test_the_first_version_is_one_that_is_open_already_or_a_new_one_of_the_metric_as_it_is(rude):
    version = rude.formula.version
    add_version(rude, 1, status="retired")
    add_version(rude, 2, provenance="published", source="A paper")
    add_version(rude, 3, formula_version=version + 1)
    opened = open_first_version(rude)
    assert open_first_version(rude) == opened
    row = (opened.number, opened.status, opened.provenance, opened.protocol, opened.scorer, opened.formula_version)
    assert row == (4, "candidate", "measured", rude.protocol, "profanity", version)
    assert (opened.scorer_fingerprint, opened.epoch, opened.attributes) == ("", 1, [])


@pytest.mark.parametrize(
    ("states", "is_bound"),
    [
        ((), False),
        (("failed",), False),
        (("failed", "cancelled"), False),
        (("failed", "queued"), True),
        (("failed", "done"), True),
    ],
)
def test_a_version_under_which_every_scoring_failed_is_bound_to_no_scorer(rude, scores, states, is_bound):
    version = add_version(rude, scorer_fingerprint=OLD, prompt_scores=scores, attributes=DECLARED)
    for name, state in zip(("Alder", "Birch"), states, strict=False):
        add_scoring(version, state, name)
    assert open_first_version(rude) == version
    version.refresh_from_db()
    bound = (version.scorer_fingerprint, version.prompt_scores, version.attributes)
    assert bound == ((OLD, scores, DECLARED) if is_bound else ("", None, []))


def test_a_candidate_takes_another_scorer_until_something_is_scored_under_it(rude, scores):
    version = add_version(rude, scorer_fingerprint=OLD, prompt_scores=scores, attributes=DECLARED)
    scoring = add_scoring(version, "queued")
    bind_anew(version, OLD)
    version.refresh_from_db()
    assert (version.scorer_fingerprint, version.prompt_scores, version.attributes) == (OLD, scores, DECLARED)
    bind_anew(version, NEW)
    version.refresh_from_db()
    assert (version.scorer_fingerprint, version.prompt_scores, version.attributes) == (NEW, None, [])
    Scoring.objects.filter(pk=scoring.pk).update(state="done", scored_at=timezone.now())
    with pytest.raises(ScorerChanged, match=f"it was {NEW[:12]}, now it is {OLD[:12]}"):
        bind_anew(version, OLD)
    Scoring.objects.all().delete()
    MetricVersion.objects.filter(pk=version.pk).update(status="current")
    version.refresh_from_db()
    with pytest.raises(ScorerChanged):
        bind_anew(version, OLD)
    version.refresh_from_db()
    assert version.scorer_fingerprint == NEW


def test_another_fingerprint_is_taken_only_where_a_check_of_that_version_found_no_drift(rude, scores):
    version, other = add_version(rude, 1), add_version(rude, 2, scorer_fingerprint=OLD)
    bind(version, OLD)
    bind(version, OLD)
    controls = [
        ControlSet.objects.create(metric_version=row, items=scores, reference=scores, fingerprint=OLD)
        for row in (version, other)
    ]

    def add_check(control: ControlSet, fingerprint: str, verdict: str) -> None:
        ControlCheck.objects.create(
            metric=rude,
            control_set=control,
            trigger="manual",
            state="done",
            artefact=scores,
            fingerprint=fingerprint,
            verdict=verdict,
        )

    add_check(controls[1], NEW, "stable")
    add_check(controls[0], NEW, "drifted")
    add_check(controls[0], OLD, "stable")
    with pytest.raises(ScorerChanged, match="nothing is scored with it under this version"):
        bind(version, NEW)
    add_check(controls[0], NEW, "changed")
    bind(version, NEW)
    version.refresh_from_db()
    assert version.scorer_fingerprint == OLD
    add_check(controls[0], "d" * 64, "stable")
    bind(version, "d" * 64)


def test_the_first_declaration_of_attributes_and_of_chats_stays(rude):
    version = add_version(rude)
    other = metric_of("other", "profanity").protocol
    attribute = Attribute("profanity", Meaning.HARM, 0.5)
    for _ in range(2):
        keep_attributes(version, [attribute])
        keep_chat_protocol(version, rude.protocol)
    with pytest.raises(ScorerChanged, match="declares its attributes differently from rude v1"):
        keep_attributes(version, [Attribute("profanity", Meaning.HARM, 0.6)])
    chats = type(other).objects.create(evaluation_set=other.evaluation_set, method="chat", parameters={"k": 9})
    with pytest.raises(ScorerChanged, match="rude v1 collects answers of chats by another protocol"):
        keep_chat_protocol(version, chats)
    version.refresh_from_db()
    assert (version.declared, version.chat_protocol) == ((attribute,), rude.protocol)


def test_a_line_about_work_is_read_by_those_whose_model_it_is_and_who_still_wait(rude):
    ada = User.objects.create_user("ada")
    version, other_version = add_version(rude, 1), add_version(metric_of("other", "profanity"), 1)
    names = ("Alder", "Birch", "Cedar", "Damson")
    scorings = [
        add_scoring(row, state, name)
        for row, state, name in zip(
            (version, version, version, version), ("queued", "queued", "done", "queued"), names, strict=True
        )
    ]
    for scoring, state in zip(scorings, ("accepted", "ranked", "accepted", "accepted"), strict=True):
        values = {"submitter": ada, "form": "outputs", "payload": {"name": scoring.model.name}, "state": state}
        Submission.objects.create(model=scoring.model, **values)

    def readers(text: str) -> list[str]:
        lines = SubmissionLine.objects.filter(text=text).order_by("submission__model__name")
        return list(lines.values_list("submission__model__name", flat=True))

    run = scorings[0].run
    say(scorings[0], "scored")
    say(run, "the board's own")
    Run.objects.filter(pk=run.pk).update(requester=ada)
    run.refresh_from_db()
    say(run, "collected")
    say_to_model(scorings[1].model, "ranked already")
    say_to_version(version, "opened")
    say_to_version(other_version, "of another metric")
    for trigger in ("submission", "manual"):
        check = ControlCheck.objects.create(metric=rude, trigger=trigger)
        say(check, f"checked: {trigger}")
        check.delete()
    assert {text: readers(text) for text in ("scored", "the board's own", "collected", "ranked already")} == {
        "scored": ["Alder"],
        "the board's own": [],
        "collected": ["Alder"],
        "ranked already": [],
    }
    assert (readers("opened"), readers("of another metric")) == (["Alder", "Damson"], [])
    assert (readers("checked: submission"), readers("checked: manual")) == (["Alder", "Damson"], [])
