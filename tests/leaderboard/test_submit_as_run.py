"""A hub model is entered in a precision and through interfaces, each an entry of its own."""

import json
import re
from collections.abc import Iterator
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from huggingface_hub import constants

from leaderboard.models import Artefact, EvaluationSet, LanguageModel, Metric, Submission
from leaderboard.people.services.tokens import make_token
from leaderboard.services.evaluation_sets import declare
from leaderboard.services.memory import GB, memory_needed
from leaderboard.services.metrics import Declaration, declare_metric
from leaderboard.submissions import intake
from leaderboard.submissions.services.refusals import SubmissionRefused
from scoring.evaluation_sets import get
from tests.chatting import chat_model
from tests.leaderboard.bad_submissions import ID, Scene, scene
from tests.leaderboard.test_accounts import person

pytestmark = pytest.mark.django_db

TUNED = "someone/tuned"
LIKELIHOOD, CONTINUED, ASKED = "safety-starter", "toxicity-raw", "toxicity-asked"


@pytest.fixture
def stage(db: None, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A hub with a base and a tuned model; metrics of likelihoods, of continuations, and of these or answers."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model").mkdir()
    for slug, texts, method, scorer, chat in (
        (LIKELIHOOD, "starter", "likelihood", "", ""),
        (CONTINUED, "real-toxicity-prompts-sample", "rtp", "profanity", ""),
        (ASKED, "real-toxicity-prompts-sample", "rtp", "profanity", "rtp-chat"),
    ):
        formula = "toxicity" if scorer else "safety"
        declare_metric(Declaration(slug, slug, scorer, formula, method, {}, chat=chat), declare(get(texts)))
    artefact = Artefact.objects.create(sha256=64 * "a", kind="labelled_sentences", rows=100, size=1, schema_version=1)
    EvaluationSet.objects.update(artefact=artefact)
    with scene(settings, tmp_path / "model") as made:
        made.hub.add(TUNED, chat_model(tmp_path / "tuned"))
        yield made


def send(user: User, hub_id: str = TUNED, **values: Any) -> dict[tuple[str, str], list[str]]:
    """The metrics of each submission, by interface and precision."""
    submissions = intake.submit(user, "hub", {"hub_id": hub_id, **values})
    assert all(
        (one.model.interface, one.model.precision) == (one.payload["interface"], one.payload["precision"])
        for one in submissions
    )
    return {
        (one.payload["interface"], one.payload["precision"]): [
            scoring.metric_version.metric.slug for scoring in one.scorings.order_by("metric_version__metric")
        ]
        for one in submissions
    }


def refused(user: User, hub_id: str = TUNED, **values: Any) -> dict[str, list[str]]:
    before = Submission.objects.count(), LanguageModel.objects.count()
    with pytest.raises(SubmissionRefused) as refusal:
        intake.submit(user, "hub", {"hub_id": hub_id, **values})
    assert (Submission.objects.count(), LanguageModel.objects.count()) == before
    return refusal.value.problems


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
    return client


@pytest.mark.slow
def test_a_tuned_model_gets_an_entry_as_raw_text_and_one_as_a_chat_and_its_likelihoods_once(stage):
    assert send(person()) == {("text", ""): [LIKELIHOOD, CONTINUED, ASKED], ("chat", ""): [ASKED]}
    text, chat = LanguageModel.objects.order_by("pk")
    assert (text.name, text.revision, text.chat_template) == (chat.name, chat.revision, chat.chat_template)
    assert (text.prompting, chat.prompting) == ("raw", "chat")


@pytest.mark.slow
def test_a_base_model_gets_one_entry_as_raw_text(stage):
    assert send(person(), ID) == {("text", ""): [LIKELIHOOD, CONTINUED, ASKED]}


@pytest.mark.slow
def test_a_chat_alone_has_the_likelihoods_too_and_no_metric_without_a_protocol_for_chats(stage):
    user = person()
    problem = refused(user, interface=["chat"], metrics=[ASKED, CONTINUED])["metrics"][0]
    assert problem.startswith(CONTINUED)
    assert "no protocol for chats" in problem
    assert send(user, interface=["chat"]) == {("chat", ""): [LIKELIHOOD, ASKED]}
    assert "under way already" in refused(user, interface=["text"], metrics=[LIKELIHOOD])["metrics"][0]


def test_an_interface_that_no_chosen_metric_is_left_for_is_a_problem_of_its_field(stage):
    problems = refused(person(), interface=["text", "chat"], metrics=[LIKELIHOOD])
    assert "leave chat out" in problems["interface"][0]


@pytest.mark.slow
def test_the_same_revision_is_new_in_another_precision_or_interface_and_known_in_the_same(stage, settings):
    settings.SUBMISSIONS_AT_ONCE = 9
    user = person()
    assert send(user, ID, metrics=[LIKELIHOOD, CONTINUED, ASKED]) == {("text", ""): [LIKELIHOOD, CONTINUED, ASKED]}
    assert "on the board already" in refused(user, ID)["hub_id"][0]
    assert list(send(user, ID, precision="bfloat16")) == [("text", "bfloat16")]
    assert "on the board already" in refused(user, ID, precision="bfloat16")["hub_id"][0]
    assert list(send(user, interface=["text"])) == [("text", "")]
    assert list(send(user, interface=["chat"])) == [("chat", "")]
    assert "on the board already" in refused(user)["hub_id"][0]
    marks = {(model.location, model.interface, model.precision) for model in LanguageModel.objects.all()}
    assert len(marks) == LanguageModel.objects.count() == 4


