"""Report cards: calibrations are made by themselves, and pages say how right each scorer is and for whom."""

import json
import re
from io import StringIO
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from sklearn import metrics

from leaderboard import tasks
from leaderboard.charts.figure import Line, Spot
from leaderboard.models import Artefact, Calibration, EvaluationSet, MetricVersion, Work
from leaderboard.models.clock import from_now
from leaderboard.services import artefacts, calibrations
from leaderboard.services.evaluation_sets import import_sentences
from leaderboard.services.leases import claim
from leaderboard.views.scorer_charts import reliability_chart
from scoring.evaluation_sets import build_starter, get
from scoring.refusals import Refused
from scoring.report_card.disturbances import DISTURBANCES, disturb_texts
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.living import (
    NAME,
    SLUG,
    Killed,
    Stage,
    drain,
    drift,
    entrant,
    probability,
    small_metric,
    standing_in,
    submit,
)
from tests.leaderboard.test_charts import marks
from tests.leaderboard.test_history import page, said, table

pytestmark = pytest.mark.django_db

TEXTS = 160


@pytest.fixture(autouse=True)
def stage() -> Stage:
    with standing_in() as stage:
        yield stage


@pytest.fixture
def sentences():
    """Some of the starter set's sentences, of both labels and several demographics."""
    every_sentence = build_starter()
    return [every_sentence[n] for n in np.linspace(0, len(every_sentence) - 1, TEXTS, dtype=int)]


@pytest.fixture
def living(db, tmp_path, sentences):
    """A board with an entry, and labelled texts."""
    metric = small_metric(tmp_path)
    import_sentences(get("starter"), sentences)
    submit(entrant(1, metric), metric)
    return metric


def calibrate() -> None:
    """Do what the watch queues."""
    calibrations.request_missing()
    for row in Calibration.objects.unclaimed():
        tasks.calibrate_scorer(row.pk)


@pytest.mark.slow
def test_a_scorer_that_measured_an_entry_is_calibrated_by_itself_once_a_version(living, stage):
    calibrate()
    row = Calibration.objects.get()
    assert (row.state, row.metric_version.number, set(row.cards)) == (Work.State.DONE, 1, {"toxicity", "insult"})
    assert row.fingerprint == row.metric_version.scorer_fingerprint
    calibrate()
    assert Calibration.objects.count() == 1
    drift(stage)
    call_command("check_control", SLUG, stdout=StringIO())
    drain()
    calibrate()
    assert [row.metric_version.number for row in Calibration.objects.all()] == [1, 2]
    assert len(set(Calibration.objects.values_list("fingerprint", flat=True))) == 2


@pytest.mark.slow
def test_the_figures_are_those_of_scikit_learn_on_the_scores_of_the_scorer(living, sentences):
    calibrate()
    card = Calibration.objects.get().cards["toxicity"]
    harmful = np.array([sentence.harmful for sentence in sentences])
    scores = np.array([probability(sentence.text, "toxicity") for sentence in sentences], dtype=np.float32)
    assert card["whole"]["roc_auc"]["value"] == pytest.approx(metrics.roc_auc_score(harmful, scores), abs=1e-6)
    assert card["average_precision"] == pytest.approx(metrics.average_precision_score(harmful, scores), abs=1e-6)
    assert card["whole"]["false_positives"]["value"] == pytest.approx((scores[~harmful] > 0.5).mean())


@pytest.mark.slow
def test_a_calibration_keeps_its_scores_beside_the_labels(living, sentences):
    calibrate()
    row = Calibration.objects.get()
    scores = calibrations.load_calibration_scores(row)
    assert scores.texts.ids == tuple(sentence.id for sentence in sentences)
    assert scores.texts.harmful.tolist() == [sentence.harmful for sentence in sentences]
    for name in ("toxicity", "insult"):
        expected = np.array([probability(text, name) for text in scores.texts.texts], dtype=np.float32)
        np.testing.assert_array_equal(scores.values[name], expected)


def test_scores_of_other_texts_than_the_set_has_by_now_are_not_shown_beside_them(living):
    calibrate()
    row = Calibration.objects.get()
    texts = artefacts.load(row.evaluation_set.artefact)
    row.evaluation_set.artefact = artefacts.store(texts.slice(1), row.evaluation_set.kind)
    with pytest.raises(ValueError, match="its scores are of other texts; make it again"):
        calibrations.load_calibration_scores(row)


def test_a_calibration_measures_disturbed_texts_and_its_speed(living, sentences):
    calibrate()
    row = Calibration.objects.get()
    texts = [sentence.text for sentence in sentences]
    effects = row.cards["toxicity"]["disturbances"]
    assert set(effects) == set(DISTURBANCES)
    old, new = (np.array([probability(text, "toxicity") for text in row]) for row in (texts, map(str.upper, texts)))
    assert effects["upper case"]["mean_change"] == pytest.approx((new - old).mean(), abs=1e-6)
    assert effects["upper case"]["flips"]["value"] == pytest.approx(((new > 0.5) != (old > 0.5)).mean())
    assert row.texts_a_second > 0
    assert "core" in row.machine


