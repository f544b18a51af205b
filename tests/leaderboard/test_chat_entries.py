"""Entries that are prompted as a chat, beside those of raw text."""

import csv
import hashlib
import re
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pytest
from django.urls import reverse

from leaderboard.models import LanguageModel, Metric, MetricVersion, Run, Scoring, Standing, Work
from leaderboard.models.language_models import Interface
from leaderboard.rankings.places import place_now
from leaderboard.rankings.selection import comparable_interface, page_populations
from leaderboard.services import artefacts, collect
from leaderboard.services.evaluate import CannotEvaluate, find_ranked_twin, request_evaluation
from leaderboard.services.language_models import add_model
from leaderboard.services.manifest import manifest
from leaderboard.services.rescore import open_rescoring
from leaderboard.services.seed import seed_metrics
from leaderboard.services.verify import verify
from leaderboard.services.versions import keep_chat_protocol
from scoring.artefacts import SCHEMAS
from scoring.language_models import BUNDLED, ModelRefused
from tests.chatting import SMALLEST, TEMPLATE, chat_model
from tests.leaderboard.conftest import CAUSAL, OTHER_CAUSAL, finish
from tests.leaderboard.continuations import of_few
from tests.leaderboard.measured import METRIC, few_prompts, measure_chats
from tests.leaderboard.stored import metric_of, version_of
from tests.pages import read_page
from tests.rows import Board, load_board

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_a_model_has_an_entry_for_each_interface(tmp_path):
    folder = str(chat_model(tmp_path / "tuned"))
    text, _ = add_model(folder)
    chat, new = add_model(folder, interface="chat")
    assert new
    assert not add_model(folder, interface="chat")[1]
    assert (text.revision, text.interface, chat.interface) == (chat.revision, "text", "chat")
    assert (text.slug, chat.slug) == ("tuned", "tuned-chat")
    assert chat.chat_template == text.chat_template == hashlib.sha256(TEMPLATE.encode()).hexdigest()


@pytest.mark.slow
def test_a_model_without_a_chat_template_has_no_chat_entry():
    with pytest.raises(ModelRefused, match="has no chat template, so nothing says how it is spoken to"):
        add_model(str(BUNDLED / SMALLEST), interface="chat")
    assert not LanguageModel.objects.exists()


@pytest.fixture
def toxicity(db: None) -> Metric:
    """Profanity of four answers or continuations of each of ten prompts."""
    return few_prompts()


@pytest.fixture
def chat(tmp_path) -> LanguageModel:
    return add_model(str(chat_model(tmp_path / "tuned")), interface="chat")[0]


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_chat_protocol_of_a_version_is_set_once(toxicity, models, chat):
    finish(models[CAUSAL], toxicity)
    finish(chat, toxicity)
    version = toxicity.current_version()
    version.chat_protocol = None
    with pytest.raises(ValueError, match="chat_protocol_id cannot change; open a new version"):
        version.save()


def test_entries_without_weights_are_no_two_interfaces_of_one_model(db):
    published = {"source": "published", "kind": "causal"}
    raw, chat = (
        LanguageModel.objects.create(slug=interface, name=interface, interface=interface, **published)
        for interface in Interface
    )
    assert (raw.location, chat.location) == ("", "")
    assert not raw.twins().exists()


def test_a_twin_counts_where_it_has_numbers_of_the_metric_or_waits_for_them(db):
    metric, other = (metric_of(slug, "profanity") for slug in ("one", "other"))
    weights = {"source": "hub", "location": "a/b", "revision": "c" * 40, "kind": "causal"}
    raw, chat = (
        LanguageModel.objects.create(slug=interface, name=interface, interface=interface, **weights)
        for interface in Interface
    )
    assert find_ranked_twin(chat, metric) is None
    run = Run.objects.create(model=raw, protocol=metric.protocol)
    scoring = Scoring.objects.create(run=run, model=raw, metric_version=version_of(metric, "a"))
    assert find_ranked_twin(chat, metric) == raw
    assert find_ranked_twin(chat, other) is None
    Scoring.objects.filter(pk=scoring.pk).update(state=Work.State.FAILED, reason="it broke")
    assert find_ranked_twin(chat, metric) is None


