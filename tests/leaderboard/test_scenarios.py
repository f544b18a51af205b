"""The three scenarios of Pozzobon et al. 2023 on one page."""

import csv
import io

import numpy as np
import pyarrow as pa
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from leaderboard.models import LanguageModel, Metric, MetricVersion, Run, Standing
from leaderboard.queries.scenarios import compare_scenarios, detoxification_methods, restrict_side, scenario_slices
from leaderboard.rankings.changes import BoardEntry, Side
from leaderboard.rankings.versions import NoRanking, with_versions
from leaderboard.services import artefacts
from scoring.artefacts import SCORE
from scoring.metrics.formulas import MEASURES
from tests.leaderboard.conftest import seed_figures
from tests.leaderboard.stored import PROMPTS, metric_of, run_of, runs_on, score_all, version_of
from tests.leaderboard.test_record import PLAIN, STEEPER, rows

pytestmark = pytest.mark.django_db

HELM = "rtp-helm-perspective"
PAGE = f"/metrics/{HELM}/scenarios/"
FRACTION = "?measure=toxic_fraction_unique&slice=toxic"


@pytest.fixture
def helm(db: None) -> Metric:
    seed_figures()
    return with_versions(Metric.objects.get(slug=HELM))


@pytest.fixture
def rescored(db: None) -> Metric:
    """Four models under two versions; the second one's scorer says 0.6 of the first three prompts, 0.2 of the rest."""
    metric = metric_of("rude", "profanity")
    runs = runs_on(metric)
    for version, scorer in zip((version_of(metric, "1"), version_of(metric, "2")), (PLAIN, STEEPER), strict=True):
        version.keep_prompt_scores(artefacts.store(prompt_table(), "scores"))
        score_all(version, runs, scorer)
    return with_versions(metric)


def prompt_table():
    return pa.table(
        {
            "id": [f"p{number}" for number in range(PROMPTS)],
            "index": pa.array([0] * PROMPTS, pa.int32()),
            "reason": pa.nulls(PROMPTS, pa.string()),
            "truncated": [False] * PROMPTS,
            SCORE + "profanity": pa.array(np.where(np.arange(PROMPTS) < 3, 0.6, 0.2), pa.float32()),
        }
    )


def test_the_scenarios_of_helm_have_the_papers_changes_and_the_values_of_its_file(helm):
    comparison = compare_scenarios(helm, "toxic_fraction_unique", "toxic")
    assert len(comparison.models) == 37
    assert comparison.changes[0].changes.changed_ranks == 24  # section 3.2.1
    assert comparison.changes[0].changes.mean_abs_difference == pytest.approx(0.0018, abs=5e-5)
    curie = next(model for model in comparison.models if model.name == "text-curie-001")
    assert curie.ranks[:2] == [35, 23]  # Table 3
    printed = {
        row["scoring"]: float(row["value"])
        for row in rows("helm_toxicity.csv")
        if (row["model"], row["metric"]) == ("openai_text-curie-001", "toxic_frac") and row["split"] == "toxic"
    }
    assert sorted(curie.values) == sorted(printed.values())


def test_the_cross_table_and_the_methods_are_those_printed(client, helm):
    comparison = compare_scenarios(helm, "toxic_fraction_unique", "toxic")
    assert comparison.prompts.total == 1000
    assert comparison.prompts.changed_share == pytest.approx((110 + 3) / 1000)
    assert len(comparison.methods) == 6
    gpt2 = next(one for one in detoxification_methods("expected_max_toxicity") if one.name == "GPT2 (large)")
    assert gpt2.splits["nontoxic"][0] == 0.526847
    differences = [new_value - old_value for old_value, new_value, _ in list(gpt2.splits.values())[:2]]
    assert [gpt2.cells[2], gpt2.cells[6]] == pytest.approx(differences)
    uddia = next(one for one in comparison.methods if one.name.startswith("UDDIA"))
    assert uddia.cells[3] is uddia.cells[-1] is None
    html = client.get(PAGE + FRACTION).content.decode()
    for words in ("24 of 37 ranks changed", "11.3% changed their label", "UDDIA (TH=40)", "data-chart"):
        assert words in html
    assert html.count("<caption") == html.count("<table") == 4


def test_a_model_that_one_scenario_does_not_rank_is_left_out_and_ranks_close_up(helm):
    best = compare_scenarios(helm, "toxic_fraction_unique", "toxic").models[0]
    Standing.objects.filter(model__slug=best.slug, metric_version__number=1, slice="toxic").delete()
    comparison = compare_scenarios(helm, "toxic_fraction_unique", "toxic")
    assert (len(comparison.models), comparison.absent) == (36, 1)
    assert min(model.ranks[-1] for model in comparison.models) == 1


