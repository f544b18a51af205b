"""Entries that people should look at first: held back, shown to moderators, released with a reason, or marked."""

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from leaderboard.models import (
    AuditEvent,
    EntryCheck,
    LanguageModel,
    Metric,
    MetricVersion,
    Scoring,
    Standing,
    Submission,
    Work,
    not_held,
)
from leaderboard.services import entry_checks
from leaderboard.services.entry_checks import check_entry, number_flags
from leaderboard.services.language_models import add_model
from leaderboard.services.policies import set_policy
from leaderboard.services.publish import publish_standings
from leaderboard.submissions.services import lifecycle
from leaderboard.submissions.services.entry_decisions import decide
from leaderboard.submissions.services.evaluations import EvaluationStep, evaluations
from scoring.metrics.flags import Flag
from scoring.refusals import Refused
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish
from tests.leaderboard.test_accounts import person
from tests.scoring.language_models import tiny

pytestmark = pytest.mark.django_db

WORDS = "The tokenizer does not read what is written: 60 of 100 texts (60.0%) are not what they were."
FLAG = {"key": "round_trip", "words": WORDS}
REPORT = {
    "known": {"all": {"texts": 100, "changed": 60, "tokens_per_character": 0.25}},
    "canaries": {"all": {"texts": 200, "changed": 0, "tokens_per_character": 0.3}},
    "pieces": 4096,
    "embeddings": 4096,
    "ordinary": [],
    "seed": "ab" * 16,
    "flags": [FLAG],
}


@pytest.fixture
def scoring(measured_board: Metric) -> Scoring:
    """A ranked entry, whose tokenizer turns out to have changed texts."""
    entry = Scoring.objects.get(model__name=CAUSAL, metric_version__metric=measured_board)
    entry.run.tokenizer_report = REPORT
    entry.run.save()
    return entry


def hold(scoring: Scoring) -> EntryCheck:
    check = check_entry(scoring)
    publish_standings(scoring.metric_version)
    return check


def under_another_version(scoring: Scoring) -> Scoring:
    """The scoring of the same outputs under a later version of the metric."""
    version = scoring.metric_version.metric.versions.create(
        number=99, protocol=scoring.metric_version.protocol, scorer="", formula_version=1
    )
    return Scoring.objects.create(run=scoring.run, model=scoring.model, metric_version=version)


def is_ranked(scoring: Scoring) -> bool:
    return Standing.objects.filter(metric_version=scoring.metric_version, model=scoring.model).exists()


def page(path: str, user=None) -> str:
    client = Client()
    if user is not None:
        client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
    return client.get(path).content.decode()


@pytest.mark.slow
def test_an_untrained_model_is_collected_scored_and_not_ranked(metric, tmp_path):
    model, _ = add_model(str(tiny.save("gpt2", tmp_path / "untrained")))
    scoring = finish(model, metric)
    assert scoring.state == "done"
    check = scoring.entry_check
    assert check.state == EntryCheck.State.HELD
    assert "chance" in check.flag_keys
    assert not is_ranked(scoring)
    run = scoring.run
    assert {file["name"] for file in run.loaded_files} >= {"config.json", "model.safetensors", "tokenizer.json"}
    assert len(run.tokenizer_report["seed"]) == 32
    assert run.tokenizer_report["known"]["harmful"]["texts"] > 0
    assert "women" in run.tokenizer_report["known"]
    decide(check, "release", "It is the baseline of a course.")
    assert is_ranked(scoring)


def test_an_entry_without_flags_is_ranked_and_has_no_check(measured_board):
    entry = Scoring.objects.get(model__name=CAUSAL, metric_version__metric=measured_board)
    assert check_entry(entry) is None
    assert is_ranked(entry)


def test_weights_that_find_texts_as_likely_as_a_guess_are_a_flag(measured_board):
    entry = Scoring.objects.get(model__name=CAUSAL, metric_version__metric=measured_board)
    surprises = entry.results.filter(measure="log_perplexity_benign")
    words = (
        "Its log-perplexity of 8.07 nats a token is that of guessing among its 4,096 tokens: its weights know nothing "
        "of texts."
    )
    surprises.update(value=8.07, ci_low=None, ci_high=None)
    assert number_flags(entry, 4096) == [Flag("chance", words)]
    assert number_flags(entry, None) == [], "nobody knows how many tokens it has"
    surprises.update(value=8.06)
    assert number_flags(entry, 4096) == []


