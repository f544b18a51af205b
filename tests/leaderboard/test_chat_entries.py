"""Entries that are prompted as a chat, beside those of raw text."""

import hashlib

import pytest

from leaderboard.models import LanguageModel, Metric, Standing, Work
from leaderboard.services import artefacts, collect
from leaderboard.services.evaluate import CannotEvaluate, request_evaluation
from leaderboard.services.language_models import add_model
from leaderboard.services.seed import seed_metrics
from scoring.artefacts import SCHEMAS
from scoring.language_models import BUNDLED, ModelRefused
from tests.chatting import SMALLEST, TEMPLATE, chat_model
from tests.leaderboard.conftest import CAUSAL, finish
from tests.leaderboard.continuations import import_sample, of_few

pytestmark = pytest.mark.django_db


def test_a_model_has_an_entry_for_each_interface(tmp_path):
    folder = str(chat_model(tmp_path / "tuned"))
    text, _ = add_model(folder)
    chat, new = add_model(folder, interface="chat")
    assert new
    assert not add_model(folder, interface="chat")[1]
    assert (text.revision, text.interface, chat.interface) == (chat.revision, "text", "chat")
    assert (text.slug, chat.slug) == ("tuned", "tuned-chat")
    assert chat.chat_template == text.chat_template == hashlib.sha256(TEMPLATE.encode()).hexdigest()


def test_a_model_without_a_chat_template_has_no_chat_entry():
    with pytest.raises(ModelRefused, match="has no chat template, so nothing says how it is spoken to"):
        add_model(str(BUNDLED / SMALLEST), interface="chat")
    assert not LanguageModel.objects.exists()


@pytest.fixture
def toxicity(db: None, tmp_path) -> Metric:
    """Profanity of four answers or continuations of each of ten prompts."""
    import_sample(tmp_path)
    return of_few("toxicity-profanity")


@pytest.fixture
def chat(tmp_path) -> LanguageModel:
    return add_model(str(chat_model(tmp_path / "tuned")), interface="chat")[0]


def test_a_chat_entry_is_asked_by_the_chat_protocol_and_ranked_apart(toxicity, models, chat):
    finish(models[CAUSAL], toxicity)
    version = toxicity.current_version()
    assert (version.chat_protocol, version.populations) == (None, ["all"])
    scoring = finish(chat, toxicity)
    assert scoring.state == Work.State.DONE, scoring.reason
    version.refresh_from_db()
    assert version.chat_protocol == toxicity.chat_protocol == scoring.run.protocol
    assert version.protocol != version.chat_protocol
    answers = artefacts.load(scoring.run.artefact)
    assert answers.schema.names == SCHEMAS["answers"].names
    run = scoring.run
    assert run.chat == {
        "template": chat.chat_template,
        "system_role": "system",
        "opening": "",
        "answers": 40,
        "unended": 0,
        "reasoned": 0,
        "echoed": 0,
        "refused": 0,
    }
    rate = scoring.results.get(measure="refusal_rate", slice="profanity:all")
    assert (rate.value, rate.n, rate.missing) == (0.0, 40, 0)
    ranks = Standing.objects.filter(metric_version=version, measure="mean_toxicity", slice="profanity:all")
    assert {(row.population, row.model.name, row.rank) for row in ranks if row.population != "all"} == {
        ("text", CAUSAL, 1),
        ("chat", chat.name, 1),
    }
    assert ranks.filter(population="all").count() == 2
    assert not Standing.objects.filter(measure="refusal_rate").exists()


def test_the_chat_protocol_of_a_version_is_set_once(toxicity, models, chat):
    finish(models[CAUSAL], toxicity)
    finish(chat, toxicity)
    version = toxicity.current_version()
    version.chat_protocol = None
    with pytest.raises(ValueError, match="chat_protocol_id cannot change; open a new version"):
        version.save()


def test_a_changed_template_is_refused_and_nothing_is_reused(toxicity, chat):
    LanguageModel.objects.filter(pk=chat.pk).update(chat_template="0" * 64)
    chat.refresh_from_db()
    run = request_evaluation(chat, toxicity).run
    collect.collect(run)
    run.refresh_from_db()
    assert run.state == Work.State.FAILED
    assert "the chat template of tuned-chat has changed since it was entered" in run.reason
    one = collect.dependencies_of(run, {})
    run.model.chat_template = "1" * 64
    assert collect.dependencies_of(run, {}) != one


def test_metrics_without_a_chat_protocol_refuse_chat_entries(toxicity, chat):
    with pytest.raises(CannotEvaluate, match="it is prompted as a chat, and this metric continues raw text"):
        request_evaluation(chat, Metric.objects.get(slug="toxicity-openings"))


def test_likelihoods_of_one_revision_are_ranked_once(metric, tmp_path):
    folder = str(chat_model(tmp_path / "tuned"))
    text, chat = add_model(folder)[0], add_model(folder, interface="chat")[0]
    assert finish(chat, metric).state == Work.State.DONE
    with pytest.raises(CannotEvaluate, match="tuned-chat, the same weights, has them"):
        request_evaluation(text, metric)


def test_boards_of_older_installations_get_their_chat_protocol(toxicity):
    Metric.objects.update(chat_protocol=None)
    seed_metrics()
    metric = Metric.objects.get(slug="toxicity-profanity")
    assert metric.chat_protocol.method == "rtp-chat"
    assert metric.chat_protocol.evaluation_set == metric.protocol.evaluation_set
    assert not Metric.objects.get(slug="safety-toxigen").has_chat_protocol
