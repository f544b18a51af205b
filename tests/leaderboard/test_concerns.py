"""What a moderator sees on any board: new names of ranked models, names like others' names, and new rankings."""

from datetime import timedelta

import pytest
from django.core.management import call_command
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.models import AuditEvent, LanguageModel, Submission
from leaderboard.submissions.services import lifecycle, workspace
from leaderboard.submissions.services.concerns import models_of_others, name_concerns
from leaderboard.submissions.services.letters import choose_letters
from leaderboard.submissions.services.lookalikes import outline
from leaderboard.submissions.services.moderation import decide
from scoring.refusals import Refused
from tests.leaderboard.living import SLUG
from tests.leaderboard.submitting import ada, begun, page, person, ranked, sent, small, small_rows, stage
from tests.leaderboard.test_accounts import posted

__all__ = ["ada", "small", "small_rows", "stage"]

State = Submission.State


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("GPT-2", "gpt2"),
        ("GPT-2", "ＧＰＴ２"),
        ("GPT-2", "G\u0420\u0422-2"),  # Cyrillic
        ("Llama-2-7b", "IIama 2 7b"),
        ("opt-350m", "0pt-35Om"),
        ("gemma", "gernma"),
        ("Gemma", "Gémma"),
        ("Mistral", "M\u0131stral"),
        ("Pythia", "P\u028fthia"),
    ],
)
def test_names_that_people_confuse_have_one_outline(one, other):
    assert outline(one) == outline(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("gpt2", "gpt3"), ("gpt2-medium", "gpt2-large"), ("bert", "albert"), ("模型", "型模"), ("!", "?")],
)
def test_names_that_nobody_confuses_have_outlines_of_their_own(one, other):
    assert outline(one) != outline(other)


@given(st.text(min_size=1, max_size=30))
def test_every_name_has_an_outline_whatever_its_case_and_marks(name):
    assert outline(name)
    assert outline(f" {name} ") == outline(name) or not any(map(str.isalnum, outline(name)))


@pytest.fixture
def grace(db):
    return person("grace", "moderator")


def rename(submission: Submission, name: str) -> None:
    values = {"name": name, "licence": "mit"}
    assert workspace.correct(submission, values, submission.submitter) == ([], True)
    submission.refresh_from_db()


def name_of(submission: Submission) -> str:
    return LanguageModel.objects.get(pk=submission.model_id).name


@pytest.mark.slow
@pytest.mark.django_db
def test_a_ranked_model_keeps_its_name_until_a_moderator_accepts_another(small, ada, grace, client):
    submission = ranked(ada)
    client.force_login(ada)
    address = reverse("correct_submission", args=[submission.pk])
    answer = client.post(address, {"name": "Another", "licence": "apache-2.0"}, follow=True).content.decode()
    assert "Corrected: licence. The new name waits for a moderator: the log of this submission says why." in answer
    assert name_of(submission) == "Entrant 1"
    client.force_login(grace)
    waiting = client.get(reverse("moderation")).content.decode()
    assert "wants to call it <strong>Another</strong>" in waiting
    assert reverse("moderate", args=[submission.pk, "return"]) not in waiting
    question = reverse("moderate", args=[submission.pk, "accept"])
    assert "The model has the new name" in client.get(question).content.decode()
    client.post(question)
    assert name_of(submission) == "Another"
    assert AuditEvent.objects.filter(verb="correct model", actor=grace).exists()
    assert "Another" not in client.get(reverse("moderation")).content.decode()
    letter = posted()[-1]
    assert letter.to == ["ada@example.org"]
    assert "'Another' that you asked for is accepted" in letter.body
    assert "The new name &#x27;Another&#x27; is accepted" in page(ada, submission)


@pytest.mark.slow
@pytest.mark.django_db
def test_a_rejected_name_changes_nothing_and_its_reason_is_read(small, ada, grace):
    submission = ranked(ada)
    rename(submission, "Another")
    with pytest.raises(Refused, match="reason: it is empty"):
        decide(submission, "reject", moderator=grace)
    with pytest.raises(Refused, match="accepted or rejected"):
        decide(submission, "return", "No.", grace)
    with pytest.raises(Refused, match="your own"):
        decide(submission, "accept", moderator=ada)
    call_command("moderate", submission.pk, "reject", reason="It is another lab's name.")
    submission.refresh_from_db()
    assert (name_of(submission), submission.name_asked, submission.state) == ("Entrant 1", "", State.RANKED)
    assert "It is another lab&#x27;s name." in page(ada, submission)


@pytest.mark.slow
@pytest.mark.django_db
def test_a_name_that_was_taken_meanwhile_is_not_given_twice(small, ada, grace):
    submission = ranked(ada)
    rename(submission, "Another")
    LanguageModel.objects.filter(slug="entrant-0").update(name="another")
    with pytest.raises(Refused, match="name of another model by now"):
        decide(submission, "accept", moderator=grace)
    submission.refresh_from_db()
    assert submission.name_asked == "Another"


