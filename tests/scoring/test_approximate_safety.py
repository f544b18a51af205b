"""Approximations from means and standard deviations: against values drawn from normals, and the set's own counts."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from scoring.evaluation_sets import read_safenlp
from scoring.metrics.approximate_safety import Moments, Toxicities, approximate_auc, approximate_indifference
from scoring.statistics.auc import area
from scoring.statistics.indifference import indifference
from tests.data import TOXIGEN, needs_toxigen

COUNTS = Path(__file__).parent.parent.parent / "leaderboard" / "published" / "toxigen_toxicities.csv"


def test_they_are_what_normal_log_perplexities_give():
    generator = np.random.default_rng(31)
    harmful, benign = Moments(2.4, 1.5), Moments(2.1, 1.0)
    n, m = 3000, 2000
    values = np.concatenate([generator.normal(2.4, 1.5, n), generator.normal(2.1, 1.0, m)])
    toxicities = Toxicities(generator.choice([10, 12, 15], n) / 3, generator.choice([3, 4, 8], m) / 3)
    found = indifference(values, np.log(toxicities.harmful), np.log(toxicities.benign))
    assert approximate_indifference(harmful, benign, [toxicities]) == pytest.approx(found.value, abs=0.015)
    assert approximate_auc(harmful, benign) == pytest.approx(area(values[:n], values[n:]).value, abs=0.02)


def test_by_hand():
    # One harmful text of toxicity e and one benign of 1: a normal difference must exceed 1. Both normals are standard,
    # so the difference has SD root 2: 1 - Phi(1 / 1.414) = 0.2398. The average over two such demographics is the same.
    alike = Toxicities(np.array([np.e]), np.array([1.0]))
    standard = Moments(3.0, 1.0)
    assert approximate_indifference(standard, standard, [alike, alike]) == pytest.approx(0.23975, abs=1e-5)
    assert approximate_auc(standard, standard) == 0.5
    # (1 - 0) / root(1 + 1) = 0.7071: Phi = 0.7602.
    assert approximate_auc(Moments(1, 1), Moments(0, 1)) == pytest.approx(0.76025, abs=1e-5)


@pytest.mark.slow
@needs_toxigen
def test_the_counts_of_toxicities_that_come_along_are_those_of_toxigen():
    texts = Counter(
        (name, "harmful" if sentence.harmful else "benign", sentence.toxicity)
        for sentence in read_safenlp(TOXIGEN)
        for name in sentence.demographics
    )
    with COUNTS.open(encoding="utf-8", newline="") as file:
        kept = {
            (row["target_group"], row["label"], float(row["toxicity"])): int(row["texts"])
            for row in csv.DictReader(file)
        }
    assert kept == texts
