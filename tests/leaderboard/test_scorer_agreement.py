"""A scorer's page: whom it agrees with, on what, how it takes mentions, tests and other words, and what it costs."""

import re
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from django.core.files.storage import default_storage
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from sklearn import metrics

from leaderboard import tasks
from leaderboard.models import Calibration, EvaluationSet, MetricVersion
from leaderboard.queries.report_cards import list_scorers
from leaderboard.queries.scorer_agreement import compare_with_published
from leaderboard.services import artefacts, calibrations
from leaderboard.services.evaluation_sets import import_file, import_sentences
from leaderboard.services.seed import seed_labelled_texts
from leaderboard.templatetags.scorer_cards import functionality_label, language_name, speed
from scoring.evaluation_sets import build_starter, get
from scoring.scorers import Cost, get_scorer, registry
from tests.leaderboard.living import NAME, SLUG, Stage, entrant, probability, small_metric, standing_in, submit
from tests.leaderboard.test_history import page, said, table

pytestmark = pytest.mark.django_db

TEXTS = 80


@pytest.fixture(autouse=True)
def stage() -> Stage:
    with standing_in() as stage:
        yield stage


@pytest.fixture
def board(db, tmp_path):
    """Two scorers that have measured an entry each, and labelled texts that both are calibrated on."""
    small_metric(tmp_path)
    for number, (slug, scorer) in enumerate(((SLUG, NAME), ("toxicity-profanity", "profanity")), start=1):
        metric = small_metric(tmp_path, slug=slug, scorer=scorer)
        submit(entrant(number, metric), metric)
    every_sentence = build_starter()
    sentences = [every_sentence[n] for n in np.linspace(0, len(every_sentence) - 1, TEXTS, dtype=int)]
    import_sentences(get("starter"), sentences)
    calibrate()
    return sentences


def calibrate() -> None:
    calibrations.request_missing()
    for row in Calibration.objects.unclaimed():
        tasks.calibrate_scorer(row.pk)


def read_first(cell: str) -> str:
    """The value of a cell, before its interval."""
    return re.match(r"-?\d\.\d{3}", cell.replace("\N{MINUS SIGN}", "-"))[0]


@pytest.mark.slow
def test_agreement_with_every_other_scorer_is_that_of_the_kept_scores(client, board):
    html = page(client, f"/scorers/{NAME}/?card=starter/toxicity")
    (row,) = table(html, "Agreement with other scorers")
    own = np.array([probability(sentence.text, "toxicity") for sentence in board])
    other = get_scorer("profanity").score([sentence.text for sentence in board]).values[:, 0]
    assert row[1:3] == ["Toxicity and profanity", str(TEXTS)]
    assert row[3].startswith(f"{np.corrcoef(own, other)[0, 1]:.3f}".replace("-", "\N{MINUS SIGN}")) or row[
        3
    ].startswith(f"{np.corrcoef(own, other)[0, 1]:.3f}")
    kappa = metrics.cohen_kappa_score(own > 0.5, other > 0.5)
    assert float(read_first(row[4])) == pytest.approx(kappa, abs=6e-4)
    assert row[5].startswith(f"{100 * ((own > 0.5) == (other > 0.5)).mean():.1f}%")


@pytest.mark.slow
def test_the_texts_that_two_scorers_differ_on_are_listed_by_id_and_covered(client, board):
    html = page(client, f"/scorers/{NAME}/?card=starter/insult&with=profanity")
    own = np.array([probability(sentence.text, "insult") for sentence in board])
    other = get_scorer("profanity").score([sentence.text for sentence in board]).values[:, 0]
    farthest = board[int(np.argmax(np.abs(own - other)))]
    rows = table(html, "Texts that differ most on insult")
    assert len(rows) == 10
    assert rows[0][0].startswith(farthest.id)
    assert rows[0][1] == ("harmful" if farthest.harmful else "benign")
    assert html.count('<details class="covered">') == 10
    chart = client.get(f"/scorers/{NAME}/?card=starter/insult&with=profanity&chart=scorers-1&format=json")
    assert chart.status_code == 200
    assert client.get(f"/scorers/{NAME}/?card=starter/insult&with={NAME}").status_code == 404


