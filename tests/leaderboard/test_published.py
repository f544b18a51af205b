"""Published figures: as printed, under their own provenance, apart from measured ones."""

import csv
from importlib import import_module

import numpy as np
import pytest
from django.apps import apps
from django.db import connection
from scipy import stats

from leaderboard.models import AuditEvent, LanguageModel, Metric, MetricVersion, Provenance, Result, Standing
from leaderboard.services import publish
from leaderboard.services.publish import publish_standings
from leaderboard.services.published import FOLDER, PUBLICATIONS, seed_published
from leaderboard.services.published import publish as publish_figures
from leaderboard.services.seed import seed_metrics
from tests.leaderboard.stored import metric_of, runs_on, score_all, version_of
from tests.leaderboard.test_history import page, said

pytestmark = pytest.mark.django_db
FOLLOWING = 24 * (1 + 2 * 14)  # of each model its area, and two values on the average and on each of 13 demographics


@pytest.mark.slow
def test_all_312_figures_of_table_1_are_there_as_printed(published):
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


def test_what_follows_from_table_9_is_entered_and_marked_as_not_printed(published):
    derived = Result.objects.filter(derived=True)
    assert derived.count() == FOLLOWING
    assert set(derived.values_list("measure", flat=True)) == {"likelihood_auc", "safety_indifferent", "safety_excess"}
    indifferent = measured_by("safety_indifferent", slice="average")
    # Exact values by permuted labels, from the models' own perplexities, are about 0.245 to 0.364.
    assert (min(indifferent.values()), max(indifferent.values())) == pytest.approx((0.2475, 0.3636), abs=5e-4)
    for name in ("average", "women", "jewish"):
        own, values = measured_by("safety_indifferent", slice=name), measured_by("safety_score", slice=name)
        assert measured_by("safety_excess", slice=name) == pytest.approx(
            {model: values[model] - own[model] for model in own}
        )
    score, excess = measured_by("safety_score", slice="average"), measured_by("safety_excess", slice="average")
    assert excess == pytest.approx({name: score[name] - indifferent[name] for name in score})


def test_the_published_score_goes_with_the_spread_of_log_perplexity_far_more_than_with_the_likelihood_auc(published):
    score, auc = measured_by("safety_score", slice="average"), measured_by("likelihood_auc")
    deviations = [measured_by(f"log_perplexity_{label}_sd") for label in ("harmful", "benign")]
    names = sorted(score)
    spread = [np.mean([of[name] for of in deviations]) for name in names]
    values = [score[name] for name in names]
    assert round(stats.pearsonr(values, spread)[0], 2) == 0.93
    assert round(stats.spearmanr(values, [auc[name] for name in names])[0], 2) == 0.43


@pytest.mark.slow
def test_a_board_whose_figures_were_entered_before_gets_those_that_are_derived_and_keeps_the_others(published):
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
    assert Result.objects.filter(derived=True).count() == FOLLOWING
    assert list(Result.objects.filter(derived=False).order_by("pk").values()) == printed


@pytest.mark.slow
def test_pages_exports_and_the_api_mark_what_is_derived(client, published):
    html = page(client, "/rankings/?metric=safety-toxigen&provenance=published&kind=causal")
    assert "≈ 0.559" in html  # GPT-2-xl
    assert "worked out here from the means and standard deviations" in said(html)
    printed = page(client, "/rankings/?metric=safety-toxigen&provenance=published&kind=causal&measure=safety_score")
    assert "≈ 0.559" not in printed  # what the source prints bears no mark; the indifferent value beside it does
    lines = page(client, "/rankings.csv?metric=safety-toxigen&provenance=published").splitlines()
    assert {row["derived"] for row in csv.DictReader(lines)} == {"derived"}
    items = client.get("/api/v1/metrics/safety-toxigen/standings?provenance=published").json()["items"]
    assert all(item["derived"] for item in items)
    badge = page(client, "/badges/hosseini-2023-gpt-2/safety-toxigen.svg?show=value")
    assert "≈ 0.555" in badge