@pytest.mark.slow
def test_a_flagged_entry_is_in_no_ranking_and_its_page_says_why(scoring):
    hold(scoring)
    assert not is_ranked(scoring)
    assert OTHER_CAUSAL in page("/rankings/")
    assert f">{CAUSAL}</a>" not in page("/rankings/")
    shown = page(scoring.model.get_absolute_url())
    assert "held back until a moderator has looked" in shown
    assert WORDS in shown
    assert "60 of 100 texts changed" in shown
    assert REPORT["seed"] not in shown
    event = AuditEvent.objects.get(verb="hold entry back")
    assert event.detail["flags"] == ["round_trip"]


@pytest.mark.slow
def test_a_moderator_sees_what_stands_out_and_releases_it_with_a_reason(scoring):
    check, grace = hold(scoring), person("grace", "moderator")
    shown = page(reverse("moderation"), grace)
    assert WORDS in shown
    address = reverse("decide_entry", args=[check.pk, "release"])
    assert address in shown
    client = Client()
    client.force_login(grace, backend="allauth.account.auth_backends.AuthenticationBackend")
    assert client.get(address).status_code == 200
    assert not is_ranked(scoring)  # asking does nothing
    assert client.post(address, {"reason": ""}).status_code == 400
    assert client.post(address, {"reason": "Emoji, which its vocabulary lacks."}).status_code == 302
    check.refresh_from_db()
    assert (check.state, check.decided_by) == (EntryCheck.State.RELEASED, grace)
    assert is_ranked(scoring)
    event = AuditEvent.objects.get(verb="release entry")
    assert (event.actor, event.detail["reason"]) == (grace, "Emoji, which its vocabulary lacks.")
    assert (event.detail["before"], event.detail["after"]) == ({"state": "held"}, {"state": "released"})
    assert "looked at</a>" in page("/rankings/")  # the mark stays, beside the rank
    assert client.post(address, {"reason": "Again."}).status_code == 400


def test_an_entry_that_is_released_just_after_its_version_was_published_is_ranked(scoring):
    check = hold(scoring)
    version = MetricVersion.objects.get(pk=scoring.metric_version_id)
    MetricVersion.objects.filter(pk=version.pk).update(status=MetricVersion.Status.CANDIDATE)
    check = EntryCheck.objects.select_related("scoring__metric_version").get(pk=check.pk)
    publish_standings(version)
    decide(check, "release", "Its texts are in another script.")
    assert is_ranked(scoring)


@pytest.mark.parametrize("decision", ["release", "refuse"])
def test_only_moderators_decide_and_none_upon_an_entry_of_their_own(scoring, decision):
    check, ada, grace = hold(scoring), person("ada"), person("grace", "moderator")
    address = reverse("decide_entry", args=[check.pk, decision])
    assert Client().post(address, {"reason": "x"}).status_code == 302
    client = Client()
    client.force_login(ada, backend="allauth.account.auth_backends.AuthenticationBackend")
    assert client.post(address, {"reason": "x"}).status_code == 403
    mine = Submission.objects.create(submitter=grace, form="hub", payload={}, state="accepted", model=scoring.model)
    with pytest.raises(Refused, match="your own"):  # as after a rescoring, whose scorings belong to no submission
        decide(check, decision, "x", grace)
    mine.scorings.add(scoring)
    with pytest.raises(Refused, match="your own"):
        decide(check, decision, "x", grace)
    assert not is_ranked(scoring)


