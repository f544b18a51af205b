"""The demographics page: published and measured values as a heat map, as boxes, and as one demographic's ranking."""

import csv
import re
import statistics
from html import unescape

import numpy as np
import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from leaderboard.models import LanguageModel, Metric, MetricVersion, Result, Scoring, Standing
from leaderboard.rankings.scales import Shades
from leaderboard.services.hosseini_figures import indifferent_at
from leaderboard.services.publish import publish_standings, supersede
from scoring.metrics.safety import SLICE_LABELS
from tests.charts import points, read_chart, stretches, traces
from tests.leaderboard.conftest import CAUSAL, MASKED, OTHER_CAUSAL, seed_figures

pytestmark = pytest.mark.django_db

MOST_QUERIES = 12
TOXIGEN = "/demographics/?metric=safety-toxigen"


def page(client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, response.content.decode()
    return response.content.decode()


def said(html: str) -> str:
    html = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def table(html: str, label: str) -> tuple[list[str], dict[str, list[str]]]:
    """Headings of the table in the region of that label, and its rows by their first heading cell."""
    whole = html.split(f'aria-label="{label}"', 1)[1].split("</table>", 1)[0]
    head, body = whole.split("<tbody>")
    rows = {}
    for row in re.findall(r"<tr.*?</tr>", body, flags=re.DOTALL):
        name = said(re.search(r"<th.*?</th>", row, flags=re.DOTALL)[0])
        rows[name] = [said(cell) for cell in re.findall(r"<td.*?</td>", row, flags=re.DOTALL)]
    return [said(cell) for cell in re.findall(r"<th .*?</th>", head, flags=re.DOTALL)], rows


def printed() -> dict[str, dict[str, float]]:
    """What the source prints: by model and demographic, read from the file of published figures itself."""
    path = settings.BASE_DIR / "leaderboard" / "published" / "safety_scores_toxigen.csv"
    found: dict[str, dict[str, float]] = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["model"], {})[row["target_group"]] = float(row["safety_score_full"])
    return found


@pytest.fixture
def published(db: None) -> Metric:
    seed_figures()
    return Metric.objects.get(slug="safety-toxigen")


def versions_of(metric: Metric, count: int, models: int, slices: list[str], kind: str = "causal") -> None:
    """So many measured versions of `metric`, each with values of so many models."""
    for _ in range(count):
        version = MetricVersion.objects.create(
            metric=metric,
            number=metric.versions.count() + 1,
            protocol=metric.protocol,
            scorer=metric.scorer,
            scorer_fingerprint="0" * 64,
            formula_version=1,
        )
        for of in range(models):
            model, _ = LanguageModel.objects.get_or_create(
                slug=f"made-{of}", defaults={"name": f"Made {of}", "kind": kind, "source": "uploaded"}
            )
            scoring = Scoring.objects.create(
                model=model, metric_version=version, state="done", scored_at=timezone.now()
            )
            Result.objects.bulk_create(
                Result(scoring=scoring, measure="safety_score", slice=name, value=0.2 + 0.001 * of + 0.01 * place)
                for place, name in enumerate(slices)
            )
            results = Result.objects.filter(scoring=scoring)
            Standing.objects.bulk_create(
                Standing(
                    metric_version=version,
                    measure=result.measure,
                    slice=result.slice,
                    population=population,
                    model=model,
                    result=result,
                    rank=models - of,
                    value=result.value,
                )
                for result in results
                for population in ("all", kind)
            )
        supersede(version)


@pytest.mark.slow
def test_every_published_value_stands_in_the_heat_map_under_its_demographic(client, published):
    headings, rows = table(page(client, TOXIGEN), "Table of models by demographic")
    source = printed()
    assert set(rows) == set(source)
    assert len(rows) == 24
    assert len(headings) == 1 + 1 + 13
    columns = {heading: place for place, heading in enumerate(headings[1:])}
    for model, values in source.items():
        for group, value in values.items():
            shown = float(rows[model][columns[SLICE_LABELS[group]]].split()[0])
            assert shown == pytest.approx(value, abs=0.0006), (model, group)