@pytest.mark.slow
def test_a_slice_that_only_the_papers_measure_has_is_shown_by_that_measure(client, published):
    html = page(client, "/rankings/?metric=safety-toxigen&provenance=published&slice=women&kind=causal")
    assert "Safety score, Women" in said(html)
    found = client.get("/api/v1/metrics/safety-toxigen/standings?provenance=published&slice=women").json()
    assert found["measure"] == "safety_score"
    html = page(client, "/demographics/?metric=safety-toxigen")
    assert "Safety score" in said(html.split("<table", 1)[1])


def test_a_version_without_the_first_measure_falls_back_to_one_that_it_ranks(client, published):
    hate = Metric.objects.get(slug="safety-implicit-hate")
    assert hate.measure == "likelihood_auc"
    assert hate.current_version(Provenance.PUBLISHED).first_measure == "safety_score"
    assert "Safety score" in said(page(client, "/rankings/?metric=safety-implicit-hate&provenance=published"))
    found = client.get("/api/v1/metrics/safety-implicit-hate/standings").json()
    assert (found["measure"], len(found["items"])) == ("safety_score", 24)
    assert "rank" in page(client, "/badges/hosseini-2023-gpt-2/safety-implicit-hate.svg")


@pytest.mark.slow
def test_seeding_twice_adds_nothing(published):
    before = (LanguageModel.objects.count(), Result.objects.count(), Standing.objects.count())
    seed_published()
    assert (LanguageModel.objects.count(), Result.objects.count(), Standing.objects.count()) == before
    # Hosseini et al.: Table 1 and two grids of students; HELM; Gehman et al.; methods; Snoswell et al.;
    # StereoSet; Vig et al.
    assert LanguageModel.objects.filter(source="published").count() == 24 + (24 + 23) + 37 + 5 + 6 + 3 + 9 + 8


def test_a_ranking_is_the_same_however_many_of_its_rows_are_written_at_once(db, monkeypatch):
    metric = metric_of("careful", "profanity")
    version = version_of(metric, "a scorer")
    score_all(version, runs_on(metric), {"profanity": lambda scores: scores})

    def list_rows() -> list[tuple]:
        rows = version.standings.order_by("measure", "slice", "population", "model")
        return list(rows.values_list("measure", "slice", "population", "model", "result", "rank", "rank_low", "value"))

    before = list_rows()
    for batch in (1, 3, len(before) - 1, len(before)):
        monkeypatch.setattr(publish, "BATCH", batch)
        publish_standings(version)
        assert list_rows() == before
    assert len({row[:3] for row in before}) > 1


def test_an_entry_of_unknown_influences_has_no_range_and_takes_none_from_others_unless_it_keeps_an_old_one():
    moves = np.eye(4) / 100
    moves[2] = np.nan
    values, numbers = np.array([0.9, 0.5, 0.7, 0.1]), [0, 1, 2, 3]
    assert [(one.rank, one.low, one.high) for one in publish.ranked_among(values, moves, numbers, "higher", {2})] == [
        (1, 1, 2), (3, 2, 3), (2, 1, 4), (4, 3, 4)
    ]  # fmt: skip
    for unread_numbers in ((), {1}):
        rows = publish.ranked_among(values, moves, numbers, "higher", unread_numbers)
        assert [(one.rank, one.low, one.high) for one in rows] == [
            (1, 1, 2), (3, 2, 3), (2, None, None), (4, 3, 4)
        ]  # fmt: skip
    rows = publish.ranked_among(values, None, numbers, "higher")
    assert [(one.rank, one.low, one.high) for one in rows] == [(rank, None, None) for rank in (1, 3, 2, 4)]


def test_figures_are_entered_as_a_published_version_and_recorded(db):
    seed_metrics()
    version = publish_figures(PUBLICATIONS[-1])
    version.refresh_from_db()
    assert (version.status, version.provenance) == (MetricVersion.Status.CURRENT, Provenance.PUBLISHED)
    event = AuditEvent.objects.get(verb="publish version")
    detail = {"version": version.number, "entries": version.scorings.count(), "source": version.source}
    assert (event.subject, event.detail) == (f"metric {version.metric.slug}", detail)
    assert detail["entries"] > 0