def test_a_refused_entry_stays_out_and_its_submission_ends_with_the_reason(scoring):
    submission = Submission.objects.create(
        submitter=person("ada"),
        form="hub",
        payload={"metrics": [scoring.metric_version.metric.slug]},
        state="accepted",
        model=scoring.model,
    )
    submission.scorings.add(scoring)
    check = hold(scoring)
    assert [one.step for one in evaluations([submission])[submission.pk]] == [EvaluationStep.HELD]
    assert "held back until a moderator has looked" in page(submission.get_absolute_url(), submission.submitter)
    decide(check, "refuse", "It was made for the test.")
    assert [one.step for one in evaluations([submission])[submission.pk]] == [EvaluationStep.FAILED]
    publish_standings(scoring.metric_version)
    assert not is_ranked(scoring)
    assert "It was made for the test." in page(submission.get_absolute_url(), submission.submitter)
    lifecycle.settle()
    submission.refresh_from_db()
    title = scoring.metric_version.metric.title
    assert submission.reason == f"{title}: A moderator did not release it. It was made for the test."
    decide(check, "release", "It was not, after all.")
    assert is_ranked(scoring)


def test_a_decision_needs_a_reason_and_a_name_that_there_is(scoring):
    check = hold(scoring)
    for decision, reason in (("release", " "), ("release", "x" * 2001), ("allow", "x")):
        with pytest.raises(Refused):
            decide(check, decision, reason)
    with pytest.raises(IntegrityError), transaction.atomic():
        EntryCheck.objects.filter(pk=check.pk).update(state="released")
    decide(check, "refuse", "x" * 2000)


def test_the_record_says_of_which_entry_a_decision_was_and_why(scoring):
    check, grace = hold(scoring), person("grace", "moderator")
    decide(check, "refuse", " It learnt nothing. ", grace)
    decide(check, "release", "It did.", grace)
    with pytest.raises(Refused, match="It is not held back any more: released"):
        decide(check, "refuse", "Or not.", grace)
    with pytest.raises(Refused, match="decision = 'allow': use one of release, refuse"):
        decide(check, "allow", "x", grace)
    check.refresh_from_db()
    assert (check.state, check.reason, check.decided_by) == ("released", "It did.", grace)
    slug, version = scoring.metric_version.metric.slug, scoring.metric_version.number
    about = {"model": scoring.model.slug, "version": version}
    events = AuditEvent.objects.filter(verb__in=["release entry", "refuse entry"]).order_by("pk")
    assert [(event.verb, event.subject, event.actor, event.detail) for event in events] == [
        (
            "refuse entry",
            f"metric {slug}",
            grace,
            about | {"reason": "It learnt nothing.", "before": {"state": "held"}, "after": {"state": "refused"}},
        ),
        (
            "release entry",
            f"metric {slug}",
            grace,
            about | {"reason": "It did.", "before": {"state": "refused"}, "after": {"state": "released"}},
        ),
    ]


@pytest.mark.parametrize(("length", "is_taken"), [(0, False), (1, True), (2000, True), (2001, False)])
def test_a_reason_for_a_decision_has_one_to_two_thousand_characters(scoring, length, is_taken):
    check = hold(scoring)
    if is_taken:
        decide(check, "refuse", "x" * length)
        assert check.reason == "x" * length
    else:
        with pytest.raises(Refused, match=f"reason: it has {length} characters; give 1 to 2000, the record shows it"):
            decide(check, "refuse", "x" * length)


def test_by_the_policy_of_the_metric_flagged_entries_are_ranked_with_a_mark(scoring, measured_board):
    assert set_policy(measured_board, {"flag_policy": "mark"}, "We look at every entry anyway.")
    scoring.metric_version.metric.refresh_from_db()
    assert hold(scoring).state == EntryCheck.State.MARKED
    assert is_ranked(scoring)
    shown = page("/rankings/")
    assert "looked at</a>" in shown
    assert WORDS in shown
    with pytest.raises(CommandError, match="--flagged"):
        call_command("set_policy", measured_board.slug, "--flagged", "ignore")


def test_what_was_ranked_with_a_mark_is_held_back_once_the_policy_says_so(scoring, measured_board):
    set_policy(measured_board, {"flag_policy": "mark"}, "We look at every entry anyway.")
    scoring.metric_version.metric.refresh_from_db()
    assert hold(scoring).state == EntryCheck.State.MARKED
    set_policy(measured_board, {"flag_policy": "hold"}, "We look no more.")
    scoring.metric_version.metric.refresh_from_db()
    assert check_entry(under_another_version(scoring)).state == EntryCheck.State.HELD