@pytest.mark.slow
def test_where_an_entry_is_complete_the_other_one_is_made_unasked(stage):
    user = person()
    send(user, interface=["text"])
    assert send(user) == {("chat", ""): [ASKED]}


@pytest.mark.slow
def test_what_waits_for_a_moderator_is_known_as_it_is_run(stage, settings):
    settings.BOARD_ACCESS = "moderated"
    settings.SUBMISSIONS_AT_ONCE = 9
    user = person()
    intake.submit(user, "hub", {"hub_id": ID})
    assert "waits for a moderator" in refused(user, ID)["hub_id"][0]
    assert [one.payload["precision"] for one in intake.submit(user, "hub", {"hub_id": ID, "precision": "float16"})] == [
        "float16"
    ]


@pytest.mark.slow
def test_two_entries_count_as_two_submissions_and_are_taken_together_or_not_at_all(stage, settings):
    settings.SUBMISSIONS_AT_ONCE = 1
    user = person()
    assert "under way, the maximum" in str(refused(user))
    assert list(send(user, interface=["chat"])) == [("chat", "")]


@pytest.mark.slow
def test_a_model_that_fits_in_a_smaller_precision_alone_is_taken_in_that_one(stage, settings):
    user = person()
    parameters = intake.look_up(user, {"hub_id": ID}).resolved.architecture.parameters
    settings.WORKER_MEMORY_GB = (memory_needed(parameters, "bfloat16") + memory_needed(parameters)) / 2 / GB
    assert "does not fit" in refused(user, ID)["hub_id"][0]
    page = signed_in(user).post(reverse("submit_hub"), {"hub_id": ID, "look": ""}).content.decode()
    radios = re.findall(
        r'<input type="radio" name="precision"[^>]*value="([^"]*)"(?:\s+(checked))?(?:\s+(disabled))?', page
    )
    assert radios == [
        ("", "", "disabled"),
        ("float32", "", "disabled"),
        ("bfloat16", "checked", ""),
        ("float16", "", ""),
    ]
    assert "more memory than the workers here have" in " ".join(page.split())
    assert list(send(user, ID, precision="bfloat16")) == [("text", "bfloat16")]


@pytest.mark.slow
def test_the_page_shows_what_each_precision_takes_and_what_the_interfaces_differ_in(stage):
    user = person()
    client = signed_in(user)
    page = unescape(client.post(reverse("submit_hub"), {"hub_id": TUNED, "look": ""}).content.decode())
    parameters = intake.look_up(user, {"hub_id": TUNED}).resolved.architecture.parameters
    for precision in ("float32", "bfloat16", "float16"):
        assert re.search(rf'value="{precision}"', page)
        assert f"About {memory_needed(parameters, precision) / GB:.1f} GB" in page
    assert re.findall(r'name="interface"\s+id="[^"]+" value="(\w+)"\s+checked', page) == ["text", "chat"]
    words = " ".join(page.split())
    assert "As raw text, the model continues each text as it stands" in words
    assert "As a chat, it gets each prompt as a user's message by its own template" in words
    assert "As raw text only: it has no protocol for chats." in words
    assert "measured once" in words
    base = client.post(reverse("submit_hub"), {"hub_id": ID, "look": ""}).content.decode()
    assert 'name="interface"' not in base


@pytest.mark.slow
def test_the_page_makes_the_entries_that_are_ticked_and_asks_for_one_where_none_is(stage):
    client = signed_in(person())
    values = {"hub_id": TUNED, "metrics": [ASKED], "precision": "bfloat16", "offers_interfaces": "1", "send": ""}
    none = client.post(reverse("submit_hub"), values)
    assert "Choose raw text, chat, or both." in none.content.decode()
    assert not Submission.objects.exists()
    answer = client.post(reverse("submit_hub"), {**values, "interface": ["text", "chat"]}, follow=True)
    assert "two entries" in answer.content.decode()
    assert [(one.payload["interface"], one.payload["precision"]) for one in Submission.objects.order_by("pk")] == [
        ("text", "bfloat16"),
        ("chat", "bfloat16"),
    ]


@pytest.mark.slow
def test_a_known_revision_is_shown_with_its_entries_and_their_marks(stage):
    user = person()
    send(user, interface=["chat"], precision="bfloat16", metrics=[ASKED])
    page = signed_in(user).post(reverse("submit_hub"), {"hub_id": TUNED, "look": ""}).content.decode()
    assert LanguageModel.objects.get().get_absolute_url() in page
    assert ">chat</span>" in page
    assert ">bfloat16</span>" in page
    assert "Chat, bfloat16: it is under way already." in page


@pytest.mark.slow
def test_api_and_command_take_precision_and_interfaces_and_say_what_became_of_them(stage, settings):
    settings.SUBMISSIONS_AT_ONCE = 9
    user = person()
    _, secret = make_token(user, "nightly")
    answer = Client().post(
        "/api/v1/submissions",
        json.dumps({"form": "hub", "hub_id": TUNED, "interface": ["text", "chat"], "metrics": [ASKED]}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 201
    first, second = Submission.objects.order_by("pk")
    content = answer.json()
    assert (content["id"], content["others"], content["interface"], content["precision"]) == (
        first.pk,
        [second.pk],
        "text",
        "",
    )
    output = StringIO()
    words = ["--precision=float16", "--interface=chat", f"--metric={ASKED}", "--as", user.username, "--json"]
    call_command("submit", "hub", TUNED, *words, stdout=output)
    progress = json.loads(output.getvalue())
    assert (progress["interface"], progress["precision"]) == ("chat", "float16")
    assert Metric.objects.get(slug=ASKED).has_chat_protocol