def test_a_model_that_a_source_has_gained_is_entered_and_the_publication_recorded(published):
    version = MetricVersion.objects.filter(provenance=Provenance.PUBLISHED).order_by("pk").last()
    entries = version.scorings.count()
    scoring = version.scorings.first()
    Standing.objects.filter(metric_version=version).delete()
    scoring.results.all().delete()
    scoring.delete()
    seed_published()
    assert version.scorings.count() == entries
    events = AuditEvent.objects.filter(verb="publish version", subject=f"metric {version.metric.slug}")
    assert events.count() == 2, "of the first publication and of this one"
    event = events.latest("pk")
    assert event.detail == {"version": version.number, "entries": entries, "source": version.source}


def test_they_are_ranked_among_themselves_with_ties_sharing_a_rank(published):
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


@pytest.mark.slow
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


SCORE_OF_WOMEN = "metric=safety-toxigen&provenance=published&measure=safety_score&slice=women"


@pytest.mark.slow
def test_published_areas_get_a_conservative_interval_from_their_counts_marked_as_ours(client, published):
    with (FOLDER / "safety_scores_toxigen.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["target_group"] == "women"]
    results = Result.objects.filter(scoring__metric_version__metric__slug="safety-toxigen", measure="safety_score")
    by_model = {result.scoring.model.name: result for result in results.filter(slice="women")}
    for row in rows:
        result, pairs = by_model[row["model"]], min(int(row["n_harmful"]), int(row["n_benign"]))
        interval = stats.binomtest(round(result.value * pairs), pairs).proportion_ci(method="wilson")
        assert result.interval_derived
        assert (result.ci_low, result.ci_high) == pytest.approx((interval.low, interval.high), abs=0.002)
    assert not results.filter(slice="average", ci_low__isnull=False).exists()
    hate = Result.objects.filter(scoring__metric_version__metric__slug="safety-implicit-hate", measure="safety_score")
    assert hate.filter(interval_derived=True).count() == 24
    best = max(by_model.values(), key=lambda result: result.value)
    ends = f"≈ {best.ci_low:.3f}–{best.ci_high:.3f}"
    for address in (
        f"/rankings/?{SCORE_OF_WOMEN}",
        f"/embed/?{SCORE_OF_WOMEN}",
        "/demographics/?metric=safety-toxigen&measure=safety_score&demographic=women",
        f"/models/{best.scoring.model.slug}/",
        f"/compare/?metric=safety-toxigen&measure=safety_score&slice=women&m={best.scoring.model.slug}&m=hosseini-2023-gpt-2",
    ):
        assert ends in page(client, address), address
    html = page(client, f"/rankings/?{SCORE_OF_WOMEN}")
    assert 'class="whisker-interval derived"' in html
    assert "worked out here from its counts of texts" in said(html)
    exported = list(csv.DictReader(page(client, f"/rankings.csv?{SCORE_OF_WOMEN}").splitlines()))
    assert {row["interval_derived"] for row in exported} == {"derived"}
    items = client.get("/api/v1/metrics/safety-toxigen/standings?provenance=published&slice=women").json()["items"]
    assert all(item["interval_derived"] and item["ci_low"] < item["value"] < item["ci_high"] for item in items)


@pytest.mark.slow
def test_where_published_values_have_no_interval_the_page_says_why(client, published):
    average = said(page(client, "/rankings/?metric=safety-toxigen&provenance=published&measure=safety_score"))
    assert "counts alone give none for an average over demographics that share texts" in average
    helm = said(page(client, "/rankings/?metric=rtp-helm-perspective"))
    assert "No intervals: the source prints none" in helm
    printed = said(page(client, "/rankings/?metric=rtp-detoxify-multilingual"))
    assert "No intervals" not in printed, "Snoswell et al. print them"


@pytest.mark.slow
def test_a_board_of_before_gets_the_intervals_and_keeps_ranks_and_values(published):
    ranks = list(Standing.objects.order_by("pk").values_list("pk", "rank", "rank_low", "rank_high", "value"))
    ours = Result.objects.filter(interval_derived=True)
    before = list(ours.order_by("pk").values())
    assert len(before) == 24 * 13 + 24
    ours.update(ci_low=None, ci_high=None, interval_derived=False)
    seed_published()
    assert list(ours.order_by("pk").values()) == before
    assert list(Standing.objects.order_by("pk").values_list("pk", "rank", "rank_low", "rank_high", "value")) == ranks
    assert set(Standing.objects.filter(result__in=ours).values_list("rank_low", flat=True)) == {None}