def test_a_version_gets_a_chat_protocol_and_no_other_with_it(db):
    one, other = (version_of(metric_of(slug, "profanity"), slug) for slug in ("one", "other"))
    keep_chat_protocol(one, one.protocol)
    other.refresh_from_db()
    assert (one.chat_protocol, other.chat_protocol) == (one.protocol, None)


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_template_that_fails_ends_the_run_with_what_it_says(toxicity, tmp_path):
    folder = chat_model(tmp_path / "tools", "{{ raise_exception('only tools here') }}")
    run = request_evaluation(add_model(str(folder), interface="chat")[0], toxicity).run
    collect.collect(run)
    run.refresh_from_db()
    assert run.state == Work.State.FAILED
    assert "the chat template cannot render a prompt (only tools here)" in run.reason


def test_chats_do_not_stand_beside_figures_of_raw_text_unless_asked(toxicity):
    with_chats = MetricVersion(metric=toxicity, chat_protocol=toxicity.chat_protocol)
    figures = MetricVersion(metric=toxicity)
    assert comparable_interface([with_chats, figures], "") == "text"
    assert comparable_interface([with_chats, figures], "all") == ""
    assert comparable_interface([with_chats], "") == ""
    assert page_populations([with_chats, figures], "") == ["all"]
    assert page_populations([with_chats], "") == ["text", "chat"]
    assert page_populations([figures], "chat") == ["all"]


def test_metrics_without_a_chat_protocol_refuse_chat_entries(toxicity, chat):
    with pytest.raises(CannotEvaluate, match="it is prompted as a chat, and this metric continues raw text"):
        request_evaluation(chat, Metric.objects.get(slug="toxicity-openings"))


@pytest.mark.slow
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


@pytest.fixture(scope="session")
def board_rows(recall, kept_boards: Path) -> Board:
    """The rows of `board`."""
    return recall("chats", lambda: measure_chats(kept_boards))


@pytest.fixture
def board(board_rows: Board, db: None) -> Metric:
    """A board with two entries of raw text and one of a chat."""
    load_board(board_rows)
    return of_few(METRIC)


@pytest.fixture
def chat_entry(board: Metric) -> LanguageModel:
    """The one of a chat."""
    return LanguageModel.objects.get(interface="chat")


def page(client, metric, **query):
    return read_page(client.get(reverse("rankings"), {"metric": metric.slug, **query}).content.decode())


def captions(text):
    return [
        re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", one)).strip()
        for one in re.findall(r"<caption>(.*?)<span", text, re.S)
    ]


@pytest.mark.slow
def test_a_board_without_chat_entries_looks_as_ever(toxicity, models, client):
    finish(models[CAUSAL], toxicity)
    text = client.get(reverse("rankings"), {"metric": toxicity.slug}).content.decode()
    assert captions(text) == ["Models"]
    assert 'name="kind"' not in text
    assert "Raw text models" not in text


@pytest.mark.slow
def test_raw_text_and_chats_have_tables_of_their_own_unless_asked(board, client):
    text = client.get(reverse("rankings"), {"metric": board.slug}).content.decode()
    assert captions(text) == ["Raw text models", "Chat models"]
    assert text.count("Refused") >= 1
    assert "0.0%" in text
    for kind, titles in (("chat", ["Chat models"]), ("text", ["Raw text models"]), ("all", ["Models"])):
        text = client.get(reverse("rankings"), {"metric": board.slug, "kind": kind}).content.decode()
        assert captions(text) == titles