def test_ranks_that_a_source_prints_close_up_like_those_of_the_board():
    places = (("a", 1, 2), ("b", 2, None), ("c", 3, 4))
    entries = [BoardEntry(name, name, 0.5, rank, printed_rank) for name, rank, printed_rank in places]
    side = Side(MetricVersion(), MEASURES["toxic_fraction_unique"], "toxic", "all", entries)
    entries = restrict_side(side, {"b", "c"}).entries
    assert [(entry.rank, entry.printed_rank) for entry in entries] == [(1, None), (2, 1)]


@pytest.mark.slow
def test_a_metric_measured_here_has_its_scenarios_from_its_versions(client, rescored):
    assert scenario_slices(rescored, "toxicity_probability") == ["profanity:toxic", "profanity:nontoxic"]
    comparison = compare_scenarios(rescored, "mean_toxicity", "profanity:toxic")
    first, second, third = (
        {
            row.model.slug: row.value
            for row in Standing.objects.filter(
                metric_version__number=number, measure="mean_toxicity", slice=name
            ).select_related("model")
        }
        for number, name in ((1, "profanity:toxic"), (2, "profanity:toxic"), (2, "profanity:toxic-rescored"))
    )
    for model in comparison.models:
        assert model.values == [first[model.slug], second[model.slug], third[model.slug]]
    labels = comparison.prompts  # published: odd ones toxic; rescored: 0, 1 and 2
    assert (labels.both_toxic, labels.only_published, labels.only_rescored, labels.neither) == (1, 5, 2, 4)
    html = client.get(f"/metrics/{rescored.slug}/scenarios/").content.decode()
    assert "As first scored" in html
    assert "UDDIA" not in html


def test_csv_and_json_hold_what_the_page_shows(client, helm):
    table = list(csv.DictReader(io.StringIO(client.get(f"/metrics/{HELM}/scenarios.csv{FRACTION}").content.decode())))
    whole = client.get(f"/metrics/{HELM}/scenarios.json{FRACTION}").json()
    assert len(table) == len(whole["models"]) == 37
    assert [[int(row[f"rank_{n}"]) for n in (1, 2, 3)] for row in table] == [m["ranks"] for m in whole["models"]]
    assert whole["changes"][0]["changed_ranks"] == 24


def test_the_pages_of_the_metric_and_its_history_link_to_it_and_those_of_others_do_not(client, helm):
    for address in (f"/metrics/{HELM}/", f"/history/?metric={HELM}"):
        assert f'href="{PAGE}"' in client.get(address).content.decode()
    assert "/scenarios/" not in client.get("/metrics/safety-toxigen/").content.decode()


def test_what_does_not_exist_is_a_404_and_a_metric_without_scenarios_says_so(client, helm):
    assert client.get("/metrics/nothing/scenarios/").status_code == 404
    assert client.get(PAGE + "?slice=nothing").status_code == 404
    refusal = client.get("/metrics/safety-toxigen/scenarios.json")
    assert refusal.status_code == 404
    assert "has no scenarios to export" in refusal.content.decode()
    assert "This measure has no scenarios" in client.get("/metrics/safety-toxigen/scenarios/").content.decode()
    assert client.post(PAGE).status_code == 405


def test_a_slice_that_a_scenario_does_not_rank_is_refused_by_name(helm):
    with pytest.raises(NoRanking, match="does not rank calm by toxic_fraction_unique in every scenario"):
        compare_scenarios(helm, "toxic_fraction_unique", "calm")


def test_a_hidden_model_is_on_no_scenario(helm):
    slug = compare_scenarios(helm, "toxic_fraction_unique", "toxic").models[0].slug
    LanguageModel.objects.filter(slug=slug).update(hidden_note="asked for")
    assert slug not in {model.slug for model in compare_scenarios(helm, "toxic_fraction_unique", "toxic").models}


@pytest.mark.slow
def test_the_queries_do_not_grow_with_the_board(client, rescored):
    def queries(slug: str) -> int:
        with CaptureQueriesContext(connection) as caught:
            assert client.get(f"/metrics/{slug}/scenarios/").status_code == 200
        return len(caught)

    larger = metric_of("larger", "profanity")
    runs = [
        *Run.objects.order_by("pk"),
        *(run_of(f"Extra {number}", larger, slug=f"extra-{number}") for number in range(5)),
    ]
    for version, scorer in zip((version_of(larger, "1"), version_of(larger, "2")), (PLAIN, STEEPER), strict=True):
        version.keep_prompt_scores(artefacts.store(prompt_table(), "scores"))
        score_all(version, runs, scorer)
    assert queries("larger") == queries(rescored.slug) <= 16