def test_the_boxes_are_figure_2_of_the_paper_the_worst_median_first(client, published):
    html = page(client, TOXIGEN)
    source = printed()
    groups = {SLICE_LABELS[group]: [of[group] for of in source.values()] for group in next(iter(source.values()))}
    medians = {name: statistics.median(values) for name, values in groups.items()}
    _, rows = table(html, "Table of the boxes")
    assert list(rows) == sorted(medians, key=lambda name: medians[name])
    for name, cells in rows.items():
        lower, median, upper = statistics.quantiles(groups[name], n=4, method="inclusive")
        assert [float(cell) for cell in cells[2:5]] == pytest.approx([lower, median, upper], abs=0.0006)
        assert cells[0] == "24"
    # "PTLMs in general are less likely to embed harmful contents for Asian, African American, Chinese and Jewish"; all
    # medians are below 0.5.
    assert set(list(rows)[-4:]) == {"Asian", "Black", "Chinese", "Jewish"}
    assert max(medians.values()) < 0.5
    figure = read_chart(client, html)
    assert figure["layout"]["yaxis"]["ticktext"] == list(rows)
    drawn = [float(re.search(r"median ([0-9.]+)", text)[1]) for text in traces(figure, "blocks")[0]["hovertext"]]
    assert drawn == pytest.approx([medians[name] for name in rows], abs=1e-3)
    assert len(points(figure)) == 24 * 13
    assert {text.split(",")[0] for text in traces(figure, "points")[0]["hovertext"]} == set(source)


def test_the_heat_map_is_a_file_with_the_cells_of_the_table(client, published):
    html = page(client, TOXIGEN)
    query = unescape(re.search(r'href="(\?[^"]*heat-map&amp;format=svg)" download', html)[1])
    svg = client.get("/demographics/" + query).content.decode()
    titles = re.findall(r"<title>([^<]*): ([0-9.]+)</title>", svg)
    assert len(titles) == 24 * 14
    assert dict(titles)["GPT-2, Women"] == f"{printed()['GPT-2']['women']:.3f}"


def test_the_page_says_who_is_worst_off_and_that_demographics_overlap(client, published):
    text = said(page(client, TOXIGEN))
    source = printed()
    worst = [min(values, key=lambda group: (values[group], group)) for values in source.values()]
    most = max(set(worst), key=worst.count)
    assert f"{SLICE_LABELS[most]} is the worst off of all demographics in {worst.count(most)} of 24 models." in text
    assert "Latino and Mexican share texts, and so do Asian and Chinese" in text
    assert "the source gives no tests" in text.lower()


def test_published_values_are_shaded_by_their_distance_from_an_indifferent_model(client, published):
    html = page(client, TOXIGEN)
    step = float(re.search(r"Shades are steps of ([0-9.]+) from what the model itself", said(html))[1])
    cells = re.findall(
        r'heat heat-(-?\d)">([0-9.]+)<span class="indifferent">.*?</span>≈ ([0-9.]+)</span>',
        html.split('aria-label="Table of models by demographic"')[1],
    )
    assert len(cells) == 24 * 14
    distances = [float(value) - float(own) for _, value, own in cells]
    assert max(map(abs, distances)) <= 4.5 * step + 0.001
    for (level, _, _), distance in zip(cells, distances, strict=True):
        assert int(level) == pytest.approx(distance / step, abs=0.55)
    assert {int(level) for level, _, _ in cells} == {-2, -1, 0, 1, 2, 3}
    assert len(stretches(read_chart(client, html), "dot")) == 13, "a tick for each demographic"
    assert "≈ marks values that the source does not print" in said(html)


def test_the_page_says_how_much_of_who_is_harmed_is_the_toxicity_of_the_texts(client, published):
    indifferent = indifferent_at(0.8)
    low, high = min(indifferent, key=indifferent.get), max(indifferent, key=indifferent.get)
    source = printed()
    medians = {group: statistics.median(of[group] for of in source.values()) for group in indifferent}
    r = np.corrcoef([indifferent[group] for group in medians], list(medians.values()))[0, 1]
    assert (round(indifferent[low], 3), round(indifferent[high], 3), round(r, 2)) == (0.168, 0.219, 0.78)
    text = said(page(client, TOXIGEN))
    assert "log-perplexities have a standard deviation of 0.8" in text
    assert (
        f"from {indifferent[low]:.3f} ({SLICE_LABELS[low]}) to {indifferent[high]:.3f} ({SLICE_LABELS[high]}) by that "
        f"toxicity alone, and over the 13 demographics this correlates {r:.2f} with the medians above" in text
    )
    assert "Held against what each model would have if it were indifferent, the worst median is that of" in text


@pytest.mark.slow
def test_of_measured_models_their_own_values_say_it(client, board):
    text = said(page(client, "/demographics/?metric=safety-starter&kind=all&measure=safety_score"))
    assert "with the perplexities of these, would score from" in text
    assert "by that toxicity alone" not in said(
        page(client, "/demographics/?metric=safety-starter&measure=likelihood_auc")
    )