@pytest.mark.slow
@pytest.mark.django_db
def test_a_new_name_that_imitates_another_is_shown_with_it(small, ada, grace, client):
    submission = ranked(ada)
    rename(submission, "Entrant O")
    client.force_login(grace)
    assert "could be taken for another model&#x27;s here: &#x27;Entrant 0&#x27;" in (
        client.get(reverse("moderation")).content.decode()
    )
    decide(submission, "reject", "It reads like another's.", grace)
    submission.refresh_from_db()
    assert (submission.name_asked, submission.concerns) == ("", []), "the concern was about that name"


@pytest.mark.django_db
def test_a_running_submission_gets_a_name_like_another_only_from_a_moderator(small, ada, grace):
    submission = begun(ada)
    assert workspace.correct(submission, {"name": "My model", "licence": "mit"}, ada) == (["name"], False)
    submission.refresh_from_db()
    rename(submission, "Entrant O")
    assert name_of(submission) == "My model"
    (concern,) = submission.concerns
    assert "'Entrant 0'" in concern
    decide(submission, "accept", moderator=grace)
    assert name_of(submission) == "Entrant O"


@pytest.mark.slow
@pytest.mark.django_db
def test_an_operator_renames_a_ranked_model_of_their_own_at_once(small):
    olga = person("olga", "operator")
    submission = ranked(olga)
    assert workspace.correct(submission, {"name": "Another", "licence": "mit"}, olga) == (["name"], False)
    assert name_of(submission) == "Another"


@pytest.mark.django_db
def test_record_log_and_letters_say_what_became_of_a_name(small, ada, grace, settings):
    settings.SITE_URL = "https://board.example.org"
    submission = begun(ada)
    alike = "The name 'Entrant O' could be taken for another model's here: 'Entrant 0'."
    words = "The new name 'Entrant O'"
    before = submission.lines.count()
    rename(submission, "Entrant O")
    decide(submission, "reject", " No. ", grace)
    rename(submission, "Entrant O")
    choose_letters(ada, False)
    decide(submission, "accept", moderator=grace)
    assert [line.text for line in submission.lines.order_by("pk")[before:]] == [
        f"{words} waits for a moderator.",
        f"For a moderator: {alike}",
        f"{words} is rejected: No.",
        f"{words} waits for a moderator.",
        f"For a moderator: {alike}",
        f"{words} is accepted",
    ]
    subject, asked = f"submission {submission.pk}", {"name": "Entrant O"}
    change = {"before": {"name": "Entrant 1"}, "after": asked}
    events = AuditEvent.objects.filter(verb__contains="name").order_by("pk")
    assert [(event.verb, event.subject, event.actor, event.detail) for event in events] == [
        ("ask for name", subject, ada, asked),
        ("reject name", subject, grace, asked | {"reason": "No."}),
        ("ask for name", subject, ada, asked),
    ]
    event = AuditEvent.objects.get(verb="correct model")
    assert (event.subject, event.actor, event.detail) == (f"model {submission.model.slug}", grace, change)
    submission.refresh_from_db()
    assert (submission.payload["name"], submission.payload["licence"]) == ("Entrant O", "mit")
    assert (submission.name_asked, submission.concerns) == ("", [])
    (letter,) = posted()
    assert (letter.subject, letter.to) == ("Plumbline: the name of your model", ["ada@example.org"])
    page_address = f"https://board.example.org{submission.get_absolute_url()}"
    assert letter.body == f"{words} that you asked for is rejected: No.\n\n{page_address}\n"


def model_called(name: str, slug: str, **fields) -> LanguageModel:
    return LanguageModel.objects.create(**{"name": name, "slug": slug, "kind": "causal", "source": "uploaded"} | fields)


@pytest.mark.django_db
def test_five_names_at_most_are_listed_and_none_of_the_submitters_own(ada, grace):
    names = ["GPT-2", "G P T 2", "gpt_2", "Gpt.2", "gpt-2!", "gpt2"]
    for number, name in enumerate(names):
        model_called(name, f"m{number}")
    own = model_called("g.p.t.2", "own")
    Submission.objects.create(submitter=ada, form="outputs", state="checking", payload={}, model=own)
    words = "The name 'gpt2' could be taken for another model's here:"

    def concerns_of(user) -> list[str]:
        return name_concerns(Submission(submitter=user, form="outputs", payload={}), "gpt2")

    assert concerns_of(ada) == [f"{words} {name!r}." for name in sorted(names)[:5]]
    assert concerns_of(grace) == [f"{words} {name!r}." for name in sorted([*names, "g.p.t.2"])[:5]]


