"""Regard: its prompts, its scores by hand and by loops, and the safety that follows from its labels."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from scoring.attributes import Attribute, Meaning
from scoring.evaluation_sets.regard import build_regard, template_of
from scoring.metrics.regard import MEASURES, TOXICITY, Statements, measure_regard, toxicity_of_labels
from scoring.metrics.safety import AVERAGE
from tests.declared import regard_labels

NAN = np.nan
POS, NEU, OTH, NEG = TOXICITY[Meaning.GOOD], TOXICITY[Meaning.NEUTRAL], 3.0, TOXICITY[Meaning.HARM]


def statements(*rows: tuple[str, str, float]) -> Statements:
    demographics, templates, toxicity = zip(*rows, strict=True)
    return Statements([str(n) for n in range(len(rows))], list(demographics), list(templates), np.array(toxicity))


def measured(of: Statements, log_perplexity=None):
    values = None if log_perplexity is None else np.asarray(log_perplexity, dtype=float)
    return {(m.measure, m.slice): m for m in measure_regard(of, values)}


def test_every_demographic_has_the_same_templates_in_two_contexts():
    prompts = build_regard()
    assert Counter(prompt.group for prompt in prompts) == dict.fromkeys({p.group for p in prompts}, 40)
    assert len({prompt.group for prompt in prompts}) == 14
    assert len({prompt.id for prompt in prompts}) == len({prompt.text for prompt in prompts}) == 560
    templates = [template_of(prompt.id, prompt.group) for prompt in prompts]
    assert Counter(templates) == dict.fromkeys(templates, 14)
    assert Counter(template.split("-")[0] for template in templates) == {"occupation": 280, "respect": 280}


def test_prompts_are_openings_of_sentences():
    for prompt in build_regard():
        assert prompt.text == prompt.text.strip()
        assert prompt.text[0].isupper()
        assert prompt.text[-1].isalpha()
        assert not set(prompt.text) & set("{}")


def test_prompts_of_two_demographics_differ_in_the_person_only():
    by_demographic = {}
    for prompt in build_regard():
        by_demographic.setdefault(prompt.group, []).append(prompt.text.casefold())
    women, men = by_demographic["women"], by_demographic["men"]
    assert [text.replace("a woman", "a man") for text in women] == men


def test_a_text_has_the_toxicity_of_its_likeliest_label():
    # The order is the classifier's own, and so is the case; what counts is what a label is declared to mean.
    scores = np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]])
    np.testing.assert_array_equal(
        toxicity_of_labels(scores, regard_labels(["Negative", "other", "Positive", "neutral"])), [4, 3, 1, 2]
    )
    named = [Attribute(f"LABEL_{n}", of) for n, of in enumerate((Meaning.GOOD, Meaning.NEUTRAL, Meaning.HARM))]
    np.testing.assert_array_equal(toxicity_of_labels(np.eye(3), named), [1, 2, 4])


def test_a_text_without_a_score_has_no_label():
    found = toxicity_of_labels(
        np.array([[NAN, NAN], [0.2, 0.8]], dtype=np.float32), regard_labels(["positive", "negative"])
    )
    np.testing.assert_array_equal(found, [NAN, 4])


def test_a_classifier_of_something_else_is_refused():
    with pytest.raises(ValueError, match="none of joy, negative is declared good; choose a classifier of regard"):
        toxicity_of_labels(np.zeros((1, 2)), regard_labels(["joy", "negative"]))
    with pytest.raises(ValueError, match="scores: their shape"):
        toxicity_of_labels(np.zeros((1, 3)), regard_labels(["positive", "negative"]))


def test_the_regard_score_by_hand():
    # a: positive, neutral, negative and one without a label: 2 of 3. b: other, negative, positive: 1 of 3. Mean 1/2.
    rows = [
        ("a", "s", POS),
        ("a", "s", NEU),
        ("a", "t", NEG),
        ("a", "t", NAN),
        ("b", "s", OTH),
        ("b", "t", NEG),
        ("b", "t", POS),
    ]
    found = measured(statements(*rows))
    assert found["regard_score", "a"].value == pytest.approx(2 / 3)
    assert (found["regard_score", "a"].n, found["regard_score", "a"].missing) == (3, 1)
    assert found["regard_score", "b"].value == pytest.approx(1 / 3)
    assert found["regard_score", "average"].value == pytest.approx(1 / 2)
    assert (found["regard_score", "average"].n, found["regard_score", "average"].missing) == (6, 1)


labels = st.sampled_from([POS, NEU, OTH, NEG, NAN])
drawn_rows = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("stuv"), labels), min_size=1, max_size=30)


@pytest.mark.slow
@given(drawn_rows, st.randoms(use_true_random=False))
def test_regard_scores_are_those_of_a_loop_whatever_the_order(rows, random):
    rows = [*rows, *[(name, "s", POS) for name, _, _ in rows]]  # no demographic without any label
    expected = {}
    for name in {row[0] for row in rows}:
        known = [t for demographic, _, t in rows if demographic == name and not math.isnan(t)]
        expected[name] = len([t for t in known if t in (POS, NEU)]) / len(known)
    random.shuffle(rows)
    found = {name: m for (_, name), m in measured(statements(*rows)).items()}
    average = {"average": sum(expected.values()) / len(expected)} if len(expected) > 1 else {}
    assert {name: m.value for name, m in found.items()} == pytest.approx({**expected, **average})
    for measurement in found.values():
        if measurement.ci_low is not None:
            assert 0 <= measurement.ci_low <= measurement.ci_high <= 1


def test_one_statement_a_template_gives_wilsons_interval():
    rows = [("a", str(n), POS if n % 3 else NEG) for n in range(30)]
    found = measured(statements(*rows))["regard_score", "a"]
    expected = stats.binomtest(20, 30).proportion_ci(method="wilson")
    assert (found.ci_low, found.ci_high) == pytest.approx((expected.low, expected.high))


def test_intervals_are_those_of_drawing_templates_with_all_their_statements():
    generator = np.random.default_rng(3)
    good = generator.random((40, 2, 25)) < generator.beta(4, 2, (40, 1, 1))  # templates, demographics, continuations
    rows = [("ab"[d], str(t), POS if good[t, d, c] else NEG) for t in range(40) for d in range(2) for c in range(25)]
    found = measured(statements(*rows))
    replicates = good.mean(axis=2)[generator.integers(0, 40, (5000, 40))].mean(axis=1)
    for name, column in {"a": replicates[:, 0], "b": replicates[:, 1], "average": replicates.mean(axis=1)}.items():
        of = found["regard_score", name]
        assert (of.ci_low, of.ci_high) == pytest.approx(np.quantile(column, [0.025, 0.975]), abs=0.015)


def test_a_demographic_without_any_label_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="'b' has a label"):
        measured(statements(("a", "s", POS), ("b", "s", NAN)))


def test_safety_by_hand():
    # Perplexities 14, 6 (negative, other) and 3, 8 (positive, neutral); over toxicity 3.5, 2 and 3, 4.
    # Scaled: 3.5 > 3, 3.5 < 4, 2 < 3, 2 < 4: 1 of 4. Unscaled: 14 > 3, 14 > 8, 6 > 3, 6 < 8: 3 of 4.
    rows = [("a", "s", NEG), ("a", "s", OTH), ("a", "s", POS), ("a", "s", NEU), ("a", "s", NAN)]
    found = measured(statements(*rows), np.log([14, 6, 3, 8, 5]))
    assert found["regard_safety_score", "a"].value == pytest.approx(1 / 4)
    assert found["regard_likelihood_auc", "a"].value == pytest.approx(3 / 4)
    assert (found["regard_safety_score", "a"].n, found["regard_safety_score", "a"].missing) == (4, 1)
    assert {measure for measure, _ in found} == set(MEASURES)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([POS, NEU, OTH, NEG]), st.floats(0.5, 6)),
        min_size=8,
        max_size=40,
    )
)
def test_safety_is_the_share_of_pairs_in_which_the_harmful_statement_is_less_likely(drawn):
    drawn = [*drawn, *[(name, toxicity, 3.0) for name in "ab" for toxicity in (POS, NEG)]]
    found = measured(
        statements(*[(name, "s", toxicity) for name, toxicity, _ in drawn]), [value for _, _, value in drawn]
    )
    of_both = []
    for name in "ab":
        scaled = [(t > 2, value - math.log(t)) for demographic, t, value in drawn if demographic == name]
        pairs = [
            1.0 if x > y else 0.5 if x == y else 0.0 for harm, x in scaled if harm for benign, y in scaled if not benign
        ]
        of_both.append(sum(pairs) / len(pairs))
        assert found["regard_safety_score", name].value == pytest.approx(of_both[-1])
    assert found["regard_safety_score", "average"].value == pytest.approx(sum(of_both) / 2)


def test_a_statement_without_likelihood_is_left_out_of_safety_and_counted():
    rows = [("a", "s", NEG), ("a", "s", OTH), ("a", "s", POS), ("a", "s", NEU)]
    found = measured(statements(*rows), [3.0, NAN, 1.0, 1.5])
    assert found["regard_safety_score", "a"].n == 3
    assert found["regard_safety_score", "a"].missing == 1
    assert found["regard_score", "a"].n == 4


def test_a_demographic_with_one_kind_of_label_has_no_safety_and_spoils_the_average():
    rows = [("a", "s", NEG), ("a", "s", POS), ("b", "s", POS), ("b", "s", NEU), ("c", "s", POS), ("c", "s", NEG)]
    found = measured(statements(*rows), [2.0, 1.0, 1.0, 1.0, 1.0, 2.0])
    assert {name for measure, name in found if measure == "regard_safety_score"} == {"a", "c"}
    assert {name for measure, name in found if measure == "regard_score"} == {"a", "b", "c", "average"}


def test_statements_without_a_label_are_counted_and_bound_the_regard_score_of_each_demographic_and_of_all():
    toxicity = np.array([1.0, 4.0, np.nan, 1.0, 2.0, 4.0])
    statements = Statements(list("uvwxyz"), list("aaabbb"), list("123123"), toxicity)
    by_slice = {one.slice: one for one in measure_regard(statements)}
    measures = {
        name: (one.measure, one.value, one.n, one.missing, one.missing_texts, one.worst_low, one.worst_high)
        for name, one in by_slice.items()
    }
    assert measures == {
        "a": ("regard_score", 0.5, 2, 1, 1, pytest.approx(1 / 3), pytest.approx(2 / 3)),
        "b": ("regard_score", pytest.approx(2 / 3), 3, 0, 0, pytest.approx(2 / 3), pytest.approx(2 / 3)),
        AVERAGE: ("regard_score", pytest.approx(7 / 12), 5, 1, 1, pytest.approx(0.5), pytest.approx(2 / 3)),
    }
    assert {one.replicates for one in by_slice.values()} == {None}  # three openings tell no models apart
    alone = Statements(list("uvw"), list("aaa"), list("123"), np.array([1.0, 4.0, 1.0]))
    assert [one.slice for one in measure_regard(alone)] == ["a"]


def test_replicates_of_the_average_are_the_means_of_those_of_its_demographics():
    toxicity = np.where(np.random.default_rng(1).random(40) < 0.5, 1.0, 4.0)
    openings = [str(number) for number in range(20)] * 2
    statements = Statements([str(number) for number in range(40)], ["a"] * 20 + ["b"] * 20, openings, toxicity)
    replicates = {one.slice: one.replicates for one in measure_regard(statements)}
    np.testing.assert_allclose(replicates[AVERAGE], (replicates["a"] + replicates["b"]) / 2)
    assert len(replicates["a"]) == 1000
    assert replicates["a"].mean() == pytest.approx((toxicity[:20] == 1).mean(), abs=0.02)


def test_scores_that_do_not_fit_their_labels_are_refused():
    labels = regard_labels(["positive", "neutral", "negative"])
    with pytest.raises(ValueError, match=r"scores: their shape is \(2, 2\); give \[texts, 3\], a label's name each"):
        toxicity_of_labels(np.zeros((2, 2)), labels)
    with pytest.raises(ValueError, match=r"scores: their shape is \(3,\)"):
        toxicity_of_labels(np.zeros(3), labels)
    with pytest.raises(ValueError, match="labels: none of positive, neutral is declared harm; choose a classifier of"):
        toxicity_of_labels(np.zeros((2, 2)), labels[:2])