@pytest.mark.parametrize(
    ("value", "level"), [(0.5, 0), (0.54, 0), (0.56, 1), (0.449, -1), (0.94, 4), (0.99, 4), (0.0, -4)]
)
def test_a_neutral_value_is_the_middle_of_the_scale_whose_ends_hold_what_lies_beyond(value, level):
    assert Shades(0.5, 0.1, False, 1.0).level(value) == level
    assert Shades(0.5, 0.1, False, -1.0).level(value) == -level, "where lower is better the other side is the good one"
    assert Shades(0.0, 0.1, False, 1.0, own=True).level(value, 0.5) == level
    assert Shades(0.0, 0.1, False, 1.0, own=True).level(value) == 0, "what it is a difference from is not known"


def test_a_measure_with_a_neutral_value_is_anchored_there(client, board):
    text = said(page(client, "/demographics/?metric=safety-starter&measure=likelihood_auc"))
    assert "from 0.500, where a model is indifferent" in text
    assert "The dotted line is 0.5" in text


def test_measured_values_are_of_one_kind_unless_asked_for_together(client, board):
    _, rows = table(page(client, "/demographics/?metric=safety-starter"), "Table of models by demographic")
    assert set(rows) == {CAUSAL, OTHER_CAUSAL}
    html = page(client, "/demographics/?metric=safety-starter&kind=all")
    assert set(table(html, "Table of models by demographic")[1]) == {CAUSAL, OTHER_CAUSAL, MASKED}
    assert "because you asked" in said(html)


def test_a_kind_of_which_no_model_is_ranked_yet_is_neither_shown_nor_offered(client, published):
    versions_of(published, 1, 2, ["average", "women"], kind="masked")
    waiting = LanguageModel.objects.create(slug="waits", name="Waits", kind="causal", source="uploaded")
    version = published.versions.get(provenance="measured")
    Scoring.objects.create(model=waiting, metric_version=version)
    html = page(client, TOXIGEN)
    assert set(table(html, "Table of models by demographic")[1]) == {"Made 0", "Made 1"}
    assert 'value="causal"' not in html


def test_charts_of_one_model_speak_of_one(client, published):
    versions_of(published, 1, 1, ["average", "women"])
    html = page(client, TOXIGEN)
    assert "of 1 model for each of 1 demographic, the worst median first" in html
    assert "of 1 models" not in html


def test_values_without_a_significant_difference_are_marked_in_words_and_others_are_not(client, board):
    address = "/demographics/?metric=safety-starter&kind=all&measure=likelihood_auc"
    html = page(client, address)
    headings, rows = table(html, "Table of models by demographic")
    results = Result.objects.filter(scoring__metric_version=board.current_version(), measure="likelihood_auc")
    marks = {True: 0, False: 0}
    for result in results.select_related("scoring__model").exclude(slice="average"):
        column = headings.index(SLICE_LABELS[result.slice]) - 1
        marked = "not sig." in rows[result.scoring.model.name][column]
        assert marked is (result.p_adjusted >= 0.05)
        marks[marked] += 1
    assert "does not differ from an indifferent model at 5%" in said(html)
    Result.objects.filter(pk=results.exclude(slice="average").first().pk).update(p_adjusted=0.5)
    assert page(client, address).count('<span class="mark">not sig.') > 1


def test_the_safety_score_is_marked_by_the_test_of_its_excess(client, board):
    version = board.current_version()
    Result.objects.filter(scoring__metric_version=version, measure="safety_score").update(p_value=0.9, p_adjusted=0.9)
    excess = Result.objects.filter(scoring__metric_version=version, measure="safety_excess")
    excess.update(p_adjusted=0.01)
    address = "/demographics/?metric=safety-starter&kind=all&measure=safety_score&demographic=women"
    assert "not sig." not in " ".join(map(str, table(page(client, address), "Table of models by demographic")))
    excess.filter(slice="women").update(p_adjusted=0.5)
    html = page(client, address)
    headings, rows = table(html, "Table of models by demographic")
    column = headings.index("Women") - 1
    assert all("not sig." in cells[column] for cells in rows.values())
    assert not any("not sig." in cell for cells in rows.values() for cell in cells[:column])
    assert all("not sig." in cells[1] for cells in table(html, "Ranking of Women")[1].values())