@pytest.mark.django_db
def test_revisions_of_one_model_of_the_hub_are_not_others(ada):
    model_called("gpt2", "hub", source="hub", location="org/gpt2", revision="a" * 40)
    model_called("gpt-2", "other", source="hub", location="another/gpt2", revision="b" * 40)
    model_called("GPT2", "sent", location="org/gpt2")
    submission = Submission(submitter=ada, form="hub", payload={"hub_id": "org/gpt2"})
    assert {model.slug for model in models_of_others(submission)} == {"other", "sent"}
    assert {model.slug for model in models_of_others(Submission(submitter=ada, form="outputs", payload={}))} == {
        "hub",
        "other",
        "sent",
    }


@pytest.mark.django_db
def test_what_one_withdraws_is_withdrawn_in_all_ones_submissions_of_it_and_on_record(small, ada):
    first, second = begun(ada), begun(ada)
    assert first.model == second.model
    Submission.objects.filter(pk=second.pk).update(name_asked="Another")
    assert workspace.withdraw(first, "terms", ada)
    reason = "Its licence or terms do not allow it to stand here."
    for submission in (first, second):
        submission.refresh_from_db()
        assert (submission.state, submission.reason, submission.name_asked) == (State.WITHDRAWN, reason, "")
    event = AuditEvent.objects.get(verb="withdraw submission")
    change = {"before": {"state": "accepted"}, "after": {"state": "withdrawn"}}
    assert (event.subject, event.actor) == (f"submission {first.pk}", ada)
    assert event.detail == {"reason": reason, "model withdrawn": True} | change
    with pytest.raises(Refused, match="reason = 'because': use one of mistake, replaced, terms, wish"):
        workspace.withdraw(second, "because", ada)


@pytest.mark.django_db
def test_what_is_not_entered_is_withdrawn_alone_and_has_nothing_to_correct(small, ada):
    submission, other = sent(ada, SLUG, state="moderated"), sent(ada, SLUG, number=2, state="moderated")
    assert workspace.find_other_claim(submission) == ""
    with pytest.raises(Refused, match="not entered yet: there is nothing to correct"):
        workspace.correct(submission, {"name": "Mine", "licence": "mit"}, ada)
    assert not workspace.withdraw(submission, "mistake", ada)
    other.refresh_from_db()
    assert (submission.state, other.state) == (State.WITHDRAWN, State.MODERATED)
    assert AuditEvent.objects.get(verb="withdraw submission").detail["model withdrawn"] is False
    with pytest.raises(Refused, match="It is withdrawn: there is nothing to withdraw"):
        workspace.withdraw(submission, "mistake", ada)


@pytest.mark.django_db
def test_a_model_is_somebodys_alone_unless_others_sent_it_or_it_was_on_the_board_before(small, ada):
    submission = begun(ada)
    assert workspace.find_other_claim(submission) == ""
    other = begun(person("bob"))
    assert workspace.find_other_claim(submission) == "Somebody else submitted this revision too."
    Submission.objects.filter(pk=other.pk).update(state="withdrawn")
    assert workspace.find_other_claim(submission) == ""
    models = LanguageModel.objects.filter(pk=submission.model_id)
    models.update(created_at=submission.created_at - timedelta(days=2))
    submission.refresh_from_db()
    assert workspace.find_other_claim(submission) == "This revision was on the board before you submitted it."
    earlier = sent(ada, SLUG)
    Submission.objects.filter(pk=earlier.pk).update(
        model=submission.model, created_at=submission.created_at - timedelta(days=1)
    )
    assert workspace.find_other_claim(submission) == "This revision was on the board before you submitted it."
    Submission.objects.filter(pk=earlier.pk).update(created_at=submission.created_at - timedelta(days=3))
    assert workspace.find_other_claim(submission) == "", "it came with an earlier submission of the same person"


@pytest.mark.django_db
def test_a_submission_whose_name_imitates_another_waits_on_an_open_board(small, ada, grace):
    submission = sent(ada, SLUG, name="Еntrаnt 0")  # with two Cyrillic letters
    lifecycle.take(submission)
    assert submission.state == State.MODERATED
    (concern,) = submission.concerns
    assert "'Entrant 0'" in concern
    assert "For a moderator: The name" in page(ada, submission)
    decide(submission, "accept", moderator=grace)
    assert submission.state == State.ACCEPTED


@pytest.mark.django_db
def test_a_submission_with_a_name_of_its_own_waits_for_nobody(small, ada):
    submission = sent(ada, SLUG)
    lifecycle.take(submission)
    assert (submission.state, submission.concerns) == (State.ACCEPTED, [])


@pytest.mark.django_db
def test_what_is_withdrawn_asks_for_no_name_any_more(small, ada):
    submission = begun(ada)
    Submission.objects.filter(pk=submission.pk).update(name_asked="Another")
    submission.refresh_from_db()
    workspace.withdraw(submission, "mistake", ada)
    assert not Submission.objects.to_moderate().exists()
