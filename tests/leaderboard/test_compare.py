"""The page that compares models: values, paired differences with a verdict in words, and whom to add."""

import math
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from scipy import stats

from leaderboard.models import LanguageModel, Metric, MetricVersion, OutdatedEntry, Result, Scoring, Standing, Work
from leaderboard.rankings.intervals import FROM_COUNTS, NONE_FOR_AVERAGES
from leaderboard.services import artefacts
from leaderboard.services.evaluate import request_evaluation
from tests.charts import points, read_chart, stretches
from tests.leaderboard import living
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL
from tests.leaderboard.test_history import model, page, profanity, said, table, version_of

__all__ = ["profanity"]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lasting_board")]

MOST_QUERIES = 13
BOTH = f"/compare/?m={CAUSAL}&m={OTHER_CAUSAL}"
PUBLISHED = "/compare/?m=hosseini-2023-gpt-2&m=hosseini-2023-bert-large-uncased&m=hosseini-2023-albert-base-v2"
VALUES, PAIRS, SLICES = "Table of values", "Table of differences", "Table by slice"


def refused(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 404
    return said(response.content.decode())


def scores(scoring: Scoring) -> np.ndarray:
    return np.array(artefacts.load(scoring.artefact)["log_perplexity"].to_pylist(), dtype=float)


def delong(harmful: np.ndarray, one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The difference of two areas and its standard error, from every pair of texts."""
    x, y = np.flatnonzero(harmful), np.flatnonzero(~harmful)
    won = [np.where(s[x][:, None] > s[y], 1.0, np.where(s[x][:, None] == s[y], 0.5, 0.0)) for s in (one, other)]
    contrast = won[0] - won[1]
    error = contrast.mean(axis=1).var(ddof=1) / len(x) + contrast.mean(axis=0).var(ddof=1) / len(y)
    return float(contrast.mean()), math.sqrt(error)


def test_the_difference_of_two_models_on_a_demographic_is_delongs_on_the_texts_that_are_kept(client, board):
    html = page(client, f"{BOTH}&slice=women")
    version = board.current_version()
    texts = artefacts.load(version.protocol.evaluation_set.artefact)
    harmful = np.array(texts["harmful"].to_pylist())
    women = np.array(["women" in of for of in texts["demographics"].to_pylist()])
    names = [row[0] for row in table(html, VALUES)]
    found = [version.scorings.get(model__name=name) for name in names]
    one, other = (scores(of)[women] for of in found)
    value, error = delong(harmful[women], one, other)
    low, high = stats.norm(value, error).interval(0.95)
    p = 2 * stats.norm.sf(abs(value) / error)
    ((first, second, difference, interval, raw, holm, verdict),) = table(html, PAIRS)
    assert [first, second] == names
    assert difference == f"{value:.3f}"
    assert interval == f"{low:.3f} to {high:.3f}".replace("-", "−")
    assert raw == holm == ("< 0.001" if p < 0.001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}")
    assert verdict == ("told apart" if p < 0.05 else "cannot be told apart")
    sentence = (
        f"{first} scores less harmful than {second} on this measure"
        if p < 0.05
        else f"{first} and {second} cannot be told apart"
    )
    assert sentence in said(html)
    assert f"difference {difference} ({interval})" in said(html)


def test_values_are_those_of_the_ranking_with_interval_rank_and_n(client, board):
    html = page(client, BOTH)
    for name, value, interval, rank, kind, n, missing, _ in table(html, VALUES):
        standing = Standing.objects.select_related("result").get(
            model__name=name, measure="likelihood_auc", slice="average", population="causal"
        )
        result = standing.result
        assert value == f"{result.value:.3f}"
        assert interval == f"{result.ci_low:.3f}–{result.ci_high:.3f}"
        assert rank == f"{standing.rank} {standing.rank_low}–{standing.rank_high} of 2 causal models"
        assert (kind, n, missing) == ("Causal", str(result.n), str(result.missing))


def test_three_models_make_three_pairs_whose_p_is_adjusted_over_the_three(client, board):
    html = page(client, f"{BOTH}&m={MASKED}")
    rows = table(html, PAIRS)
    assert len(rows) == 3
    values = {row[0]: float(row[1]) for row in table(html, VALUES)}
    assert all(values[row[0]] >= values[row[1]] for row in rows), "the better one stands first"
    raw, adjusted = ([0.0 if "<" in row[place] else float(row[place]) for row in rows] for place in (4, 5))
    for p, holm in zip(raw, adjusted, strict=True):
        assert p <= holm + 1e-9
        assert holm <= min(1, 3 * p) + 0.005
    assert "Causal and Masked models side by side" in said(html)
    assert len(points(read_chart(client, html))) == len(table(html, PAIRS))


def test_each_slice_has_all_values_and_differences(client, board):
    html = page(client, f"{BOTH}&m={MASKED}")
    rows = table(html, SLICES)
    assert [row[0] for row in rows] == ["Average", "Latino", "Muslim", "Women"]
    assert all(len(row) == 1 + 3 + 3 for row in rows)
    women = rows[3]
    names = [row[0] for row in table(html, VALUES)]
    for cell, name in zip(women[1:4], names, strict=True):
        result = Result.objects.get(scoring__model__name=name, measure="likelihood_auc", slice="women")
        assert cell == f"{result.value:.3f} {result.ci_low:.3f}–{result.ci_high:.3f}"
    alone = table(page(client, f"{BOTH}&m={MASKED}&slice=women"), PAIRS)
    shown = {re.match(r"−?[\d.]+", cell)[0].lstrip("−") for cell in women[4:]}
    assert shown == {row[2] for row in alone}


def test_the_chart_has_the_differences_of_the_table(client, board):
    html = page(client, f"{BOTH}&m={MASKED}")
    figure = read_chart(client, html)
    drawn = sorted(round(x, 3) for x, _ in points(figure))
    assert drawn == sorted(float(row[2].replace("−", "-")) for row in table(html, PAIRS))
    assert [stretch[0][0] for stretch in stretches(figure, "dot")] == [0]


def test_published_figures_are_set_side_by_side_without_a_test_and_the_page_says_why(client, board):
    html = page(client, f"{PUBLISHED}&metric=safety-toxigen")
    assert [row[0] for row in table(html, VALUES)] == ["ALBERT-base-v2", "GPT-2", "BERT-large-uncased"]
    assert "no difference can be tested" in said(html)
    assert PAIRS not in html
    assert table(html, SLICES)[0][0] == "Average"
    assert len(points(read_chart(client, html))) == 3
    assert "told apart" not in said(html).split("How to read this")[0]
    assert NONE_FOR_AVERAGES in said(html)
    assert FROM_COUNTS in said(page(client, f"{PUBLISHED}&metric=safety-toxigen&measure=safety_score&slice=women"))


@pytest.mark.slow
def test_a_model_without_a_scoring_is_said_with_the_reason(client, board, models):
    absent = next(of for of in models.values() if of.name not in (CAUSAL, OTHER_CAUSAL, MASKED))
    address = f"{BOTH}&m={absent.slug}&m=hosseini-2023-gpt-2&metric=safety-starter"
    rows = {row[0]: row[1] for row in table(page(client, address), VALUES)}
    assert "not evaluated on this metric" in rows[absent.name]
    assert "published figures only" in rows["GPT-2"]
    scoring = request_evaluation(absent, board, send=False)
    assert "waiting" in {row[0]: row[1] for row in table(page(client, address), VALUES)}[absent.name]
    Scoring.objects.filter(pk=scoring.pk).update(state=Work.State.FAILED, reason="out of memory")
    assert "out of memory" in {row[0]: row[1] for row in table(page(client, address), VALUES)}[absent.name]
    last = Scoring.objects.filter(state=Work.State.DONE).first()
    versions = MetricVersion.objects.exclude(pk=board.current_version().pk)
    OutdatedEntry.objects.create(metric_version=versions[0], model=absent, last_scoring=last, reason="it was lost once")
    assert "out of memory" in {row[0]: row[1] for row in table(page(client, address), VALUES)}[absent.name]
    OutdatedEntry.objects.create(
        metric_version=board.current_version(), model=absent, last_scoring=last, reason="its artefact is gone"
    )
    assert "its artefact is gone" in {row[0]: row[1] for row in table(page(client, address), VALUES)}[absent.name]


def test_a_withdrawn_model_has_no_value(client, board):
    LanguageModel.objects.filter(name=CAUSAL).update(access=LanguageModel.Access.WITHDRAWN)
    html = page(client, f"{BOTH}&metric=safety-starter")
    assert "withdrawn" in {row[0]: row[1] for row in table(html, VALUES)}[CAUSAL]
    assert f"Only {OTHER_CAUSAL} has a value here" in said(html)


def test_without_models_the_first_of_the_ranking_are_offered(client, board):
    html = page(client, "/compare/?metric=safety-starter")
    assert "Choose two to six models" in said(html)
    assert f'href="?m={CAUSAL}&amp;metric=safety-starter' in html
    assert "rank 1 of 2 causal models" in said(html)
    leading = Standing.objects.filter(
        metric_version=board.current_version(), measure=board.measure, slice="average", population="causal", rank_low=1
    ).count()
    assert ("leading group" in said(html)) is (leading == 1), "nobody leads where both are alike"


def test_with_one_model_another_is_asked_for_and_offered(client, board):
    html = page(client, f"/compare/?m={CAUSAL}")
    assert f"Choose one more model to compare {CAUSAL} with" in said(html)
    assert f'href="?m={CAUSAL}&amp;m={OTHER_CAUSAL}&amp;' in html
    assert f'href="?m={CAUSAL}&amp;m={CAUSAL}&amp;' not in html
    assert MASKED not in html, "numbers of other kinds are different quantities: offered on search only"


def test_a_search_offers_models_by_name_as_links(client, board):
    html = page(client, f"/compare/?m={CAUSAL}&q=BERT")
    assert f"?m={CAUSAL}&amp;m={MASKED}&amp;" in html
    assert "1 model of" in said(html)
    assert "No other model ranked on" in said(page(client, f"/compare/?m={CAUSAL}&q=zebra"))


@pytest.mark.slow
def test_every_link_of_the_page_leads_somewhere(client, board):
    html = page(client, BOTH)
    links = {unescape(of) for of in re.findall(r'href="(\?[^"]*)"', html)}
    assert len(links) == 2 + 3, "of models, and files of the chart"
    for of in links:
        assert client.get(f"/compare/{of}").status_code == 200


def test_seven_models_are_too_many_and_each_can_be_taken_out(client, board):
    slugs = list(LanguageModel.objects.filter(slug__startswith="hosseini").values_list("slug", flat=True)[:7])
    html = page(client, "/compare/?" + "&".join(f"m={slug}" for slug in slugs))
    assert "7 models are chosen, and 6 fit side by side" in said(html)
    assert VALUES not in html
    assert html.count("Take out<") == 7


def test_more_models_than_a_page_lists_are_refused_by_their_number(client, board):
    LanguageModel.objects.bulk_create(
        LanguageModel(slug=f"made-{number}", name=f"Made {number}", kind="causal", source="uploaded")
        for number in range(51)
    )
    addresses = [f"/compare/?{'&'.join(f'm=made-{number}' for number in range(count))}" for count in (50, 51)]
    assert "50 models are chosen, and 6 fit side by side" in said(page(client, addresses[0]))
    assert "m names 51 models: name 50 at most, of which 6 fit side by side" in refused(client, addresses[1])


def test_what_does_not_exist_is_refused_with_a_sentence(client, board):
    assert "m = 'nobody'" in refused(client, f"{BOTH}&m=nobody")
    assert "metric = 'nothing'" in refused(client, f"{BOTH}&metric=nothing")
    assert "version = '9'" in refused(client, f"{BOTH}&version=9")
    assert "measure = 'beauty'" in refused(client, f"{BOTH}&measure=beauty")
    assert "slice = 'martians'" in refused(client, f"{BOTH}&slice=martians")


def test_choosing_another_metric_in_the_form_drops_what_the_old_one_had(client, board):
    html = page(client, f"{BOTH}&of=safety-starter&metric=safety-toxigen&version=1&measure=safety_score&slice=women")
    assert "Average" in said(html.split("verdict-title", 1)[1])
    other = page(client, f"{BOTH}&of=safety-starter&metric=toxicity-profanity&measure=safety_score&slice=women")
    assert "has no numbers yet" in said(other)


@pytest.mark.slow
def test_a_model_named_twice_counts_once(client, board):
    twice, once = (page(client, path) for path in (f"/compare/?m={CAUSAL}&m={CAUSAL}&m={OTHER_CAUSAL}", BOTH))
    assert twice.split("<main")[1].split("<figure")[0] == once.split("<main")[1].split("<figure")[0]
    assert table(twice, PAIRS) == table(once, PAIRS)


def test_a_damaged_file_is_said(client, board):
    scoring = board.current_version().scorings.get(model__name=CAUSAL)
    with living.lost(scoring.artefact):
        html = page(client, BOTH)
    assert "damaged or gone" in said(html)
    assert PAIRS not in html
    assert len(table(html, VALUES)) == 2


@pytest.mark.slow
def test_measures_of_continuations_are_tested_by_resamples_of_the_same_prompts(client, tmp_path: Path):
    with living.standing_in():
        metric = living.small_metric(tmp_path)
        entrants = [living.entrant(number, metric) for number in (1, 2, 3)]
        for of in entrants:
            living.submit(of, metric)
    address = "/compare/?" + "&".join(f"m={of.slug}" for of in entrants) + "&measure=mean_toxicity"
    html = page(client, address)
    name = "toxicity:all"
    replicates, values = {}, {}
    for scoring in metric.current_version().scorings.all():
        kept = artefacts.load(scoring.replicates)
        keys = list(zip(kept["measure"].to_pylist(), kept["slice"].to_pylist(), strict=True))
        replicates[scoring.model.name] = np.array(kept["values"][keys.index(("mean_toxicity", name))].as_py())
        values[scoring.model.name] = scoring.results.get(measure="mean_toxicity", slice=name).value
    rows = table(html, PAIRS)
    assert len(rows) == 3
    for first, second, difference, interval, *_ in rows:
        assert values[first] <= values[second], "lower is less harmful"
        value = values[second] - values[first]
        error = np.std(replicates[second] - replicates[first], ddof=1)
        assert difference == f"{value:.4f}"
        assert interval == f"{value - 1.96 * error:.4f} to {value + 1.96 * error:.4f}".replace("-", "−")


def test_entries_whose_texts_are_not_kept_are_not_tested(client, profanity):
    version_of(profanity, {"Alpha": 0.1, "Beta": 0.2, "Gamma": 0.3})
    html = page(client, "/compare/?m=alpha&m=beta&m=gamma")
    assert "of Alpha, Beta, Gamma are not there, or of too few texts: no difference can be tested" in said(html)
    assert [row[0] for row in table(html, VALUES)] == ["Alpha", "Beta", "Gamma"]


def count(client, address: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        page(client, address)
    return len(queries)


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow_with_the_board_or_the_choice(client, board, models):
    two, three = count(client, BOTH), count(client, f"{BOTH}&m={MASKED}")
    for number in range(30):
        model(f"Other {number}")
    version_of(
        Metric.objects.get(slug="toxicity-profanity"), {f"Other {number}": 0.01 * number for number in range(30)}
    )
    assert two == three == count(client, BOTH) <= MOST_QUERIES
    assert count(client, "/compare/") <= MOST_QUERIES
    assert count(client, "/compare/?m=other-1&m=other-2&m=other-3&m=other-4&m=other-5&m=other-6") <= MOST_QUERIES


@pytest.mark.slow
def test_a_thousand_models_do_not_make_the_page_large(client, profanity):
    version_of(profanity, {f"Model {number:04}": number / 1000 for number in range(1000)})
    html = page(client, "/compare/?m=model-0001&q=model")
    assert "999 models of" in said(html)
    assert html.count("rank ") < 40
    assert len(html) < 40_000
