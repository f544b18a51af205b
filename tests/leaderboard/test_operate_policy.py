"""Drift policies and retired scorers: set with a reason, held to, and on record."""

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from leaderboard.models import AuditEvent, ControlCheck, Metric, RetiredScorer
from leaderboard.operations.services.retirement import bring_back_scorer, retire_scorer
from leaderboard.services import checks, policies
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.policies import policy_in_force, set_policy
from leaderboard.services.rescore import open_rescoring
from leaderboard.services.seed import seed_metrics
from scoring.attributes import Attribute, Meaning
from scoring.refusals import Refused
from tests.leaderboard import living

pytestmark = pytest.mark.django_db

FORM = {
    "threshold": "0.7",
    "least_flips": "2",
    "flip_share": "0.01",
    "mean_difference": "0.005",
    "confidence": "0.9",
    "alpha": "0.05",
    "most_missing": "0.05",
    "brake_after": "2",
    "outdated_policy": "remove",
    "flag_policy": "hold",
    "reason": "labels at 0.7",
}


@pytest.fixture
def metric(db) -> Metric:
    seed_metrics()
    return Metric.objects.get(slug="toxicity-profanity")


@pytest.fixture
def operator(client) -> User:
    user = User.objects.create_user("operator", is_staff=True)
    client.force_login(user)
    return user


def test_a_policy_is_shown_before_it_is_set_and_recorded_with_what_was_before(client, operator, metric):
    address = reverse("drift_policy", args=[metric.slug])
    asked = client.get(address).content.decode()
    assert all(f'name="{name}"' in asked for name in FORM)
    seen = client.post(address, FORM)
    assert seen.status_code == 200
    assert seen.context["changes"] == [
        ("Label threshold", "0.5", "0.7"),
        ("Outdated policy", "flag", "remove"),
    ]
    metric.refresh_from_db()
    assert metric.drift_policy == {}, "looking at a change changes nothing"
    assert client.post(address, FORM | {"confirmed": "yes"}).status_code == 302
    metric.refresh_from_db()
    assert (metric.drift_policy, metric.outdated_policy) == ({"threshold": 0.7}, "remove")
    event = AuditEvent.objects.get(verb="set drift policy")
    assert (event.actor, event.subject, event.detail) == (
        operator,
        f"metric {metric.slug}",
        {
            "reason": "labels at 0.7",
            "before": {"threshold": 0.5, "outdated_policy": "flag"},
            "after": {"threshold": 0.7, "outdated_policy": "remove"},
        },
    )
    assert "An operator changed when the scorer of" in client.get("/about/changes/").content.decode()
    assert "cross 0.7" in client.get(metric.get_absolute_url()).content.decode()
    client.post(address, FORM | {"threshold": "", "confirmed": "yes"})
    metric.refresh_from_db()
    assert metric.drift_policy == {"threshold": None}, "no value is one"


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", "inf"),
        ("least_flips", "0"),
        ("least_flips", "1.5"),
        ("brake_after", "2.5"),
        ("flip_share", "1"),
        ("mean_difference", "0"),
        ("mean_difference", ""),
        ("confidence", "90"),
        ("alpha", "nan"),
        ("outdated_policy", "forget"),
        ("flag_policy", "ignore"),
        ("reason", " "),
    ],
)
def test_a_value_that_cannot_be_is_refused_at_its_field(client, operator, metric, field, value):
    address = reverse("drift_policy", args=[metric.slug])
    response = client.post(address, FORM | {field: value, "confirmed": "yes"})
    assert response.status_code == 400
    assert list(response.context["form"].errors) == [field]
    metric.refresh_from_db()
    assert (metric.drift_policy, metric.outdated_policy) == ({}, "flag")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("most_missing", 0, ""),
        ("most_missing", 1, ""),
        ("most_missing", -0.01, "-0.01 is not a share; use a number from 0 to 1, as 0.05"),
        ("most_missing", 1.01, "1.01 is not a share; use a number from 0 to 1, as 0.05"),
        ("brake_after", 0, ""),
        ("brake_after", 1, ""),
        ("brake_after", -1, "-1 is below 0; use 0 or more, as 2"),
        ("threshold", float("inf"), "inf is not finite; give a number"),
        ("flag_policy", "ignore", "'ignore' is none; use one of hold, mark"),
        ("colour", "red", "toxicity-profanity has no such field; it has threshold, least_flips"),
    ],
)
def test_a_policy_has_bounds_for_programs_too(metric, field, value, problem):
    before = Metric.objects.values().get(pk=metric.pk)
    if problem:
        with pytest.raises(Refused) as caught:
            set_policy(metric, {field: value}, "a test")
        assert str(caught.value).startswith(f"{field}: {problem}")
        assert Metric.objects.values().get(pk=metric.pk) == before
    else:
        assert set_policy(metric, {field: value}, "a test") is True
        assert Metric.objects.values().get(pk=metric.pk) == before | {field: value}
        assert not Metric.objects.exclude(pk=metric.pk).filter(**{field: value}).exists()


