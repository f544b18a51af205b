"""Published figures: as printed, under their own provenance, apart from measured ones."""

import csv
from importlib import import_module

import numpy as np
import pytest
from django.apps import apps
from django.db import connection
from scipy import stats

from leaderboard.models import LanguageModel, Metric, MetricVersion, Provenance, Result, Standing
from leaderboard.services.publish import publish_standings
from leaderboard.services.published import FOLDER, seed_published
from tests.leaderboard.test_history import page, said

pytestmark = pytest.mark.django_db


def test_all_312_figures_of_table_1_are_there_as_printed(metric):
    seed_published()
    with (FOLDER / "safety_scores_toxigen.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 312
    for row in rows:
        result = Result.objects.get(
            scoring__metric_version__metric__slug="safety-toxigen",
            scoring__model__name=row["model"],
            measure="safety_score",
            slice=row["target_group"],
        )
        assert result.value == float(row["safety_score_full"])
        assert result.n == int(row["n_harmful"]) + int(row["n_benign"])


def measured_by(row: str, **chosen: str) -> dict[str, float]:
    results = Result.objects.filter(scoring__metric_version__metric__slug="safety-toxigen", measure=row, **chosen)
    return {result.scoring.model.name: result.value for result in results.select_related("scoring__model")}


def test_what_follows_from_table_9_is_entered_and_marked_as_not_printed(metric):
    seed_published()
    derived = Result.objects.filter(derived=True)
    assert derived.count() == 3 * 24
    assert set(derived.values_list("measure", flat=True)) == {"likelihood_auc", "safety_indifferent", "safety_excess"}
    indifferent = measured_by("safety_indifferent")
    # Exact values by permuted labels, from the models' own perplexities, are about 0.245 to 0.364.
    assert (min(indifferent.values()), max(indifferent.values())) == pytest.approx((0.2475, 0.3636), abs=5e-4)
    score, excess = measured_by("safety_score", slice="average"), measured_by("safety_excess")
    assert excess == pytest.approx({name: score[name] - indifferent[name] for name in score})


def test_the_published_score_goes_with_the_spread_of_log_perplexity_far_more_than_with_the_likelihood_auc(metric):
    seed_published()
    score, auc = measured_by("safety_score", slice="average"), measured_by("likelihood_auc")
    deviations = [measured_by(f"log_perplexity_{label}_sd") for label in ("harmful", "benign")]
    names = sorted(score)
    spread = [np.mean([of[name] for of in deviations]) for name in names]
    values = [score[name] for name in names]
    assert round(stats.pearsonr(values, spread)[0], 2) == 0.93
    assert round(stats.spearmanr(values, [auc[name] for name in names])[0], 2) == 0.43


def test_a_board_whose_figures_were_entered_before_gets_those_that_are_derived_and_keeps_the_others(metric):
    seed_published()
    version = Metric.objects.get(slug="safety-toxigen").current_version(Provenance.PUBLISHED)
    printed = list(Result.objects.filter(derived=False).order_by("pk").values())
    MetricVersion.objects.filter(pk=version.pk).update(formula_version=1)  # as it was then
    version.standings.exclude(measure="safety_score").delete()
    Result.objects.filter(derived=True).delete()
    publish_standings(version)
    version.refresh_from_db()
    assert version.first_measure == "safety_score"  # it ranks nothing else
    seed_published()
    version.refresh_from_db()
    assert version.first_measure == "likelihood_auc"
    assert Result.objects.filter(derived=True).count() == 3 * 24
    assert list(Result.objects.filter(derived=False).order_by("pk").values()) == printed


def test_pages_exports_and_the_api_mark_what_is_derived(client, metric):
    seed_published()
    html = page(client, "/rankings/?metric=safety-toxigen&provenance=published&kind=causal")
    assert "≈ 0.559" in html  # GPT-2-xl
    assert "worked out here from the means and standard deviations" in said(html)
    printed = page(client, "/rankings/?metric=safety-toxigen&provenance=published&kind=causal&measure=safety_score")
    assert "≈ 0.559" not in printed  # what the source prints bears no mark; the indifferent value beside it does
    lines = page(client, "/rankings.csv?metric=safety-toxigen&provenance=published").splitlines()
    column = lines[0].split(",").index("derived")
    assert {line.split(",")[column] for line in lines[1:]} == {"derived"}
    items = client.get("/api/v1/metrics/safety-toxigen/standings?provenance=published").json()["items"]
    assert all(item["derived"] for item in items)
    badge = page(client, "/badges/hosseini-2023-gpt-2/safety-toxigen.svg?show=value")
    assert "≈ 0.555" in badge


def test_a_slice_that_only_the_papers_measure_has_is_shown_by_that_measure(client, metric):
    seed_published()
    html = page(client, "/rankings/?metric=safety-toxigen&provenance=published&slice=women&kind=causal")
    assert "Safety score, Women" in said(html)
    found = client.get("/api/v1/metrics/safety-toxigen/standings?provenance=published&slice=women").json()
    assert found["measure"] == "safety_score"
    html = page(client, "/demographics/?metric=safety-toxigen")
    assert "Safety score" in said(html.split("<table", 1)[1])


def test_a_version_without_the_first_measure_falls_back_to_one_that_it_ranks(client, metric):
    seed_published()
    hate = Metric.objects.get(slug="safety-implicit-hate")
    assert hate.measure == "likelihood_auc"
    assert hate.current_version(Provenance.PUBLISHED).first_measure == "safety_score"
    assert "Safety score" in said(page(client, "/rankings/?metric=safety-implicit-hate&provenance=published"))
    found = client.get("/api/v1/metrics/safety-implicit-hate/standings").json()
    assert (found["measure"], len(found["items"])) == ("safety_score", 24)
    assert "rank" in page(client, "/badges/hosseini-2023-gpt-2/safety-implicit-hate.svg")


def test_seeding_twice_adds_nothing(metric):
    seed_published()
    before = (LanguageModel.objects.count(), Result.objects.count(), Standing.objects.count())
    seed_published()
    assert (LanguageModel.objects.count(), Result.objects.count(), Standing.objects.count()) == before
    # Hosseini et al.: Table 1 and two grids of students; HELM; Gehman et al.; methods; Snoswell et al.;
    # StereoSet; Vig et al.
    assert LanguageModel.objects.filter(source="published").count() == 24 + (24 + 23) + 37 + 5 + 6 + 3 + 9 + 8


def test_they_are_ranked_among_themselves_with_ties_sharing_a_rank(metric):
    seed_published()
    version = Metric.objects.get(slug="safety-toxigen").current_version(Provenance.PUBLISHED)
    ranked = Standing.objects.filter(metric_version=version, measure="safety_score", slice="average", population="all")
    assert ranked.count() == 24
    with (FOLDER / "safety_scores_toxigen_averages.csv").open(encoding="utf-8") as file:
        averages = {
            r["model"]: float(r["mean_safety_score_full"]) for r in csv.DictReader(file) if r["over"] == "model"
        }
    for standing in ranked.select_related("model"):
        assert standing.rank == 1 + sum(value > averages[standing.model.name] for value in averages.values())
    assert not ranked.filter(rank_low__isnull=False).exists()


def test_published_and_measured_numbers_are_never_in_one_version(board):
    for metric in Metric.objects.all():
        for version in metric.versions.all():
            sources = set(version.scorings.values_list("model__source", flat=True))
            assert ("published" in sources) == (version.provenance == Provenance.PUBLISHED)
            assert len(sources) == 1


def test_boards_from_before_move_to_the_likelihood_auc_where_they_have_it(metric):
    seed_published()
    Metric.objects.filter(formula_name="safety").update(measure="safety_score")
    hate, toxigen = (Metric.objects.get(slug=f"safety-{name}") for name in ("implicit-hate", "toxigen"))
    toxigen.versions.get().standings.exclude(measure="safety_score").delete()
    for version in (hate.versions.get(), toxigen.versions.get()):
        version.fall_back({"safety_score"})
        assert version.fallback_measure == ""
    import_module("leaderboard.migrations.0012_calibrated_safety").forwards(apps, connection.schema_editor())
    assert set(Metric.objects.filter(formula_name="safety").values_list("measure", flat=True)) == {"likelihood_auc"}
    versions = MetricVersion.objects.filter(metric__in=(hate, toxigen))
    assert {version.first_measure for version in versions} == {"safety_score"}
    Result.objects.filter(derived=True).delete()
    seed_published()  # as an upgrade does: the derived figures come, and with them the likelihood AUC
    assert versions.get(metric=toxigen).first_measure == "likelihood_auc"
    assert versions.get(metric=hate).first_measure == "safety_score"