def test_a_demographic_has_a_ranking_of_its_own_with_intervals_and_texts(client, board):
    html = page(client, "/demographics/?metric=safety-starter&demographic=women")
    _, rows = table(html, "Ranking of Women")
    standings = Standing.objects.filter(
        metric_version=board.current_version(), measure="likelihood_auc", slice="women", population="causal"
    ).select_related("model", "result")
    assert len(rows) == standings.count() == 2
    for standing in standings:
        rank, value, _, kind, texts, unscorable = rows[standing.model.name]
        assert rank == f"{standing.rank} {standing.rank_low}–{standing.rank_high}"
        assert kind == "causal"
        assert f"{standing.value:.3f}" in value
        assert f"{standing.result.ci_low:.3f}–{standing.result.ci_high:.3f}" in value
        assert (texts, unscorable) == (str(standing.result.n), str(standing.result.missing))
    order = [standing.model.name for standing in standings.order_by("rank")]
    assert list(rows) == order
    assert list(table(html, "Table of models by demographic")[1]) == order, "the heat map follows the choice"


def test_without_a_choice_the_ranking_is_of_the_demographic_with_the_worst_median(client, published):
    html = page(client, TOXIGEN)
    worst = next(iter(table(html, "Table of the boxes")[1]))
    assert len(table(html, f"Ranking of {worst}")[1]) == 24


@pytest.mark.slow
def test_only_fifty_models_are_on_a_page_and_the_boxes_are_of_all(client, published):
    versions_of(published, 1, 120, ["average", "women", "black"])
    address = f"{TOXIGEN}&provenance=measured"
    seen = []
    for number in (1, 2, 3):
        html = page(client, f"{address}&page={number}")
        _, rows = table(html, "Table of models by demographic")
        assert len(rows) == (20 if number == 3 else 50)
        seen += list(rows)
        assert table(html, "Table of the boxes")[1]["Women"][0] == "120"
    assert len(set(seen)) == 120
    assert seen[0] == "Made 119"
    assert "Models 51 to 100 of 120" in said(page(client, f"{address}&page=2"))
    assert client.get(f"{address}&page=4").status_code == 404


@pytest.mark.slow
def test_provenance_and_version_choose_the_numbers(client, published):
    versions_of(published, 2, 3, ["average", "women", "black"])
    assert "Measured here" in page(client, TOXIGEN), "measured numbers come first"
    assert len(table(page(client, f"{TOXIGEN}&provenance=published"), "Table of models by demographic")[1]) == 24
    assert "Metric version 2, superseded" in said(page(client, f"{TOXIGEN}&version=2"))
    # A form that is sent whole may name a version of the provenance that was chosen before.
    assert "Published figures" in page(client, f"{TOXIGEN}&version=2&provenance=published")


@pytest.mark.slow_cases
@pytest.mark.parametrize("name", ["metric", "measure", "version", "kind", "demographic", "provenance", "page"])
def test_an_address_that_names_nothing_is_a_404_that_says_what(client, published, name):
    response = client.get(f"/demographics/?{name}=nonsense")
    assert response.status_code == 404
    assert f"{name} = &#x27;nonsense&#x27;" in response.content.decode()


@pytest.mark.slow
def test_metrics_without_demographics_or_numbers_say_so(client, published):
    assert "name no demographic" in said(page(client, "/demographics/?metric=safety-implicit-hate"))
    assert "no published numbers yet" in said(page(client, "/demographics/?metric=crows-pairs"))
    assert client.get("/demographics/?metric=toxicity-profanity").status_code == 404
    assert client.get("/demographics/").status_code == 200
    assert client.post("/demographics/").status_code == 405


def test_names_of_models_are_escaped(client, published):
    LanguageModel.objects.filter(slug="hosseini-2023-gpt-2").update(name="</script><b>bold</b>")
    html = page(client, TOXIGEN)
    assert "<b>bold</b>" not in html
    assert "&lt;b&gt;bold&lt;/b&gt;" in html


@pytest.mark.slow
def test_queries_do_not_grow_with_models_or_versions(client, published):
    def queries() -> int:
        with CaptureQueriesContext(connection) as caught:
            page(client, f"{TOXIGEN}&demographic=women")
        return len(caught)

    versions_of(published, 1, 3, ["average", "women", "black"])
    before = queries()
    versions_of(published, 3, 30, ["average", "women", "black", "asian"])
    assert queries() == before <= MOST_QUERIES


def test_withdrawn_models_are_not_on_the_page(client, board, models):
    LanguageModel.objects.filter(pk=models[CAUSAL].pk).update(access="withdrawn")
    publish_standings(board.current_version())
    assert CAUSAL not in page(client, "/demographics/?metric=safety-starter&kind=all")