def test_the_threshold_of_labels_is_the_operators_or_that_of_the_first_harm(metric):
    good, bad, worse = (
        Attribute(name, meaning, threshold)
        for name, meaning, threshold in (
            ("kind", Meaning.GOOD, 0.1),
            ("rude", Meaning.HARM, 0.3),
            ("cruel", Meaning.HARM, 0.6),
        )
    )
    assert policies.policy_of(metric).threshold == policies.policy_of(metric, [good]).threshold == 0.5
    assert policies.policy_of(metric, [good, bad, worse]).threshold == 0.3
    assert policies.thresholds_of(metric, [good, bad]) == {"kind": 0.1, "rude": 0.3}
    set_policy(metric, {"threshold": 0.7}, "a test")
    metric.refresh_from_db()
    assert policies.policy_of(metric, [good, bad, worse]).threshold == 0.7
    assert policies.thresholds_of(metric, [good, bad]) == {}


def test_the_fields_of_a_policy_are_counts_shares_or_left_out(metric):
    rows = [(row.name, row.whole, row.optional) for row in policies.fields_of(metric)]
    assert rows == [
        ("threshold", False, True),
        ("least_flips", True, False),
        ("flip_share", False, False),
        ("mean_difference", False, False),
        ("confidence", False, False),
        ("alpha", False, False),
        ("most_missing", False, False),
        ("brake_after", True, False),
    ]
    assert [row.name for row in policies.fields_of(Metric.objects.get(slug="safety-starter"))] == [
        *("mean_difference", "confidence", "alpha"),
        *("most_missing", "brake_after"),
    ]


def test_what_holds_already_is_no_change(client, operator, metric):
    same = FORM | {"threshold": "0.5", "outdated_policy": "flag"}
    response = client.post(reverse("drift_policy", args=[metric.slug]), same)
    assert "This is the policy in force" in response.content.decode()
    assert set_policy(metric, {"alpha": 0.05}, "the same") is False
    assert not AuditEvent.objects.filter(verb="set drift policy").exists()


def test_likelihoods_have_no_labels(client, operator, metric):
    likelihoods = Metric.objects.get(slug="safety-starter")
    fields = {"mean_difference", "confidence", "alpha", "most_missing", "brake_after", "outdated_policy", "flag_policy"}
    assert set(policy_in_force(likelihoods)) == fields
    assert "threshold" not in client.get(reverse("drift_policy", args=["safety-starter"])).content.decode()
    with pytest.raises(Refused, match="threshold: safety-starter has no such field"):
        set_policy(likelihoods, {"threshold": 0.5}, "labels")
    set_policy(likelihoods, {"alpha": 0.01}, "fewer alarms")
    likelihoods.refresh_from_db()
    assert policies.policy_of(likelihoods).alpha == 0.01


@pytest.mark.slow
def test_checks_judge_by_the_policy_that_was_set(tmp_path):
    with living.standing_in() as stage:
        metric = living.small_metric(tmp_path)
        living.submit(living.entrant(1, metric), metric)
        lenient = {"threshold": None, "mean_difference": 0.9, "confidence": 0.01}
        set_policy(metric, lenient, "to see")
        living.drift(stage, 0.4)
        check = checks.request_check(Metric.objects.get(pk=metric.pk), "manual", send=False)
        checks.perform(check)
        check.refresh_from_db()
        assert check.statistics["policy"]["mean_difference"] == 0.9
        assert check.statistics["policy"]["threshold"] is None


