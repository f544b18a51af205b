"""A safety score is read beside what the model would have if it were indifferent: digits, ticks, shades and files."""

import csv
import io
import json
import re
import statistics

import numpy as np
import pytest
from scipy import stats

from leaderboard.models import Result
from leaderboard.services.published import rows as published_rows
from scoring.metrics.safety import LIMITS, MEASURES
from tests.charts import read_chart, stretches, traces
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL
from tests.leaderboard.test_rankings import page, said

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]

SCORE = "/rankings/?metric=safety-starter&measure=safety_score&provenance=measured"
PAPER = "safety-toxigen"


def own(name: str, slice_: str = "average") -> float:
    """What the model would have if it were indifferent."""
    return Result.objects.get(scoring__model__name=name, measure="safety_indifferent", slice=slice_).value


def cells(html: str, name: str) -> str:
    """The row of a model in the first table that has it."""
    return next(row for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL) if f">{name}</a>" in row)


def test_the_ranking_has_it_beneath_the_value_and_as_a_tick_in_the_whisker(client, board):
    html = page(client, SCORE)
    for name in (CAUSAL, OTHER_CAUSAL, MASKED):
        row = cells(html, name)
        assert f", if indifferent {own(name):.3f}" in said(row).replace("┆ ", "")
        start, end = map(float, re.search(r"<span>([\d.]+)</span>.*? to .*?<span>([\d.]+)</span>", html).groups())
        tick = float(re.search(r'whisker-neutral" x1="([\d.]+)"', row)[1])
        assert tick == pytest.approx(100 * (own(name) - start) / (end - start), abs=0.06)
        value = float(re.search(r'class="num value">([\d.]+)', row)[1])
        assert float(re.search(r'whisker-value" x1="([\d.]+)"', row)[1]) == pytest.approx(
            100 * (value - start) / (end - start), abs=100 * 0.0006 / (end - start)
        ), "the value's own mark, where its digits say"
    assert "as a tick in its whisker" in said(html)
    assert "if indifferent" not in page(client, SCORE.replace("safety_score", "likelihood_auc"))


def test_a_measure_that_may_be_negative_has_its_zero_in_the_middle(client, board):
    html = page(client, SCORE.replace("safety_score", "safety_excess"))
    assert re.search(r"<span>−([\d.]+)</span>.*?<span>\1</span>", html)
    assert set(re.findall(r'whisker-neutral" x1="([\d.]+)"', html)) == {"50.0"}


def test_the_heat_map_is_shaded_by_the_difference_and_the_boxes_have_ticks(client, board):
    html = page(client, "/demographics/?metric=safety-starter&measure=safety_score&kind=causal")
    part = html.split('aria-label="Table of models by demographic"')[1]
    step = float(re.search(r"Shades are steps of ([\d.]+) from what the model itself", said(html))[1])
    for name in (CAUSAL, OTHER_CAUSAL):
        row = cells(part, name).replace('<span class="mark">not sig.</span>', "")
        found = re.findall(r'heat heat-(-?\d)">([\d.]+)\s*<span class="indifferent">.*?</span>([\d.]+)</span>', row)
        assert len(found) == 4
        assert f"{own(name):.3f}" in {indifferent for _, _, indifferent in found}
        for level, value, indifferent in found:
            assert int(level) == pytest.approx((float(value) - float(indifferent)) / step, abs=0.55)
    ticks = [stretch[0][0] for stretch in stretches(read_chart(client, html), "dot")]
    medians = [statistics.median([own(CAUSAL, of), own(OTHER_CAUSAL, of)]) for of in ("latino", "muslim", "women")]
    assert sorted(ticks) == pytest.approx(sorted(medians), abs=1e-4)
    assert "If indifferent, median" in html


def test_the_models_page_has_a_tick_in_each_whisker_and_says_what_it_is(client, board):
    html = page(client, f"/models/{CAUSAL}/")
    assert "where this model would be if it were indifferent" in said(html)
    for name in ("average", "women"):
        assert f", if indifferent {own(CAUSAL, name):.3f}" in said(html).replace("┆ ", "")


def test_compare_draws_it_where_scores_are_drawn(client, board):
    version = Result.objects.filter(scoring__metric_version__metric__slug=PAPER)
    scorings = {of: version.filter(scoring__model__name=of).first().scoring for of in ("GPT-2", "DistilGPT-2")}
    Result.objects.filter(scoring__in=scorings.values(), measure="safety_indifferent", slice="average").delete()
    for number, scoring in enumerate(scorings.values()):
        Result.objects.create(scoring=scoring, measure="safety_indifferent", slice="average", value=0.3 + 0.01 * number)
    slugs = "&".join(f"m={of.model.slug}" for of in scorings.values())
    html = page(client, f"/compare/?metric={PAPER}&measure=safety_score&{slugs}")
    figure = read_chart(client, html)
    assert sorted(stretch[0][0] for stretch in stretches(figure, "dot")) == [0.3, 0.31]
    (spots,) = traces(figure, "points")
    assert sorted(title.split("; ")[1] for title in spots["hovertext"]) == [
        "if it were indifferent, 0.300",
        "if it were indifferent, 0.310",
    ]
    assert "If indifferent" in html
    assert "The dotted tick on each line" in said(html)
    assert "≈ 0.310" in html
    assert "≈ marks values that the source does not print" in said(html)
    entries = client.get(f"/rankings.json?metric={PAPER}&measure=safety_score").json()["entries"]
    marked = {row["slug"]: (row["indifferent"], row["indifferent_derived"], row["derived"]) for row in entries}
    assert marked[scorings["GPT-2"].model.slug] == (0.3, True, False)


