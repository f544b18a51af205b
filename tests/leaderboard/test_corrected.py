"""Toxic fractions corrected for the scorer's error rates: estimates beside raw values, by the report card that fits."""

import csv
import io

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import Calibration, EvaluationSet, Result, Standing
from leaderboard.services.evaluation_sets import import_sentences
from leaderboard.services.publish import publish_standings
from scoring.evaluation_sets import build_starter, get
from scoring.statistics.misclassification import ErrorRates, correct_share
from tests.leaderboard.approved_board import compare_pages
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.ranks import ranked
from tests.leaderboard.stored import metric_of, run_of, runs_on, score_all, score_one, version_of
from tests.leaderboard.test_history import page, said, table

pytestmark = pytest.mark.django_db

RANKING = "/rankings/?metric=rude&measure=toxic_fraction"
CORRECTED = "/metrics/rude/corrected/"
RATES = ErrorRates(0.8, 0.95, 400, 600)


def card(rates: ErrorRates, threshold: float = 0.5) -> dict[str, object]:
    """What a correction reads of a report card."""
    shares = {
        "false_negatives": (1 - rates.sensitivity, rates.harmful),
        "false_positives": (1 - rates.specificity, rates.benign),
    }
    whole = {name: {"value": value, "low": 0, "high": 1, "n": n} for name, (value, n) in shares.items()}
    return {"threshold": threshold, "whole": whole}


def calibrate(version, slug: str, cards: dict[str, object], fingerprint: str = "") -> Calibration:
    """A report card of the version's scorer on a labelled set."""
    texts = EvaluationSet.objects.filter(slug=slug).first() or import_sentences(get(slug), build_starter()[:40])[0]
    return Calibration.objects.create(
        metric_version=version,
        evaluation_set=texts,
        state="done",
        fingerprint=fingerprint or version.scorer_fingerprint,
        cards=cards,
    )


@pytest.fixture
def rude(db):
    """Four models under one scorer, whose mildest is labelled rarely."""
    metric = metric_of("rude", "profanity")
    score_all(version_of(metric, "one"), runs_on(metric), {"profanity": lambda x: x})
    return metric


@pytest.fixture
def calibrated(rude):
    calibrate(rude.versions.get(), "starter", {"profanity": card(RATES)})
    return rude


def rows_of(metric):
    return ranked(metric, measure="toxic_fraction", name="profanity:all")


def test_the_estimate_is_that_of_the_raw_value_its_interval_and_the_report_card(calibrated):
    rows = rows_of(calibrated)
    assert any(row.corrected.share for row in rows)
    for row in rows:
        result = row.result
        if row.corrected.share:
            assert row.corrected.share == correct_share(result.value, result.ci_low, result.ci_high, RATES)
        else:
            assert row.corrected.reason


def test_raw_values_ranks_and_what_is_stored_stay_as_they_were(rude):
    def stored() -> tuple[list, list]:
        standings = Standing.objects.order_by("pk").values_list("model", "measure", "slice", "rank", "value")
        return list(standings), list(Result.objects.order_by("pk").values_list("measure", "slice", "value"))

    before, rows_before = stored(), [(row.rank, row.model.slug, row.result.value) for row in rows_of(rude)]
    calibrate(rude.versions.get(), "starter", {"profanity": card(RATES)})
    assert [(row.rank, row.model.slug, row.result.value) for row in rows_of(rude)] == rows_before
    assert stored() == before


def test_other_measures_have_none(calibrated):
    assert all(row.corrected is None for row in ranked(calibrated, measure="toxicity_probability"))
    assert all(row.corrected is None for row in ranked(calibrated, measure="toxic_fraction_unique"))


@pytest.mark.slow_cases
@pytest.mark.parametrize(
    ("cards", "fingerprint"),
    [
        ({"profanity": card(RATES, threshold=0.7)}, ""),
        ({"another": card(RATES)}, ""),
        ({"profanity": card(RATES)}, "f" * 64),
        ({"profanity": {"threshold": 0.5, "whole": {"false_negatives": None, "false_positives": None}}}, ""),
    ],
)
def test_a_report_card_of_another_scorer_threshold_or_attribute_corrects_nothing(client, rude, cards, fingerprint):
    calibrate(rude.versions.get(), "starter", cards, fingerprint)
    assert {row.corrected.share for row in rows_of(rude)} == {None}
    assert "No estimate corrected for the scorer's errors" in said(page(client, RANKING))
    assert "Nothing can be corrected here" in said(page(client, CORRECTED))