@pytest.mark.slow
def test_a_scorer_of_a_metric_that_nobody_measured_yet_is_retired_from_the_same_page(client, operator, metric):
    address = reverse("retire_scorer", args=["toxicity-perspective"])
    assert address in client.get(reverse("operate")).content.decode()
    assert client.post(address, {"reason": "it ends with the year"}, follow=True).status_code == 200
    html = client.get(reverse("operate")).content.decode()
    assert html.count("scorer retired") == Metric.objects.filter(scorer="perspective").count()
    assert reverse("retire_scorer", args=["safety-starter"]) not in html, "likelihoods have no scorer to retire"


@pytest.mark.slow
def test_with_a_retired_scorer_nothing_new_is_scored_and_what_was_stays(client, operator, tmp_path):
    with living.standing_in():
        metric = living.small_metric(tmp_path)
        living.submit(living.entrant(1, metric), metric)
        version = metric.current_version()
        before = living.standings_of(version)
        address = reverse("retire_scorer", args=[metric.slug])
        assert "Nothing new is scored with standin" in client.get(address).content.decode()
        assert client.post(address, {"reason": ""}).status_code == 400
        assert client.post(address, {"reason": "the service ended"}).status_code == 302
        second = living.entrant(2, metric)
        with pytest.raises(CannotEvaluate, match=r"is retired: .*the service ended"):
            request_evaluation(second, metric)
        with pytest.raises(Refused, match="is retired"):
            open_rescoring(metric, "again")
        assert living.standings_of(version) == before
        html = client.get(f"/rankings/?metric={metric.slug}").content.decode()
        assert "This metric is retired: standin was retired on" in html
        assert "Bring scorer back" in client.get(reverse("operate")).content.decode()
        ControlCheck.objects.update(environment={"torch": "another"})
        assert checks.request_due_checks() == 0, "it is no longer checked"
        check = checks.request_check(metric, "manual", send=False)
        checks.perform(check)
        check.refresh_from_db()
        assert check.verdict == "unavailable"
        client.post(address, {"reason": "it is back"})
        assert not RetiredScorer.objects.exists()
        assert living.submit(second, metric).state == "done"
    events = AuditEvent.objects.filter(subject="scorer standin").order_by("pk")
    assert [(of.verb, of.actor, of.detail["before"]) for of in events] == [
        ("retire scorer", operator, {"retired": False}),
        ("bring back scorer", operator, {"retired": True}),
    ]
    log = client.get("/about/changes/").content.decode()
    assert "An operator retired the scorer standin" in log
    assert "An operator brought the scorer standin back" in log


@pytest.mark.slow
def test_a_scorer_that_cannot_be_retired_says_why(metric, tmp_path):
    with pytest.raises(Refused, match="no scorer judges"):
        retire_scorer(Metric.objects.get(slug="safety-starter").scorer, "x")
    with pytest.raises(Refused, match="is none; metrics here use"):
        retire_scorer("detoxifi", "x")
    with pytest.raises(Refused, match="reason: it is empty"):
        retire_scorer("profanity", " ")
    assert bring_back_scorer("profanity", "it was never gone") is False
    with living.standing_in():
        other = living.small_metric(tmp_path)
        living.submit(living.entrant(1, other), other)
        open_rescoring(other, "under way")
        with pytest.raises(Refused, match="cancel that rescoring first"):
            retire_scorer(living.NAME, "x")
        assert not RetiredScorer.objects.exists()
        assert retire_scorer("profanity", "the other one is being rescored")


@pytest.mark.slow
def test_a_metric_goes_on_with_another_scorer(client, operator, tmp_path):
    with living.standing_in():
        metric = living.small_metric(tmp_path)
        living.submit(living.entrant(1, metric), metric)
        retire_scorer(living.NAME, "the service ended")
        address = reverse("rescore", args=[metric.slug])
        assert client.post(address, {"reason": "go on"}).status_code == 400
        assert client.post(address, {"reason": "go on", "scorer": "nonsense"}).status_code == 400
        assert client.post(address, {"reason": "go on", "scorer": "profanity"}).status_code == 302
        assert living.active(metric).to_version.scorer == "profanity"
