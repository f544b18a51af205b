"""Lexicon frequency: by hand, against a loop, intervals and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from scoring.metrics.lexicon_frequency import measure_lexicon_frequency

CATEGORIES = ["hostility", "racism", "stoicism"]


@st.composite
def matches(draw):
    """Whether continuations match, [prompts, k, 3]; some continuations without a score, never all of them."""
    prompts, k = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    scores = draw(hnp.arrays(np.float64, (prompts, k, 3), elements=st.sampled_from([0.0, 1.0])))
    missing = draw(hnp.arrays(np.bool_, (prompts, k)))
    missing[0, 0] = False
    scores[missing] = np.nan
    return scores


def by_slice(scores, categories=CATEGORIES):
    return {m.slice: m for m in measure_lexicon_frequency(scores, categories)}


def test_by_hand():
    # Four continuations, one without a score: of three, two match the first category, none the second, one the third;
    # any: the first two rows match something, so does the third: 3 of 3.
    scores = np.array([[[1, 0, 0], [1, 0, 0]], [[0, 0, 1], [np.nan] * 3]])
    found = by_slice(scores)
    assert [found[name].value for name in [*CATEGORIES, "any"]] == pytest.approx([200 / 3, 0, 100 / 3, 100])
    assert {(m.n, m.missing, m.k) for m in found.values()} == {(3, 1, 2)}


@pytest.mark.slow
@given(matches())
def test_every_percentage_is_that_of_a_loop(scores):
    found = by_slice(scores)
    texts = [row for prompt in scores.tolist() for row in prompt if row[0] == row[0]]
    for column, name in enumerate(CATEGORIES):
        assert found[name].value == pytest.approx(100 * sum(row[column] for row in texts) / len(texts))
    assert found["any"].value == pytest.approx(100 * len([row for row in texts if any(row)]) / len(texts))
    assert max(found[name].value for name in CATEGORIES) <= found["any"].value
    assert {m.n for m in found.values()} == {len(texts)}


@pytest.mark.slow
@given(matches())
def test_worst_cases_are_those_of_missing_continuations_that_all_match_or_none(scores):
    least, most = (by_slice(np.nan_to_num(scores, nan=match)) for match in (0.0, 1.0))
    for name, measurement in by_slice(scores).items():
        assert measurement.worst_low == pytest.approx(least[name].value)
        assert measurement.worst_high == pytest.approx(most[name].value)
        assert measurement.missing_texts == np.isnan(scores[:, :, 0]).sum()


@pytest.mark.slow
@given(matches(), st.randoms(use_true_random=False))
def test_the_order_of_continuations_and_prompts_changes_no_value(scores, random):
    rows, columns = list(range(scores.shape[0])), list(range(scores.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    again = by_slice(scores[rows][:, columns])
    for name, measurement in by_slice(scores).items():
        assert again[name].value == pytest.approx(measurement.value)
        assert (again[name].n, again[name].missing) == (measurement.n, measurement.missing)


@pytest.mark.slow
@given(matches())
def test_intervals_are_ordered_and_within_0_and_100(scores):
    for found in by_slice(scores).values():
        if found.ci_low is None:
            assert 0 < found.value < 100
            assert found.ci_high is None
        else:
            assert 0 <= found.ci_low <= found.ci_high <= 100


def test_one_continuation_a_prompt_gives_wilsons_interval():
    scores = np.random.default_rng(1).integers(0, 2, (50, 1, 3)).astype(float)
    for column, name in enumerate(CATEGORIES):
        found = by_slice(scores)[name]
        expected = stats.binomtest(int(scores[:, 0, column].sum()), 50).proportion_ci(method="wilson")
        assert (found.ci_low, found.ci_high) == pytest.approx((100 * expected.low, 100 * expected.high))


def test_continuations_of_a_prompt_that_go_together_widen_the_interval():
    of_prompt = (np.random.default_rng(2).random((200, 1, 3)) < 0.3).astype(float)
    together = by_slice(np.repeat(of_prompt, 10, axis=1))["any"]
    one_each = by_slice(of_prompt)["any"]
    assert together.value == pytest.approx(one_each.value)
    # Ten copies tell no more than one: the bootstrap's width is Wilson's of 200, not of 2,000.
    assert together.ci_high - together.ci_low == pytest.approx(one_each.ci_high - one_each.ci_low, rel=0.1)


@pytest.mark.parametrize(
    ("scores", "categories", "said"),
    [
        (np.zeros((2, 3)), CATEGORIES, "scores: their shape"),
        (np.zeros((2, 3, 1)), CATEGORIES, "scores: their shape"),
        (np.zeros((2, 3, 1)), ["any"], "categories: 'any'"),
        (np.full((2, 3, 1), 0.5), ["racism"], "not 0, 1 or NaN"),
        (np.full((2, 3, 1), np.nan), ["racism"], "not one continuation"),
        (np.array([[[1.0, np.nan]]]), ["racism", "hostility"], "some categories only"),
    ],
)
def test_arrays_that_are_no_matches_are_refused(scores, categories, said):
    with pytest.raises(ValueError, match=said):
        measure_lexicon_frequency(scores, categories)


def test_replicates_are_percentages_of_the_same_drawn_prompts():
    scores = np.random.default_rng(3).integers(0, 2, (40, 2, 3)).astype(float)
    scores[0] = np.nan
    slices = by_slice(scores)
    for measurement in slices.values():
        assert len(measurement.replicates) == 1000
        assert measurement.replicates.mean() == pytest.approx(measurement.value, abs=1)
        assert measurement.replicates.std() == pytest.approx((measurement.ci_high - measurement.ci_low) / 4, rel=0.2)
    # Together they say how often a text matches both: draws are shared.
    both = np.corrcoef(slices["hostility"].replicates, slices["any"].replicates)[0, 1]
    assert both > 0.2


def test_prompts_of_which_nothing_has_a_score_are_no_clusters():
    scores = np.zeros((8, 1, 1))
    scores[:3, 0] = np.nan
    scores[3, 0] = 1
    measurement = by_slice(scores, ["racism"])["racism"]
    expected = stats.binomtest(1, 5).proportion_ci(method="wilson")
    assert (measurement.ci_low, measurement.ci_high) == pytest.approx((100 * expected.low, 100 * expected.high))
    assert measurement.replicates is None  # five prompts tell no models apart
    assert (measurement.worst_low, measurement.worst_high) == (100 / 8, 100 * 4 / 8)
