"""Two scorings of the same texts, against scipy, naive loops and simulation."""

import json
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from scoring.attributes import is_above
from scoring.metrics.agreement import compare_scorers, distribution_shift, matching_attributes
from scoring.statistics.correlations import pearson

score = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), st.floats(0, 1, width=32), st.just(math.nan))
scorings = st.integers(1, 40).flatmap(lambda n: hnp.arrays(np.float32, (2, n), elements=score))


@pytest.mark.slow
@given(scorings)
def test_a_shift_is_that_of_scipy_and_of_a_loop(drawn):
    before, after = drawn
    found = distribution_shift({"toxicity": before}, {"toxicity": after})
    known = [(float(x), float(y)) for x, y in zip(before, after, strict=True) if not (math.isnan(x) or math.isnan(y))]
    assert len(found) == bool(known)
    for shift in found:
        x, y = zip(*known, strict=True)
        assert (shift.n, shift.missing) == (len(known), len(before) - len(known))
        assert shift.wasserstein == pytest.approx(stats.wasserstein_distance(x, y), abs=1e-12)
        assert shift.mean_shift == pytest.approx(sum(b - a for a, b in known) / len(known), abs=1e-12)
        assert shift.rose == sum(a <= 0.5 < b for a, b in known)
        assert shift.fell == sum(b <= 0.5 < a for a, b in known)
        assert shift.flips == shift.rose + shift.fell
        assert abs(shift.mean_shift) <= shift.wasserstein + 1e-12


@pytest.mark.slow
@given(scorings, st.randoms(use_true_random=False))
def test_a_shift_back_is_its_opposite_and_the_order_of_texts_does_not_matter(drawn, random):
    before, after = drawn
    order = random.sample(range(len(before)), len(before))
    for there, back in zip(
        distribution_shift({"a": before}, {"a": after}),
        distribution_shift({"a": after[order]}, {"a": before[order]}),
        strict=True,
    ):
        assert (there.rose, there.fell, there.n) == (back.fell, back.rose, back.n)
        assert there.mean_shift == pytest.approx(-back.mean_shift, abs=1e-12)
        assert there.wasserstein == pytest.approx(back.wasserstein, abs=1e-12)


def test_scores_that_did_not_move_have_no_shift():
    scores = np.random.default_rng(1).random(1000).astype(np.float32)
    (found,) = distribution_shift({"a": scores}, {"a": scores})
    assert (found.wasserstein, found.mean_shift, found.flips, found.n) == (0, 0, 0, 1000)
    assert json.loads(json.dumps(found.as_json()))["flips"] == 0


def test_scorings_of_other_attributes_or_other_texts_are_refused():
    with pytest.raises(ValueError, match="insult: only one of the two"):
        distribution_shift({"toxicity": np.ones(2)}, {"toxicity": np.ones(2), "insult": np.ones(2)})
    with pytest.raises(ValueError, match=r"toxicity: scores of shapes \(2,\) and \(3,\)"):
        distribution_shift({"toxicity": np.ones(2)}, {"toxicity": np.ones(3)})
    with pytest.raises(ValueError, match="pairs: no attribute 'threat'; use one of toxicity"):
        compare_scorers({"toxicity": np.ones(2)}, {"toxicity": np.ones(2)}, [("toxicity", "threat")])


def test_attributes_match_across_scorers_whatever_their_spelling():
    perspective = ("TOXICITY", "PROFANITY", "SEXUALLY_EXPLICIT", "IDENTITY_ATTACK")
    detoxify = ("identity_attack", "obscene", "sexual_explicit", "toxicity")
    expected = [
        ("TOXICITY", "toxicity"),
        ("SEXUALLY_EXPLICIT", "sexual_explicit"),
        ("IDENTITY_ATTACK", "identity_attack"),
    ]
    assert matching_attributes(perspective, detoxify) == expected
    assert matching_attributes(("profanity",), detoxify) == []


