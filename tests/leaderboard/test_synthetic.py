"""A board of drawn numbers has the shape of a large board, and never stands beside measured numbers."""

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.db import transaction
from scipy.stats import rankdata

from leaderboard.models import LanguageModel, Result, Scoring, Standing
from leaderboard.services.synthetic import Size, seed_synthetic
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
