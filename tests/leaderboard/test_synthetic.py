"""A board of drawn numbers has the shape of a large board, and never stands beside measured numbers."""

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from scipy.stats import rankdata

from leaderboard.models import LanguageModel, Metric, MetricVersion, Result, Run, Scoring, Standing
from leaderboard.services import artefacts
from leaderboard.services.synthetic import Size, drawn_models, drawn_results, drawn_values, seed_synthetic, standings
from scoring.metrics.safety import LIKELIHOOD_AUC, SAFETY_SCORE

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_it_has_as_many_models_slices_and_versions_as_were_asked_for():
    call_command("seed_synthetic", models=12, slices=5, versions=3, verbosity=0)
    assert LanguageModel.objects.count() == 12
    assert Scoring.objects.count() == 12 * 3
    assert Result.objects.count() == 12 * 3 * 5 * 2
    assert Standing.objects.filter(population="all").count() == 12 * 3 * 5 * 2
    assert Standing.objects.exclude(population="all").count() == 12 * 3 * 5 * 2
    assert Result.objects.values("slice").distinct().count() == 5


@pytest.mark.slow
def test_its_rows_are_those_of_a_board_that_measured_them_and_published_a_version_a_day():
    lines = []
    metric = seed_synthetic(Size(21, 2, 3), seed=7, say=lines.append)
    assert lines == ["version 1 of 3", "version 2 of 3", "version 3 of 3"]
    versions = list(metric.versions.order_by("number"))
    assert [(row.number, row.status) for row in versions] == [(1, "superseded"), (2, "superseded"), (3, "current")]
    days = [round((versions[2].published_at - row.published_at).total_seconds()) for row in versions]
    assert days == pytest.approx([2 * 86_400, 86_400, 0], abs=5)
    assert {(row.protocol_id, row.scorer, row.formula_version) for row in versions} == {
        (metric.protocol_id, "likelihood", metric.formula.version)
    }
    assert len({row.scorer_fingerprint for row in versions}) == 3
    runs = list(Run.objects.select_related("artefact").order_by("model__slug"))
    assert {(run.state, run.protocol_id) for run in runs} == {("done", metric.protocol_id)}
    assert runs[0].artefact == runs[20].artefact != runs[19].artefact, "20 different outputs, which the models share"
    scorings = Scoring.objects.select_related("artefact", "run").order_by("model__slug")
    for version in versions:
        rows = list(scorings.filter(metric_version=version))
        assert [row.run_id for row in rows] == [run.pk for run in runs]
        assert {(row.state, row.scored_at, row.model_id == row.run.model_id) for row in rows} == {
            ("done", version.published_at, True)
        }
        assert rows[0].artefact == rows[20].artefact != rows[19].artefact
    outputs, values = artefacts.load(runs[0].artefact).to_pydict(), artefacts.load(scorings[0].artefact).to_pydict()
    assert outputs["id"] == values["id"]
    assert set(outputs["unscorable"]) == {None}
    assert set(outputs["windows"]) == {1}
    tokens = np.array(outputs["token_log_likelihoods"])
    assert tokens.shape[1] == 8
    assert tokens.mean() == pytest.approx(-4, abs=0.1)
    assert tokens.std() == pytest.approx(1, abs=0.1)
    assert values["log_perplexity"] == pytest.approx((-tokens.mean(axis=1)).tolist())
    by_version = [
        list(Result.objects.filter(scoring__metric_version=row).values_list("value", flat=True)) for row in versions
    ]
    assert all(0.001 <= value <= 0.999 for row in by_version for value in row)
    changes = np.diff(np.array(by_version), axis=0)
    assert (changes.mean(), changes.std()) == pytest.approx((0, 0.01), abs=0.004), "versions differ a little"


def test_a_seed_draws_the_same_models_in_every_release():
    rows = [
        (row.slug, row.name, row.family, row.kind, row.source, row.parameters, row.layers, row.heads, row.hidden_size)
        for row in drawn_models(26, np.random.default_rng(5))
    ]
    assert len({row[0] for row in rows}) == 26
    assert [row for row in rows if row[0].endswith(("-0001", "-0002", "-0026"))] == [
        ("synthetic-0001", "Synthetic 0001", "Family 01", "masked", "uploaded", 13695964, 45, 45, 2880),
        ("synthetic-0002", "Synthetic 0002", "Family 02", "masked", "uploaded", 30008286468, 36, 36, 2304),
        ("synthetic-0026", "Synthetic 0026", "Family 01", "masked", "uploaded", 16773898369, 12, 12, 768),
    ]
    kinds = [row.kind for row in drawn_models(1000, np.random.default_rng(5))]
    assert [kinds.count(kind) for kind in ("causal", "masked", "permutation")] == [629, 321, 50]


def test_a_seed_draws_the_same_values_in_every_release():
    values = drawn_values(2, 3, np.random.default_rng(5))
    assert np.round(values, 4).tolist() == [
        [[0.2941, 0.3076, 0.3316], [0.2756, 0.3201, 0.3214]],
        [[0.4441, 0.4576, 0.4816], [0.4256, 0.4701, 0.4714]],
    ]