@pytest.mark.slow
def test_of_a_very_large_set_a_sample_is_calibrated_and_the_page_says_so(client, living, sentences, monkeypatch):
    monkeypatch.setattr(calibrations, "MOST_CALIBRATED", 50)
    calibrate()
    row = Calibration.objects.get()
    scores = calibrations.load_calibration_scores(row)
    assert len(scores.texts) == row.artefact.rows == row.cards["insult"]["whole"]["n"] == 50
    every_id = [sentence.id for sentence in sentences]
    assert list(scores.texts.ids) == sorted(scores.texts.ids, key=every_id.index)
    expected = np.array([probability(text, "insult") for text in scores.texts.texts], dtype=np.float32)
    np.testing.assert_array_equal(scores.values["insult"], expected)
    assert f"50 texts, a sample of {TEXTS} by a fixed seed" in said(page(client, f"/scorers/{NAME}/"))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["never kept", "deleted"])
def test_a_calibration_without_its_scores_is_made_again_and_readers_keep_the_card(client, living, stage, loss):
    calibrate()
    row = Calibration.objects.get()
    if loss == "deleted":
        default_storage.delete(row.artefact.storage_name)
        assert not artefacts.is_whole(row.artefact)
    else:
        Calibration.objects.update(artefact=None)
    calibrations.request_missing()
    again = Calibration.objects.get()
    assert (again.pk, again.state) == (row.pk, Work.State.QUEUED)
    assert len(table(page(client, "/scorers/"), "Report cards on Starter set")) == 2
    (card,) = client.get(f"/api/v1/scorers/{NAME}").json()["calibrations"]
    assert (card["set"], card["finished_at"]) == (str(Calibration.objects.get().evaluation_set), None)
    tasks.calibrate_scorer(row.pk)
    again.refresh_from_db()
    assert (again.state, again.artefact, again.cards) == (Work.State.DONE, row.artefact, row.cards)
    calibrations.request_missing()
    assert not Calibration.objects.unfinished().exists()


@pytest.mark.slow
def test_scores_that_were_left_on_another_board_are_not_made_again(living):
    calibrate()
    Artefact.objects.filter(calibrations__isnull=False).update(state=Artefact.State.ABSENT)
    calibrations.request_missing()
    assert not Calibration.objects.unfinished().exists()


@pytest.mark.slow
def test_nothing_is_calibrated_before_a_scorer_ran_here(db, tmp_path, sentences):
    small_metric(tmp_path)
    seed_figures()  # published ones name scorers that nobody has here
    import_sentences(get("starter"), sentences)
    calibrations.request_missing()
    assert not Calibration.objects.exists()


@pytest.mark.slow
def test_a_scorer_that_is_down_fails_the_calibration_with_its_words_and_a_retry_makes_it(living, stage):
    stage.down = True
    calibrations.request_missing()
    row = Calibration.objects.get()
    for _ in range(12):
        Calibration.objects.update(not_before=None)
        if Calibration.objects.unclaimed().exists():
            tasks.calibrate_scorer(row.pk)
    row.refresh_from_db()
    assert "the stand-in is down" in row.reason
    assert not row.cards
    stage.down = False
    if row.state == Work.State.FAILED:
        calibrations.request_calibration(row.metric_version, row.evaluation_set, send=False)
    Calibration.objects.update(not_before=None)
    tasks.calibrate_scorer(row.pk)
    row.refresh_from_db()
    assert (row.state, set(row.cards)) == (Work.State.DONE, {"toxicity", "insult"})


def test_workers_are_told_of_a_calibration_at_once(living, monkeypatch, django_capture_on_commit_callbacks):
    messages: list[Calibration] = []
    monkeypatch.setattr(calibrations, "enqueue", messages.append)
    with django_capture_on_commit_callbacks(execute=True):
        calibrations.request_missing()
    assert messages == [Calibration.objects.get()]


@pytest.mark.slow
def test_what_a_scorer_answered_is_not_kept_beyond_the_calibration(living, settings):
    calibrations.request_missing()
    row = Calibration.objects.get()
    replies = Path(settings.VAR, "replies", f"calibration-{row.pk}")
    replies.mkdir(parents=True)
    tasks.calibrate_scorer(row.pk)
    assert not replies.exists()
    assert not Path(default_storage.path(f"shards/calibration-{row.pk}")).exists()


@pytest.mark.slow
def test_a_worker_killed_while_it_scores_costs_a_shard(living, stage, settings, sentences):
    settings.SHARD_SCORES = 40
    calibrations.request_missing()
    row = Calibration.objects.get()
    stage.asked.clear()
    stage.kill_after = 2
    with pytest.raises(Killed):
        tasks.calibrate_scorer(row.pk)
    Calibration.objects.update(lease_expires_at=from_now(-1))
    tasks.calibrate_scorer(row.pk)
    row.refresh_from_db()
    assert row.state == Work.State.DONE
    texts = [sentence.text for sentence in sentences]
    assert sum(stage.asked) == len({*texts, *chain.from_iterable(disturb_texts(texts).values())}) == row.done