def test_what_was_released_stays_released_under_another_version_unless_there_is_a_new_flag(scoring):
    decide(hold(scoring), "release", "Looked at.")
    again = under_another_version(scoring)
    assert check_entry(again).state == EntryCheck.State.RELEASED
    scoring.run.tokenizer_report = REPORT | {"flags": [*REPORT["flags"], {"key": "canaries", "words": "New."}]}
    scoring.run.save()
    again.run.refresh_from_db()
    again.entry_check.delete()
    again.refresh_from_db()
    assert check_entry(again).state == EntryCheck.State.HELD


@pytest.mark.parametrize("decision", ["refuse", None])
def test_what_a_moderator_has_not_released_stays_out_of_the_next_version_though_it_stands_out_no_more(
    scoring, decision
):
    check = hold(scoring)
    if decision:
        decide(check, decision, "Its texts are not its own.")
    check.refresh_from_db()
    scoring.run.tokenizer_report = {}
    scoring.run.save()
    again = under_another_version(scoring)
    later_check = check_entry(again)
    assert (later_check.state, later_check.flags, later_check.reason) == (check.state, check.flags, check.reason)
    assert not Scoring.objects.filter(not_held(), pk=again.pk).exists()


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda _other: None, 1),
        (lambda other: Scoring.objects.filter(pk=other.pk).update(state=Work.State.QUEUED), 0),
        (lambda other: LanguageModel.objects.filter(pk=other.model_id).update(access="withdrawn"), 0),
        (lambda other: LanguageModel.objects.filter(pk=other.model_id).update(kind="masked"), 0),
        (lambda other: EntryCheck.objects.create(scoring=other, state="held", flags=[FLAG]), 0),
        (lambda other: other.results.filter(measure="likelihood_auc", slice="average").update(slice="elsewhere"), 0),
    ],
    ids=["as it is", "not scored", "withdrawn", "of another kind", "held back", "without this measure"],
)
def test_an_entry_is_compared_with_the_others_of_its_kind_that_are_ranked(scoring, change, count):
    other = Scoring.objects.get(model__name=OTHER_CAUSAL, metric_version=scoring.metric_version)
    LanguageModel.objects.filter(pk=other.model_id).update(parameters=4321)
    values = dict(other.results.filter(slice="average").values_list("measure", "value"))
    row = (values["likelihood_auc"], 4321, values[entry_checks.LOG_PERPLEXITY])
    change(other)
    assert entry_checks.others_of(scoring, "likelihood_auc", "average") == [row] * count


@pytest.mark.parametrize(("is_asked_by_chat", "count"), [(False, 1), (True, 0)])
def test_where_chats_are_ranked_apart_an_entry_is_not_compared_with_them(scoring, is_asked_by_chat, count):
    version = scoring.metric_version
    version.chat_protocol = version.protocol
    version.save()
    if is_asked_by_chat:
        others = LanguageModel.objects.exclude(pk=scoring.model_id)
        others.update(interface=LanguageModel.Interface.CHAT)
    assert len(entry_checks.others_of(scoring, "likelihood_auc", "average")) == count


def test_a_score_far_above_models_of_its_size_is_a_flag(scoring, monkeypatch):
    others = [(0.2 + 0.01 * number, 10 ** (5 + number), 5.0 - 0.1 * number) for number in range(10)]
    monkeypatch.setattr(entry_checks, "others_of", lambda *_: others)
    LanguageModel.objects.filter(pk=scoring.model.pk).update(parameters=10**6)
    scoring.model.refresh_from_db()
    scoring.results.filter(measure="likelihood_auc").update(value=0.944)
    assert {flag.key for flag in number_flags(scoring, None)} == {"above_its_size", "above_its_likelihoods"}
    scoring.results.filter(measure="likelihood_auc").update(value=0.1)
    assert number_flags(scoring, None) == []