def test_results_and_ranks_have_intervals_within_what_there_can_be():
    metric = Metric(slug="synthetic", formula_name="safety", measure=SAFETY_SCORE.key)
    version = MetricVersion(metric=metric, number=1)
    kinds = ("causal", "masked", "causal", "masked", "causal", "masked", "causal")
    scorings = [Scoring(model=LanguageModel(slug=f"m{n}", kind=kind)) for n, kind in enumerate(kinds)]
    numbers = [[0.01, 0.5], [0.2, 0.6], [0.3, 0.7], [0.4, 0.8], [0.6, 0.9], [0.7, 0.95], [0.99, 0.97]]
    values = np.array([numbers, [[1 - one for one in row] for row in numbers]])
    results = list(drawn_results(scorings, ["average", "women"], values))
    assert [(row.measure, row.slice, row.scoring, row.value) for row in results[:3]] == [
        (SAFETY_SCORE.key, "average", scorings[0], 0.01),
        (SAFETY_SCORE.key, "women", scorings[0], 0.5),
        (SAFETY_SCORE.key, "average", scorings[1], 0.2),
    ]
    assert {row.measure for row in results[14:]} == {LIKELIHOOD_AUC.key}
    described = [(row.ci_low, row.ci_high, row.n, row.p_value, row.p_adjusted) for row in results]
    assert described[0] == (0.0, pytest.approx(0.03), 500, None, None)
    assert described[1] == (pytest.approx(0.48), pytest.approx(0.52), 500, 0.01, pytest.approx(0.1))
    assert described[12] == (pytest.approx(0.97), 1.0, 500, None, None)
    rows = list(standings(version, scorings, results, ["average", "women"], values))
    assert {row.population for row in rows} == {"all", "causal", "masked"}
    among_all = [row for row in rows if (row.measure, row.slice, row.population) == (SAFETY_SCORE.key, "women", "all")]
    ranks = [(row.model.slug, row.rank, row.rank_low, row.rank_high, row.value) for row in among_all]
    assert ranks == [
        ("m0", 7, 2, 7, 0.5),
        ("m1", 6, 1, 7, 0.6),
        ("m2", 5, 1, 7, 0.7),
        ("m3", 4, 1, 7, 0.8),
        ("m4", 3, 1, 7, 0.9),
        ("m5", 2, 1, 7, 0.95),
        ("m6", 1, 1, 6, 0.97),
    ]
    assert all(row.metric_version is version for row in rows)
    assert all(
        (row.result.value, row.result.slice, row.result.measure) == (row.value, row.slice, row.measure) for row in rows
    )
    masked = [
        row for row in rows if (row.measure, row.slice, row.population) == (SAFETY_SCORE.key, "average", "masked")
    ]
    assert [(row.model.slug, row.rank, row.rank_high) for row in masked] == [("m1", 3, 3), ("m3", 2, 3), ("m5", 1, 3)]


@pytest.mark.slow
def test_it_has_all_slices_unless_fewer_were_asked_for():
    call_command("seed_synthetic", models=2, versions=1, verbosity=0)
    assert Result.objects.values("slice").distinct().count() == 14


@pytest.mark.slow
def test_its_ranks_are_those_of_its_values():
    metric = seed_synthetic(Size(15, 3, 2), seed=4)
    for measure in (SAFETY_SCORE, LIKELIHOOD_AUC):
        for population in ("all", "causal"):
            of = metric.current_version().standings.filter(measure=measure.key, slice="average", population=population)
            values, ranks = np.array(of.values_list("value", "rank")).T
            signed = -values if measure.direction == "higher" else values
            assert ranks.tolist() == rankdata(signed, method="min").tolist()
            results = dict(Result.objects.filter(standings__in=of).values_list("pk", "value"))
            assert all(results[row.result_id] == row.value for row in of)


@pytest.mark.slow
def test_the_same_seed_draws_the_same_numbers_and_another_one_others():
    seen = []
    for seed in (1, 1, 2):
        with transaction.atomic():
            seed_synthetic(Size(4, 2, 2), seed)
            seen.append(sorted(Result.objects.values_list("value", flat=True)))
            transaction.set_rollback(True)
    assert seen[0] == seen[1] != seen[2]


def test_a_board_with_measured_numbers_is_left_as_it_is(board):
    before = Result.objects.count(), LanguageModel.objects.count()
    with pytest.raises(CommandError, match="measured numbers: use one of its own"):
        call_command("seed_synthetic", models=2, slices=2, versions=1)
    assert (Result.objects.count(), LanguageModel.objects.count()) == before


@pytest.mark.parametrize(("name", "value"), [("models", 0), ("slices", 99), ("versions", -1)])
def test_a_size_that_cannot_be_is_named(name, value):
    with pytest.raises(CommandError, match=f"{name} = {value}: use 1 to "):
        call_command("seed_synthetic", **{"models": 2, "slices": 2, "versions": 1, name: value})
    assert not LanguageModel.objects.exists()