@pytest.mark.slow
def test_entries_are_sorted_by_their_refusals_those_without_answers_last(board, client, chat_entry):
    for slug, refused in ((chat_entry.slug, 30), (CAUSAL, 4)):  # of 40: 0.75 and 0.1, as numbers and not as words
        Run.objects.filter(model__slug=slug).update(chat={"refused": refused, "answers": 40})
    for order, slugs in (("-refusals", [chat_entry.slug, CAUSAL]), ("refusals", [CAUSAL, chat_entry.slug])):
        query = {"metric": board.slug, "kind": "all", "sort": order}
        text = client.get(reverse("rankings"), query).content.decode()
        assert re.findall(r'<th scope="row"[^>]*>.*?href="/models/([^"/]+)/"', text, re.S) == [*slugs, OTHER_CAUSAL]


@pytest.mark.slow
def test_a_place_is_one_among_models_of_the_same_interface(board, chat_entry):
    assert place_now(chat_entry, board).words == "1 of 1 chat model"
    assert place_now(LanguageModel.objects.get(name=CAUSAL), board).words.endswith("of 2 raw text models")


@pytest.mark.slow
def test_exports_and_the_api_keep_interfaces_apart(board, client, chat_entry):
    rows = list(
        csv.DictReader(StringIO(client.get(reverse("export", args=["csv"]), {"metric": board.slug}).content.decode()))
    )
    assert [(row["population"], row["interface"]) for row in rows] == [
        ("text", "text"),
        ("text", "text"),
        ("chat", "chat"),
    ]
    assert [row["refusal_rate"] for row in rows] == ["", "", "0"]
    address = f"/api/v1/metrics/{board.slug}/standings"
    items = client.get(address).json()["items"]
    assert [item["population"] for item in items] == ["text", "text", "chat"]
    assert [item["rank"] for item in client.get(address, {"population": "all"}).json()["items"]] == [1, 2, 3]
    assert client.get(address, {"population": "masked"}).status_code == 404


@pytest.mark.slow
def test_numbers_and_ranks_hold_when_they_are_recomputed(board):
    report = verify(board, sample_size=3)
    assert report.differences == []


@pytest.mark.slow
def test_a_rescoring_keeps_the_chat_protocol_and_the_outputs(board, chat_entry):
    first = board.current_version()
    rescoring = open_rescoring(board, "for a test", scorer=board.scorer)
    version = rescoring.to_version
    assert version.chat_protocol == first.chat_protocol
    scoring = version.scorings.get(model=chat_entry)
    assert scoring.run == first.scorings.get(model=chat_entry).run
    assert version.protocol_for(chat_entry) == first.chat_protocol


@pytest.mark.slow
def test_the_manifest_says_how_chats_were_asked(board, chat_entry):
    content = manifest(board.current_version())
    assert content["chat_protocol"]["method"] == "rtp-chat"
    assert content["chat_protocol"]["parameters"]["instruction"]
    entry = next(one for one in content["entries"] if one["model"]["slug"] == chat_entry.slug)
    assert entry["model"]["interface"] == "chat"
    assert entry["model"]["chat_template"] == chat_entry.chat_template
    assert entry["run"]["protocol"] == content["chat_protocol"]["sha256"]


@pytest.mark.slow
def test_likelihoods_of_a_chat_entry_are_called_what_they_are(metric, chat, client):
    finish(chat, metric)
    assert "what its pre-training left, not how it answers" in page(client, metric)


@pytest.mark.slow
def test_samples_of_a_chat_entry_say_what_was_found_in_its_answers(board, chat_entry, client):
    run = chat_entry.runs.get()
    table = artefacts.load(run.artefact)
    table = table.set_column(table.schema.get_field_index("refused"), "refused", pa.array([True] * table.num_rows))
    run.artefact = artefacts.store(table, "answers")
    run.save()
    address = reverse("samples", args=[chat_entry.slug])
    text = client.get(address, {"metric": board.slug, "show": "yes"}).content.decode()
    assert text.count("a refusal") == 10
    assert table["text"][0].as_py() is not None