def test_texts_without_a_stated_licence_are_listed_by_id_alone(client, board):
    EvaluationSet.objects.filter(slug="starter").update(licence="none stated")
    html = page(client, f"/scorers/{NAME}/?card=starter/insult")
    assert len(table(html, "Texts that differ most on insult")) == 10
    assert "covered" not in html


@pytest.mark.slow
def test_a_scorer_whose_scores_are_lost_keeps_its_card_and_is_compared_with_nobody(client, board):
    for row in Calibration.objects.filter(metric_version__scorer="profanity"):
        path = default_storage.path(row.artefact.storage_name)
        with open(path, "wb") as file:
            file.write(b"damaged")
    assert "No other scorer has scores of these texts here" in page(client, f"/scorers/{NAME}/")
    assert "All texts of" in page(client, "/scorers/profanity/")


@pytest.mark.slow
def test_functional_tests_mentions_languages_and_paraphrases_have_their_sections(client, board, tmp_path):
    (tmp_path / "hatecheck_cases_final_german.csv").write_text(
        "mhc_case_id,functionality,test_case,label_gold,target_ident\n"
        "german-1,derog_impl_h,eins,hateful,women\ngerman-2,ident_pos_nh,zwei,non-hateful,women\n"
        "german-3,ident_pos_nh,drei,non-hateful,\n"
    )
    import_file("multilingual-hatecheck", tmp_path)
    seed_labelled_texts()
    calibrate()
    card = Calibration.objects.get(evaluation_set__slug="multilingual-hatecheck", metric_version__scorer=NAME).cards
    html = page(client, f"/scorers/{NAME}/?card=multilingual-hatecheck/toxicity")
    rows = {row[0]: row[1:] for row in table(html, "Pass rates")}
    rate = card["toxicity"]["passes"]["ident_pos_nh"]
    assert rows["ident pos (not hateful)"][0] == "2"
    assert rows["ident pos (not hateful)"][1].startswith(f"{100 * rate['value']:.1f}%")
    assert [row[0] for row in table(html, "By language")] == ["German"]
    mentions = table(html, "Benign mentions labelled")
    assert mentions[0][:2] == ["No identity", "40"]
    own = {row.evaluation_set.slug: row for row in Calibration.objects.filter(metric_version__scorer=NAME)}
    women = own["identity-mentions"].cards["toxicity"]["groups"]["women"]["about_it"]["false_positives"]
    assert {row[0]: row[2] for row in mentions}["Women"].startswith(f"{100 * women['value']:.1f}%")
    disturbances = {row[0]: row[1:] for row in table(html, "The same texts, disturbed")}
    assert disturbances["upper case"][0] == "3"
    assert disturbances["other words, of our own set of paraphrases"][0] == "48"
    assert "German. Licence: CC BY 4.0." in said(html)


@pytest.mark.slow
def test_published_scores_of_the_prompts_are_held_against_the_scorer(client, board):
    scorer = next(one for one in list_scorers() if one.name == NAME)
    (published,) = compare_with_published(scorer)
    texts = MetricVersion.objects.get(metric__slug=SLUG).protocol.evaluation_set
    words = {row["id"]: row["text"] for row in artefacts.load(texts.artefact).to_pylist()}
    rows = [row for row in artefacts.load(texts.prompt_scores).to_pylist() if row["attribute"] == "toxicity"]
    scored_texts = [(words[row["id"]], row["score"]) for row in rows if row["score"] is not None]
    expected = np.corrcoef(
        [probability(text, "toxicity") for text, _ in scored_texts], [score for _, score in scored_texts]
    )[0, 1]
    toxicity = next(one for one in published.attributes if one.attribute == "toxicity")
    assert toxicity.n == len(scored_texts)
    assert toxicity.pearson.value == pytest.approx(expected, abs=1e-6)
    html = page(client, f"/scorers/{NAME}/")
    for other in list_scorers():
        assert {one.version.scorer for one in compare_with_published(other)} == {other.name}
    assert any(row[0] == "Toxicity" for row in table(html, "Agreement with published scores of Ten prompts"))