def test_the_ranking_marks_the_estimate_names_the_set_and_says_what_it_rests_on(client, calibrated):
    words = said(page(client, RANKING))
    assert "est. ≈" in words
    assert "it labels 80.0% of 400 harmful ones and leaves 95.0% of 600 benign ones" in words
    assert "Those are no continuations" in words
    assert "Ranks are of raw values." in words
    assert "It is marked ≈, stands beside the raw value, and is not ranked by." in words
    tables = client.get(f"/rankings.markdown{RANKING[10:]}").content.decode()
    assert "corrected" in tables.splitlines()[2]


@pytest.mark.slow
def test_the_page_sets_raw_and_corrected_side_by_side_by_each_labelled_set(client, calibrated):
    small = ErrorRates(0.9, 0.9, 50, 50)
    calibrate(calibrated.versions.get(), "implicit-hate", {"profanity": card(small)})
    html = page(client, CORRECTED)
    rates = table(html, "Error rates")
    assert [row[1] for row in rates] == ["400", "50"]
    assert "used below" in rates[0][0]
    by_model = {row[1]: row[3] for row in table(html, "Raw and corrected")}
    (row,) = [row for row in rows_of(calibrated) if row.model.slug == "damson"]
    assert by_model["Damson"].startswith(f"≈ {row.corrected.share.value:.4f}")
    other = {row[1]: row[3] for row in table(page(client, f"{CORRECTED}?set=implicit-hate"), "Raw and corrected")}
    assert other != by_model
    assert client.get(f"{CORRECTED}?set=nothing").status_code == 404
    assert client.get(f"{CORRECTED}?slice=nothing").status_code == 404
    assert 'href="/metrics/rude/corrected/"' in page(client, "/metrics/rude/")


@pytest.mark.slow
@pytest.mark.either_database
def test_the_pages_of_a_corrected_share_say_what_was_approved(client, calibrated):
    calibrate(calibrated.versions.get(), "implicit-hate", {"profanity": card(ErrorRates(0.9, 0.9, 50, 50))})
    compare_pages(client, CORRECTED, f"{CORRECTED}?set=implicit-hate", "/metrics/rude/corrected.csv", RANKING)


def test_the_page_says_why_where_error_rates_correct_nothing(client, rude):
    calibrate(rude.versions.get(), "starter", {"profanity": card(ErrorRates(0.5, 0.5, 400, 400))})
    assert "sensitivity and specificity together cannot be told from chance" in said(page(client, CORRECTED))
    words = said(page(client, RANKING))
    assert "No estimate (no est.) where sensitivity and specificity together cannot be told from chance." in words


@pytest.mark.slow
def test_figures_of_papers_and_metrics_without_such_a_share_have_no_such_page(client, db):
    seed_figures()
    assert client.get("/metrics/rtp-perspective/corrected/").status_code == 404
    assert client.get("/metrics/safety-toxigen/corrected/").status_code == 404
    assert client.get("/metrics/nothing/corrected/").status_code == 404
    assert "/metrics/rtp-perspective/corrected/" not in page(client, "/metrics/rtp-perspective/")


def test_files_and_the_api_have_the_estimates_with_their_set(client, calibrated):
    by_slug = {row.model.slug: row.corrected for row in rows_of(calibrated)}
    rows = csv.DictReader(io.StringIO(client.get(f"/rankings.csv{RANKING[10:]}").content.decode()))
    for row in rows:
        share = by_slug[row["slug"]].share
        assert row["corrected"] == (f"{share.value:.6g}" if share else "")
        assert row["corrected_by"] == ("starter v1" if share else "")
    body = client.get("/api/v1/metrics/rude/standings?measure=toxic_fraction").json()
    for item in body["items"]:
        share = by_slug[item["slug"]].share
        assert item["corrected"]["value"] == (share and pytest.approx(share.value))
        assert item["corrected"]["set"] == "starter v1"
    assert client.get("/api/v1/metrics/rude/standings").json()["items"][0]["corrected"] is None
    file = list(csv.DictReader(io.StringIO(client.get("/metrics/rude/corrected.csv").content.decode())))
    assert {row["corrected_by"] for row in file} == {"starter v1"}
    assert all(bool(row["corrected"]) != bool(row["reason"]) for row in file)


@pytest.mark.slow
def test_queries_do_not_grow_with_models_or_labelled_sets(client, calibrated):
    def count() -> list[int]:
        numbers = []
        for address in (RANKING, CORRECTED):
            with CaptureQueriesContext(connection) as queries:
                page(client, address)
            numbers.append(len(queries))
        return numbers

    before = count()
    version = calibrated.versions.get()
    calibrate(version, "implicit-hate", {"profanity": card(RATES)})
    for number, name in enumerate(("Elm", "Fir"), 4):
        score_one(version, run_of(name, calibrated), number, {"profanity": np.sqrt})
    publish_standings(version)
    assert count() == before