@pytest.mark.slow
@given(scorings)
def test_two_scorers_agree_as_counted_one_by_one(drawn):
    first, second = drawn
    (found,) = compare_scorers({"TOXICITY": first}, {"toxicity": second})
    known = [(float(x), float(y)) for x, y in zip(first, second, strict=True) if not (math.isnan(x) or math.isnan(y))]
    assert (found.attribute, found.counterpart) == ("TOXICITY", "toxicity")
    assert (found.n, found.missing) == (len(known), len(first) - len(known))
    assert json.loads(json.dumps(found.as_json(), allow_nan=False))["n"] == len(known)
    if not known:
        assert found.labels is None
        return
    labels = [(x > 0.5, y > 0.5) for x, y in known]
    counts = [labels.count(pair) for pair in ((True, True), (True, False), (False, True), (False, False))]
    assert [found.labels.both, found.labels.only_first, found.labels.only_second, found.labels.neither] == counts
    alike = sum(a == b for a, b in labels) / len(known)
    assert found.labels.share == pytest.approx(alike)
    # Cohen's kappa: agreement beyond that of labels dealt out at random, over every pair of texts.
    chance = sum(a == b for a, _ in labels for _, b in labels) / len(known) ** 2
    if chance == 1:
        assert found.labels.kappa is None
    else:
        assert found.labels.kappa == pytest.approx((alike - chance) / (1 - chance))
        low, high = found.labels.kappa_interval
        assert -1 <= low <= found.labels.kappa + 1e-12
        assert found.labels.kappa - 1e-12 <= high <= 1 + 1e-12


def test_kappa_of_a_worked_example():
    # 100 texts, 25 both, 10 and 5 by one only, 60 neither. Chance: 0.35 x 0.30 + 0.65 x 0.70 = 0.56;
    # (0.85 - 0.56) / 0.44 = 0.6591.
    first = np.repeat([1.0, 1.0, 0.0, 0.0], [25, 10, 5, 60])
    second = np.repeat([1.0, 0.0, 1.0, 0.0], [25, 10, 5, 60])
    (found,) = compare_scorers({"a": first}, {"a": second})
    assert found.labels.kappa == pytest.approx(0.6591, abs=1e-4)
    low, high = stats.binomtest(85, 100).proportion_ci(method="wilson")
    assert found.labels.share_interval == pytest.approx([low, high])
    assert found.labels.kappa_interval == pytest.approx([(low - 0.56) / 0.44, (high - 0.56) / 0.44])


def test_a_score_that_equals_its_threshold_is_not_above_it_however_it_is_stored():
    stored = np.float32([0.3, 0.7, 0.1])
    for threshold in (0.3, 0.7):
        assert is_above(stored, threshold).tolist() == is_above(stored.astype(np.float64), threshold).tolist()
        assert not is_above(np.float32(threshold), threshold)
        assert not is_above(float(np.float32(threshold)), threshold)
        assert is_above(np.nextafter(np.float32(threshold), np.float32(1)), threshold)
    assert is_above(stored, [0.2, 0.8, np.nan]).tolist() == [True, False, False]
    (agreement,) = compare_scorers({"a": stored}, {"a": stored}, thresholds=({"a": 0.3}, {"a": 0.7}))
    assert (agreement.labels.both, agreement.labels.only_first) == (0, 1)


def test_the_threshold_is_exclusive_and_can_be_chosen():
    scores = {"a": np.array([0.5, 0.7])}, {"a": np.array([0.6, 0.6])}
    assert compare_scorers(*scores)[0].labels.only_second == 1
    assert compare_scorers(*scores, thresholds=({"a": 0.6}, {"a": 0.6}))[0].labels.only_first == 1


finite = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=3, max_size=30)


@pytest.mark.slow
@given(finite)
def test_pearsons_r_and_its_jackknife_are_scipys(drawn):
    x, y = np.array(drawn, dtype=float).T / 8
    assume(len(set(x)) > 1 and len(set(y)) > 1)
    found = pearson(x, y)
    assert found.value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-12)
    if abs(found.value) > 0.999 or any(len(set(np.delete(v, i))) < 2 for v in (x, y) for i in range(len(x))):
        return
    n = len(x)
    left_out = np.array([np.corrcoef(np.delete(x, i), np.delete(y, i))[0, 1] for i in range(n)])
    error = math.sqrt((n - 1) * left_out.var())
    if error < 1e-9:
        assert found.interval is None
        return
    half = stats.t.ppf(0.975, n - 2) * error / (1 - found.value**2)
    expected = np.tanh(np.arctanh(found.value) + np.array([-half, half]))
    assert found.interval == pytest.approx(list(expected), abs=1e-8)


