"""Published figures: as printed, under their own provenance, apart from measured ones."""

import csv

import pytest

from leaderboard.models import LanguageModel, Metric, Provenance, Result, Standing
from leaderboard.services.published import FOLDER, seed_published

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


def test_seeding_twice_adds_nothing(metric):
    seed_published()
    before = (LanguageModel.objects.count(), Result.objects.count(), Standing.objects.count())
    seed_published()
    assert (LanguageModel.objects.count(), Result.objects.count(), Standing.objects.count()) == before
    assert LanguageModel.objects.filter(source="published").count() == 24 + 37


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