def test_files_and_the_api_have_it_beside_the_interval(client, board):
    path = SCORE.removeprefix("/rankings/")
    rows = csv.DictReader(io.StringIO(client.get(f"/rankings.csv{path}").content.decode("utf-8-sig")))
    assert {row["slug"]: float(row["indifferent"]) for row in rows} == {
        of: own(of) for of in (CAUSAL, OTHER_CAUSAL, MASKED)
    }
    entries = json.loads(client.get(f"/rankings.json{path}").content)["entries"]
    items = client.get("/api/v1/metrics/safety-starter/standings?measure=safety_score").json()["items"]
    assert all(row["indifferent"] == own(row["slug"]) for row in [*entries, *items])
    auc = client.get("/api/v1/metrics/safety-starter/standings?measure=likelihood_auc").json()["items"]
    assert {row["indifferent"] for row in auc} == {0.5}


@pytest.mark.slow
def test_a_score_is_not_significant_where_its_distance_from_the_indifferent_value_is_not(client, board):
    """Versions of the first formula have a p of the score against 0.5, which an indifferent model would not have."""
    Result.objects.filter(measure="safety_score").update(p_value=0.9, p_adjusted=0.9)
    Result.objects.filter(measure="safety_excess").update(p_adjusted=0.01)
    assert 'class="ns"' not in page(client, SCORE)
    Result.objects.filter(measure="safety_excess", slice="women", scoring__model__name=CAUSAL).update(p_adjusted=0.9)
    assert cells(page(client, SCORE), CAUSAL).count('class="ns"') == 1
    assert 'class="ns"' not in cells(page(client, SCORE), OTHER_CAUSAL)
    html = page(client, f"/models/{CAUSAL}/")
    women = next(row for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL) if ">Women<" in row)
    assert said(women).count("p 0.90 ns") == 1, "of the excess; of the score nothing"


def test_what_is_said_of_the_24_published_models_follows_from_the_papers_tables(client, board):
    scores = {
        row["model"]: float(row["mean_safety_score_full"])
        for row in published_rows("safety_scores_toxigen_averages.csv")
        if row["over"] == "model"
    }
    moments: dict[str, dict[str, tuple[float, float]]] = {}
    for row in published_rows("log_perplexity.csv"):
        moments.setdefault(row["model"], {})[row["label"]] = float(row["mean"]), float(row["std"])
    assert len(scores) == len(moments) == 24
    score = np.array([scores[name] for name in moments])
    harmful, benign = (np.array([moments[name][label] for name in moments]).T for label in ("harmful", "benign"))
    spread = np.sqrt((harmful[1] ** 2 + benign[1] ** 2) / 2 + ((harmful[0] - benign[0]) / 2) ** 2)
    area = stats.norm.cdf((harmful[0] - benign[0]) / np.hypot(harmful[1], benign[1]))
    text = " ".join(LIMITS)
    assert f"the score correlates {stats.pearsonr(score, spread).statistic:.2f} with the spread" in text
    assert f"only {stats.spearmanr(score, area).statistic:.2f} (rank)" in text
    assert f"correlates {stats.pearsonr(score, spread).statistic:.2f} with the spread" in said(
        page(client, f"/metrics/{PAPER}/")
    )


@pytest.mark.slow
def test_spread_and_indifferent_value_are_among_the_axes_of_agreement(client, board):
    keys = ("log_perplexity_harmful_sd", "log_perplexity_benign_sd")
    assert MEASURES["safety_indifferent"].direction is None
    html = page(client, f"/agreement/?numbers=published&kind=all&add={PAPER}")
    offered = set(re.findall(r'<option value="([^"]*)">', html.split("Add measures of", 1)[1].split("</form>", 1)[0]))
    assert {f"{PAPER}/{key}/average" for key in keys} <= offered
    both = page(
        client, f"/agreement/?numbers=published&kind=all&c={PAPER}/safety_score/average&c={PAPER}/{keys[0]}/average"
    )
    assert "Pearson's r is 0.93" in said(both)
    measured = page(client, "/agreement/?numbers=measured&add=safety-starter")
    assert "safety-starter/safety_indifferent/average" in measured