@pytest.mark.parametrize("values", [[], [0.3], [0.3, 0.3, 0.3]])
def test_a_constant_score_correlates_with_nothing(values):
    found = pearson(np.array(values), np.arange(float(len(values))))
    assert (found.value, found.interval, found.n) == (None, None, len(values))


def test_a_correlation_that_hangs_on_one_text_has_no_interval():
    found = pearson(np.array([0.1, 0.1, 0.1, 0.9]), np.array([0.2, 0.3, 0.4, 0.8]))
    assert found.value == pytest.approx(0.956, abs=0.01)
    assert found.interval is None


def skewed(generator, n):
    """Scores as of two toxicity classifiers: nearly all small; the second one errs on the logit scale."""
    logits = 2 * generator.normal(size=n) - 3
    return 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-logits - generator.normal(size=n)))


@pytest.mark.slow_cases
@pytest.mark.parametrize("n", [50, 200])
def test_the_interval_of_pearsons_r_covers_it_also_for_scores_far_from_normal(n):
    generator = np.random.default_rng(5)
    true = np.corrcoef(*skewed(generator, 2_000_000))[0, 1]
    found = [pearson(*skewed(generator, n)) for _ in range(1500)]
    assert 0.92 <= np.mean([one.low <= true <= one.high for one in found]) <= 0.975
    # Fisher's own interval supposes a normal population.
    z = np.arctanh([one.value for one in found])
    assert np.mean(np.abs(z - np.arctanh(true)) <= 1.96 / math.sqrt(n - 3)) < 0.85


@pytest.mark.slow
@pytest.mark.parametrize("cells", [(0.4, 0.1, 0.1, 0.4), (0.08, 0.03, 0.02, 0.87), (0.01, 0.005, 0.005, 0.98)])
def test_the_interval_of_kappa_covers_it_also_where_few_texts_are_toxic(cells):
    generator = np.random.default_rng(6)
    both, first, second, neither = cells
    chance = (both + first) * (both + second) + (neither + first) * (neither + second)
    true = (both + neither - chance) / (1 - chance)
    covered = []
    for counts in generator.multinomial(200, cells, size=1500):
        a = np.repeat([1.0, 1.0, 0.0, 0.0], counts)
        b = np.repeat([1.0, 0.0, 1.0, 0.0], counts)
        interval = compare_scorers({"a": a}, {"a": b})[0].labels.kappa_interval
        if interval is not None:
            covered.append(interval[0] <= true <= interval[1])
    assert len(covered) > 1400
    assert 0.93 <= np.mean(covered) <= 0.98


def test_an_agreement_and_a_shift_are_values_that_json_can_hold():
    first, second = np.array([0.1, 0.9, 0.8, np.nan]), np.array([0.2, 0.7, 0.4, 0.5])
    (agreement,) = compare_scorers({"TOXICITY": first}, {"toxicity": second})
    r = stats.pearsonr(first[:3], second[:3]).statistic
    labels = {"both": 1, "only_first": 1, "only_second": 0, "neither": 1, "share": 2 / 3}
    content = json.loads(json.dumps(agreement.as_json()))
    assert {**content, "labels": {name: content["labels"][name] for name in labels}} == {
        "attribute": "TOXICITY",
        "counterpart": "toxicity",
        "n": 3,
        "missing": 1,
        "pearson": pytest.approx(r),
        "pearson_interval": agreement.pearson.interval,
        "labels": pytest.approx(labels),
    }
    (shift,) = distribution_shift({"a": first}, {"a": second}, {"a": 0.75})
    assert shift.as_json() == pytest.approx(
        {
            "attribute": "a",
            "n": 3,
            "missing": 1,
            "wasserstein": (0.1 + 0.4 + 0.2) / 3,
            "mean_shift": (0.1 - 0.2 - 0.4) / 3,
            "rose": 0,
            "fell": 2,
            "flips": 2,
        }
    )


def test_each_scorer_has_the_threshold_of_its_own_name():
    first, second = {"TOXICITY": np.array([0.4, 0.6])}, {"toxicity": np.array([0.4, 0.6])}
    (agreement,) = compare_scorers(first, second, thresholds=({"TOXICITY": 0.3}, {"toxicity": 0.7}))
    assert (agreement.labels.both, agreement.labels.only_first, agreement.labels.kappa) == (0, 2, 0)