@pytest.mark.slow
def test_speed_cost_and_checks_stand_on_the_page_and_in_the_list(client, board):
    call_command("check_control", SLUG, stdout=StringIO())
    html = page(client, f"/scorers/{NAME}/")
    row = Calibration.objects.get(metric_version__scorer=NAME)
    (speeds,) = table(html, "Speed")
    assert speeds[1:] == [f"{row.done:,}", speed(row.texts_a_second), row.machine]
    assert "It runs on workers of this board" in said(html)
    checks = table(html, f"Checks of {SLUG}")
    assert "Stable" in checks[0][1]
    rows = {row[0]: row for row in table(page(client, "/scorers/"), "Scorers and their metrics")}
    assert row.machine in rows["Stand-in"][3]
    assert rows["Stand-in"][4] == "runs here"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("usd", "in_words", "in_list", "in_api"),
    [
        (0.00038, "US$ 0.38", "0.38", 0.38),
        (0.0, "no money", "0", 0.0),
        (None, "nobody has declared", "not declared", None),
    ],
)
def test_what_1000_texts_cost_is_said_of_a_remote_scorer(client, board, usd, in_words, in_list, in_api):
    remote = [
        replace(one, cost=lambda _choice, _surroundings: Cost(1, 0.5, usd)) if one.name == NAME else one
        for one in registry.SCORERS
    ]
    with pytest.MonkeyPatch.context() as patch:  # of its own, undone before the stand-in leaves the registry
        patch.setattr(registry, "SCORERS", tuple(remote))
        words = said(page(client, f"/scorers/{NAME}/"))
        rows = {row[0]: row for row in table(page(client, "/scorers/"), "Scorers and their metrics")}
        answer = client.get(f"/api/v1/scorers/{NAME}").json()
    assert "1,000 take 1,000 requests, 500 seconds of quota" in words
    assert in_words in words
    assert rows["Stand-in"][4] == in_list
    assert answer["usd_per_1000_texts"] == in_api


@pytest.mark.slow
def test_the_queries_of_a_scorers_page_do_not_grow_with_scorers_and_sets(client, board, tmp_path):
    address = f"/scorers/{NAME}/?card=starter/toxicity"

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, address)
        return len(queries)

    queries_before = count()
    metric = small_metric(tmp_path, slug="lexicon", scorer="lexicon:starter", formula="lexicon_frequency")
    submit(entrant(3, metric), metric)
    import_sentences(get("implicit-hate"), board[: TEXTS // 2])
    calibrate()
    assert len(table(page(client, address), "Agreement with other scorers")) == 2
    assert count() <= queries_before


@pytest.mark.slow
def test_texts_that_are_lost_cost_the_list_of_those_and_nothing_else(client, board):
    artefact = EvaluationSet.objects.get(slug="starter").artefact
    default_storage.delete(artefact.storage_name)
    html = page(client, f"/scorers/{NAME}/?card=starter/toxicity")
    assert len(table(html, "Agreement with other scorers")) == 1
    assert "differ on most" not in html


@pytest.mark.slow
def test_the_api_has_the_scorers_and_their_report_cards(client, board):
    (mine,) = [row for row in client.get("/api/v1/scorers").json()["items"] if row["name"] == NAME]
    row = Calibration.objects.get(metric_version__scorer=NAME)
    assert (mine["metrics"], mine["sets"], mine["usd_per_1000_texts"]) == ([SLUG], ["starter v1"], None)
    assert (mine["texts_a_second"], mine["machine"]) == (row.texts_a_second, row.machine)
    whole = client.get(f"/api/v1/scorers/{NAME}").json()
    (calibration,) = whole["calibrations"]
    assert calibration["cards"] == row.cards
    assert (calibration["set"], calibration["licence"], calibration["languages"]) == (
        "starter v1",
        "Apache-2.0",
        {"en": TEXTS},
    )
    assert whole["url"].endswith(f"/scorers/{NAME}/")
    missing = client.get("/api/v1/scorers/lexicon:nobody")
    assert (missing.status_code, missing.json()["errors"][0]["field"]) == (404, "name")


def test_words_of_report_cards():
    assert language_name("pt-br") == "Brazilian Portuguese"
    assert language_name("xx-unknown") == "xx-unknown"
    assert functionality_label("derog_neg_emote_h") == "derog neg emote (hateful)"
    assert functionality_label("who someone is") == "who someone is"
    assert [speed(rate) for rate in (0.98234, 41.27, 42_859.9)] == ["0.982", "41.3", "42,900"]