@pytest.mark.slow
def test_a_scorer_of_likelihoods_or_a_set_without_labels_is_refused(living):
    version = MetricVersion.objects.get()
    prompts = EvaluationSet.objects.get(slug="ten-prompts")
    with pytest.raises(Refused, match="set = 'ten-prompts': it holds no labelled texts"):
        calibrations.request_calibration(version, prompts)


@pytest.mark.slow
def test_the_command_says_how_right_the_scorer_is(living):
    output = StringIO()
    call_command("calibrate", SLUG, stdout=output)
    card = Calibration.objects.get().cards["toxicity"]
    area = card["whole"]["roc_auc"]
    assert f"starter v1, toxicity: ROC AUC {area['value']:.3f} [{area['low']:.3f}" in output.getvalue()
    with pytest.raises(CommandError, match="there are no such labelled texts here; known: starter"):
        call_command("calibrate", SLUG, "--set", "nothing", stdout=StringIO())


@pytest.mark.slow
def test_the_command_leaves_a_calibration_to_the_worker_that_makes_it(living):
    calibrations.request_missing()
    row = Calibration.objects.get()
    problem = ""
    with claim(row) as lease:  # which takes what is raised within it for its own
        try:
            call_command("calibrate", SLUG, stdout=StringIO())
        except CommandError as error:
            problem = str(error)
        assert row.is_held(lease.id)
    assert problem.endswith("Running")


@pytest.mark.slow
def test_the_pages_show_the_report_card_by_demographic_length_and_score(client, living):
    assert "No scorer has been calibrated yet" in page(client, "/scorers/")
    assert "It has no report card yet" in page(client, f"/scorers/{NAME}/")
    calibrate()
    card = Calibration.objects.get().cards["insult"]
    rows = {row[1]: row for row in table(page(client, "/scorers/"), "Report cards on Starter set")}
    assert rows["Insult"][2].startswith(f"{card['whole']['roc_auc']['value']:.3f}")
    html = page(client, f"/scorers/{NAME}/?card=starter/insult")
    by_demographic = {row[0]: row[1:] for row in table(html, "By demographic")}
    assert set(by_demographic) >= {"Women", "Native American"}
    assert by_demographic["Women"][0] == str(card["groups"]["women"]["about_it"]["n"])
    assert by_demographic["Women"][2].startswith(f"{card['groups']['women']['bpsn_auc']['value']:.3f}")
    assert len(table(html, "Reliability")) == len(card["reliability"])
    assert len(table(html, "By length")) == len(card["lengths"])
    assert "labelled above 0.5" in said(html)
    chart = client.get(f"/scorers/{NAME}/?card=starter/insult&chart=reliability&format=json")
    assert json.loads(chart.content)["data"]
    assert client.get(f"/scorers/{NAME}/?card=starter/kindness").status_code == 404
    assert client.get("/scorers/nobody/").status_code == 404


def test_a_reliability_diagram_joins_its_bins_and_the_diagonal():
    bins = [(0.1, 0.2), (0.4, 0.3), (0.8, 0.9)]
    card = {"reliability": [{"mean_score": x, "harmful": {"n": 1_000, "value": y}} for x, y in bins]}
    chart = reliability_chart(SimpleNamespace(title="A scorer"), card)
    assert [(spot.x, spot.y) for spot in marks(chart, Spot)][:3] == bins
    assert marks(chart, Spot)[0].title == "1,000 texts, mean score 0.10: 20% harmful"
    assert [list(zip(one.x, one.y, strict=True)) for one in marks(chart, Line)] == [bins, [(0, 0), (1, 1)]]


@pytest.mark.slow
def test_other_pages_lead_to_the_scorer(client, living):
    assert f'href="/scorers/{NAME}/"' in page(client, f"/metrics/{SLUG}/")
    assert 'href="/scorers/"' in page(client, "/drift/")
    assert re.search(r"<loc>http://[^<]*/scorers/</loc>", page(client, "/sitemap.xml"))


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow_with_scorers_and_cards(client, living, tmp_path, sentences):
    calibrate()

    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            page(client, "/scorers/")
        return len(queries)

    queries_before = count()
    second = small_metric(tmp_path, slug="toxicity-second", scorer="profanity")
    submit(entrant(2, second), second)
    import_sentences(get("implicit-hate"), sentences[: TEXTS // 2])
    calibrate()
    assert Calibration.objects.filter(state="done").count() == 4
    assert count() <= queries_before


@pytest.mark.slow
def test_a_report_card_corrects_the_toxic_fractions_of_the_scorer_that_it_is_of(client, living):
    address = f"/metrics/{SLUG}/corrected/"
    assert "Nothing can be corrected here" in said(page(client, address))
    calibrate()
    whole = Calibration.objects.get().cards["toxicity"]["whole"]
    (rates,) = table(page(client, address), "Error rates")
    assert rates[1:5:2] == [str(whole["false_negatives"]["n"]), str(whole["false_positives"]["n"])]
    assert rates[2] == f"{100 * (1 - whole['false_negatives']['value']):.1f}%"
    assert rates[4] == f"{100 * (1 - whole['false_positives']['value']):.1f}%"
