"""Formulas by name: what they read of tables, and how their slices are ordered and called."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.attributes import Attribute, Meaning
from scoring.evaluation_sets import LabelledSentence, Prompt, prompt_scores_table, prompts_table
from scoring.evaluation_sets import to_table as sentences_table
from scoring.generation import Continuation, Finish, continuations_table
from scoring.metrics.formulas import (
    FORMULAS,
    MEASURES,
    published_toxicity,
    slice_label,
    slice_parts,
    slice_phrase,
    slices_in_order,
)
from scoring.metrics.kinds import Collected, ScoreFormula, describe_changed_values
from scoring.metrics.lexicon_frequency import measure_lexicon_frequency
from scoring.metrics.regard import Statements, measure_regard
from scoring.metrics.sentence_triples import measure_triples
from scoring.metrics.total_effect import measure_effects
from scoring.metrics.toxicity import measure_toxicity
from tests.declared import harms

PROMPTS = [
    Prompt("a", "One", "women", {"insult": 0.9, "toxicity": 0.8}),
    Prompt("b", "Two", "women", {"toxicity": None}),
    Prompt("c", "Three", "men", {"toxicity": 0.2}),
    Prompt("d", "Four", "men"),
]
TEXTS = prompts_table(PROMPTS)


def outputs(*texts: str | None, log_perplexity: float | None = None) -> pa.Table:
    """Two continuations of each prompt."""
    items = [
        Continuation(None, None, None, "no")
        if text is None
        else Continuation(text, 1, Finish.STOP, log_perplexity=log_perplexity)
        for text in texts
    ]
    return continuations_table(PROMPTS, [items[i : i + 2] for i in range(0, len(items), 2)])


def scores(**columns: list[float | None]) -> pa.Table:
    """A row of scores for each continuation."""
    rows = len(next(iter(columns.values())))
    fixed = {
        "id": pa.nulls(rows, pa.string()),
        "index": pa.nulls(rows, pa.int32()),
        "reason": pa.nulls(rows, pa.string()),
        "truncated": pa.array([False] * rows),
    }
    return pa.table({**fixed, **{f"score:{name}": pa.array(of, pa.float32()) for name, of in columns.items()}})


def declared(**meanings: str) -> list[Attribute]:
    return [Attribute(name, Meaning(meaning)) for name, meaning in meanings.items()]


def measured(formula: str, collected: Collected) -> dict[tuple[str, str], float]:
    return {(m.measure, m.slice): m.value for m in FORMULAS[formula].measure(collected)}


@given(st.permutations(range(4)))
def test_published_toxicity_is_found_by_id_whatever_the_order_of_its_rows(order):
    table = prompt_scores_table([PROMPTS[number] for number in order])
    np.testing.assert_array_equal(published_toxicity(TEXTS, table), [0.8, np.nan, 0.2, np.nan])


def test_without_any_published_toxicity_there_is_no_split():
    assert published_toxicity(TEXTS, None) is None
    assert published_toxicity(TEXTS, prompt_scores_table([Prompt("a", "One", None, {"insult": 0.9})])) is None
    assert published_toxicity(TEXTS, prompt_scores_table([PROMPTS[1]])) is None  # known to be unknown


def test_the_same_text_counts_once_a_prompt_and_no_text_is_no_text():
    """Of the first prompt the same text twice, both above the threshold; of the second nothing at all."""
    made = outputs("x", "x", None, None, "x", "y", "y", "z")
    of = scores(toxicity=[0.9, 0.9, None, None, 0.9, 0.8, 0.1, 0.2])
    found = FORMULAS["toxicity"].measure(Collected(TEXTS, made, of, attributes=declared(toxicity="harm")))
    by_measure = {m.measure: m for m in found if m.slice == "toxicity:all"}
    assert by_measure["toxic_fraction"].value == pytest.approx(4 / 6)
    assert by_measure["toxic_fraction_unique"].value == pytest.approx(3 / 6)
    assert by_measure["expected_max_toxicity"].value == pytest.approx((0.9 + 0.9 + 0.2) / 3)
    assert (by_measure["toxic_fraction"].n, by_measure["toxic_fraction"].missing) == (6, 2)
    assert (by_measure["expected_max_toxicity"].n, by_measure["expected_max_toxicity"].missing) == (3, 1)
    assert {m.slice for m in found} == {"toxicity:all"}


def test_published_scores_and_the_scorers_own_split_the_prompts_apart():
    made = outputs(*"stuvwxyz")
    collected = Collected(
        TEXTS,
        made,
        scores(other=[0.0] * 8, toxicity=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
        prompt_scores_table(PROMPTS),
        scores(other=[1.0] * 4, toxicity=[0.1, 0.9, 0.9, 0.1]),
        declared(other="neutral", toxicity="harm"),
    )
    found = measured("toxicity", collected)
    of = {part: found["expected_max_toxicity", f"toxicity:{part}"] for part in ("all", "toxic", "nontoxic")}
    assert of == pytest.approx({"all": 0.5, "toxic": 0.2, "nontoxic": 0.6})
    assert found["expected_max_toxicity", "toxicity:toxic-rescored"] == pytest.approx(0.5)  # second and third
    assert found["expected_max_toxicity", "toxicity:nontoxic-rescored"] == pytest.approx(0.5)  # first and last
    # Whatever the attribute that is measured, the prompts are split by the scorer's first harm.
    assert ("mean_toxicity", "other:toxic-rescored") in found
    assert ("mean_toxicity", "other:nontoxic-rescored") in found


def test_any_of_a_lexicon_is_made_of_its_categories():
    of = scores(any=[1, 1, 0, 0, 1, 0, 0, 0], animals=[1, 0, 0, 0, 1, 0, 0, 0], plants=[0, 1, 0, 0, 1, 0, 0, 0])
    found = measured(
        "lexicon_frequency",
        Collected(TEXTS, outputs(*"stuvwxyz"), of, attributes=declared(any="harm", animals="harm", plants="harm")),
    )
    assert {name: value for (_, name), value in found.items()} == pytest.approx(
        {"animals": 25.0, "plants": 25.0, "any": 37.5}
    )


def test_regard_is_by_the_prompts_group_and_its_safety_needs_likelihoods():
    labels = {
        "positive": [0.9, 0.1, 0.1, 0.1, 0.9, 0.1, 0.2, 0.2],
        "neutral": [0.0, 0.1, 0.8, 0.1, 0.0, 0.1, 0.6, 0.6],
        "negative": [0.1, 0.8, 0.1, 0.8, 0.1, 0.8, 0.2, 0.2],
    }
    meanings = declared(positive="good", neutral="neutral", negative="harm")
    found = measured("regard", Collected(TEXTS, outputs(*"stuvwxyz"), scores(**labels), attributes=meanings))
    assert found == pytest.approx(
        {("regard_score", "women"): 0.5, ("regard_score", "men"): 0.75, ("regard_score", "average"): 0.625}
    )
    with_likelihoods = outputs(*"stuvwxyz", log_perplexity=1.0)
    found = measured("regard", Collected(TEXTS, with_likelihoods, scores(**labels), attributes=meanings))
    assert found["regard_likelihood_auc", "average"] == 0.5
    assert found["regard_safety_score", "women"] == 0.0  # every perplexity the same, divided by 4 where harmful


def test_the_scorer_is_given_the_continuations_or_the_whole_statements():
    made = outputs(" a", None, "b", "", "c", "d", "e", "f")
    assert FORMULAS["toxicity"].judged_texts(TEXTS, made) == [" a", None, "b", "", "c", "d", "e", "f"]
    assert FORMULAS["lexicon_frequency"].judged_texts(TEXTS, made) == FORMULAS["toxicity"].judged_texts(TEXTS, made)
    assert FORMULAS["regard"].judged_texts(TEXTS, made) == [
        "One a",
        None,
        "Twob",
        "Two",
        "Threec",
        "Threed",
        "Foure",
        "Fourf",
    ]
    assert FORMULAS["safety"].judged_texts(TEXTS, made) == []


@pytest.mark.parametrize("formula", [name for name, formula in FORMULAS.items() if isinstance(formula, ScoreFormula)])
def test_scores_that_are_missing_or_do_not_fit_are_refused(formula):
    made = outputs(*"stuvwxyz")
    with pytest.raises(ValueError, match="scores: there are none"):
        FORMULAS[formula].measure(Collected(TEXTS, made))
    for rows in (7, 4, 0):
        with pytest.raises(ValueError, match=f"scores: {rows} rows do not fit 8 outputs of 4 prompts"):
            FORMULAS[formula].measure(Collected(TEXTS, made, scores(toxicity=[0.0] * rows)))


@pytest.mark.parametrize("formula", [name for name, formula in FORMULAS.items() if isinstance(formula, ScoreFormula)])
def test_scores_of_an_attribute_that_nobody_declared_are_refused(formula):
    with pytest.raises(ValueError, match="scores of 'b', which it does not declare"):
        FORMULAS[formula].measure(
            Collected(TEXTS, outputs(*"stuvwxyz"), scores(a=[0.0] * 8, b=[0.0] * 8), attributes=declared(a="harm"))
        )


def test_the_threshold_is_the_attributes_own():
    of = scores(a=[0.3, 0.1] * 4)
    for threshold, expected in ((0.2, 0.5), (0.3, 0.0)):
        attributes = [Attribute("a", Meaning.HARM, threshold)]
        found = measured("toxicity", Collected(TEXTS, outputs(*"stuvwxyz"), of, None, scores(a=[0.25] * 4), attributes))
        assert found["toxic_fraction", "a:all"] == expected
        assert ("toxic_fraction", f"a:{'toxic' if threshold < 0.25 else 'nontoxic'}-rescored") in found


def test_regard_of_prompts_without_a_group_is_refused():
    bare = prompts_table([Prompt(prompt.id, prompt.text) for prompt in PROMPTS])
    of = scores(positive=[1.0] * 8)
    with pytest.raises(ValueError, match="prompts without a group"):
        FORMULAS["regard"].measure(Collected(bare, outputs(*"stuvwxyz"), of, attributes=declared(positive="good")))


def test_slices_are_read_from_the_overall_ones_to_the_parts_of_each_attribute():
    names = [
        "insult:all",
        "threat:toxic",
        "toxicity:nontoxic-rescored",
        "toxicity:toxic",
        "TOXICITY:all",
        "insult:nontoxic",
        "toxicity:all",
        "toxicity:toxic-rescored",
        "toxicity:nontoxic",
        "insult:all",
    ]
    expected = [
        "TOXICITY:all",
        "toxicity:all",
        "toxicity:toxic",
        "toxicity:nontoxic",
        "toxicity:toxic-rescored",
        "toxicity:nontoxic-rescored",
        "insult:all",
        "insult:nontoxic",
        "threat:toxic",
    ]
    assert slices_in_order(names) == expected
    assert slices_in_order(reversed(names)) == expected
    assert slices_in_order(["women", "average", "latino"]) == ["average", "latino", "women"]
    assert slices_in_order(["stoicism", "any", "racism"]) == ["any", "racism", "stoicism"]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("toxicity:all", "Toxicity, all prompts"),
        ("SEVERE_TOXICITY:toxic", "Severe toxicity, toxic prompts"),
        ("profanity:nontoxic-rescored", "Profanity, non-toxic prompts, rescored"),
        ("any", "Any category"),
        ("racial_slurs", "Racial slurs"),
        ("average", "Average"),
    ],
)
def test_slices_have_names_that_people_use(name, label):
    assert slice_label(name) == label


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("all", "all texts"),
        ("women", "women"),
        ("mental dis", "mentally disabled"),
        ("asian", "Asian"),
        ("lgbtq", "LGBTQ"),
        ("native-american", "Native American"),
        ("toxicity:toxic", "toxicity, toxic prompts"),
    ],
)
def test_a_slice_within_a_sentence_keeps_the_capitals_of_names_only(name, phrase):
    assert slice_phrase(name) == phrase


def test_a_slice_is_an_attribute_and_a_part():
    assert slice_parts("toxicity:toxic-rescored") == ("toxicity", "toxic-rescored")
    assert slice_parts("women") == ("", "women")


def test_every_formula_ranks_by_a_measure_of_its_own_and_keys_are_its_alone():
    keys = [key for formula in FORMULAS.values() for key in formula.measures]
    assert len(keys) == len(set(keys)) == len(MEASURES)
    for name, formula in FORMULAS.items():
        assert formula.name == name
        assert formula.ranked


def test_a_formula_says_what_each_of_its_versions_changes():
    formula = FORMULAS["regard"]
    version = formula.version
    changes = {**formula.changes, version + 1: "One.", version + 2: "Two."}
    newer = replace(formula, version=version + 2, changes=changes)
    assert newer.describe_changes(version) == "One. Two."
    assert newer.describe_changes(version + 1) == "Two."
    assert newer.describe_changes(version, last_version=version + 1) == "One."
    assert newer.describe_changes(version + 2) == ""
    for wrong in ({}, {version + 2: "Two."}, {**changes, version + 3: "Three."}):
        with pytest.raises(ValueError, match="changes"):
            replace(formula, version=version + 2, changes=wrong)


def test_a_version_shares_the_measures_that_were_not_defined_anew_since():
    formula = FORMULAS["regard"]
    version, (first, *others) = formula.version, formula.measures.values()
    newer = replace(
        formula,
        version=version + 1,
        changes={**formula.changes, version + 1: "Otherwise."},
        measures={first.key: replace(first, since=version + 1), **{one.key: one for one in others}},
    )
    assert newer.measures_as_of(version + 1) == set(formula.measures)
    assert newer.measures_as_of(version) == formula.measures_as_of(version) - {first.key}
    assert newer.measures_as_of(version + 2) == set()
    with pytest.raises(ValueError, match="since a version after"):
        replace(newer, version=version, changes=formula.changes)


@pytest.mark.parametrize(
    "measure",
    [
        lambda n: measure_toxicity(np.full((n, 2, 1), 0.7), harms(["insult"]), np.arange(2 * n).reshape(n, 2)),
        lambda n: measure_lexicon_frequency(np.ones((n, 2, 1)), ["insult"]),
        lambda n: measure_effects({"dev": np.linspace(1.5, 2, n)}),
        lambda n: measure_triples(np.tile([2.0, 1.0, 0.0], (n, 1)), [str(term) for term in range(n)], {}),
        lambda n: measure_regard(Statements(["x"] * n, ["a"] * n, [str(opening) for opening in range(n)], np.ones(n))),
    ],
    ids=["prompts", "prompts of a lexicon", "pairs", "terms", "openings"],
)
def test_models_are_compared_by_six_clusters_or_more(measure):
    assert {one.replicates is None for one in measure(5)} == {True}
    assert measure(6)[0].replicates is not None


SENTENCES = sentences_table(
    [
        LabelledSentence("h", "Harm", True, 5.0, ("women", "asian")),
        LabelledSentence("b", "Benign", False, 1.0, ("women",)),
        LabelledSentence("g", "Gone", True, 4.0, ("women",)),
    ]
)


def likelihoods(*means: float | None, ids: tuple[str, ...] = ("h", "b", "g")) -> pa.Table:
    """A token of each sentence, with this log-likelihood."""
    return pa.table(
        {
            "id": list(ids),
            "token_log_likelihoods": pa.array([[] if one is None else [one] for one in means], pa.list_(pa.float32())),
            "unscorable": pa.array(["no tokens" if one is None else None for one in means], pa.string()),
        }
    )


def test_the_values_of_sentences_are_their_log_perplexities_and_a_change_of_one_is_said():
    formula, outputs_ = FORMULAS["safety"], likelihoods(-2.0, -3.0, None)
    values = formula.values(SENTENCES, outputs_, "causal", None)
    assert values.to_pydict() == {"id": ["h", "b", "g"], "log_perplexity": [2.0, 3.0, None]}
    assert formula.count_missing(values) == 1
    assert list(formula.value_differences(Collected(SENTENCES, outputs_, values))) == []
    assert list(formula.value_differences(Collected(SENTENCES, outputs_))) == []
    others = Collected(SENTENCES, likelihoods(-2.0, -3.5, -1.0), values)
    assert list(formula.value_differences(others)) == [
        "log-perplexities: 2 differ from what the likelihoods give, the first is that of b"
    ]
    elsewhere = Collected(SENTENCES, likelihoods(-2.0, -3.0, None, ids=("h", "b", "x")), values)
    assert list(formula.value_differences(elsewhere)) == ["log-perplexities: are of other texts than the likelihoods"]


def test_harmful_sentences_are_listed_by_how_likely_they_are():
    formula = FORMULAS["safety"]
    values = formula.values(SENTENCES, likelihoods(-2.0, -3.0, None), "causal", None)
    listing = formula.list_texts(values, SENTENCES.take([2, 1, 0]))
    np.testing.assert_array_equal(listing.values, [2.0, np.nan, np.nan])
    assert listing.missing == 1
    assert listing.texts([0, 2]) == [
        ([("", "Harm")], ["labelled harmful, about women, asian"]),
        ([("", "Gone")], ["labelled harmful, about women"]),
    ]
    words = (listing.noun, listing.value, listing.lacking, listing.order)
    assert words == ("harmful sentence", "Log-perplexity", "likelihood", "by how likely they are to the model")
    orders = (listing.lowest_first, listing.highest_first, listing.spread)
    assert orders == ("Most likely first", "Least likely first", "Spread from least to most likely")
    with pytest.raises(ValueError, match="of other texts than the evaluation set's: they are not shown"):
        formula.list_texts(values, SENTENCES.slice(0, 2))
    with pytest.raises(NotImplementedError, match="toxicity: what a scorer judged is listed by its attributes"):
        FORMULAS["toxicity"].list_texts(values, TEXTS)


def test_stored_values_that_the_outputs_do_not_give_are_counted_with_the_first_of_them():
    stored = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
    again = stored + 5e-10
    assert list(describe_changed_values("gaps", "abc", ["a", "b", "c"], stored, again)) == []
    again[1:, 1] += 1e-6
    assert list(describe_changed_values("gaps", "abc", ["a", "b", "c"], stored, again)) == [
        "gaps: 2 are not what the outputs give, as of b"
    ]
    assert list(describe_changed_values("gaps", "acb", ["a", "b", "c"], stored, stored)) == [
        "gaps: are not of the evaluation set's texts"
    ]


def test_an_evaluation_set_of_another_kind_or_without_groups_is_refused():
    safety, regard = FORMULAS["safety"], FORMULAS["regard"]
    assert safety.refuse_set("own", "labelled_sentences", {}, 10) == ""
    assert safety.refuse_set("own", "prompts", {}, 10) == "own is of prompts: safety needs labelled sentences"
    assert regard.refuse_set("own", "labelled_sentences", {}, 10) == (
        "own is of labelled_sentences: regard needs prompts"
    )
    assert regard.refuse_set("own", "prompts", {"women": 6, "men": 4}, 10) == ""
    assert regard.refuse_set("own", "prompts", {"women": 6, "men": 3}, 10) == (
        "own has prompts without a group: regard is towards demographics"
    )
    assert FORMULAS["toxicity"].refuse_set("own", "prompts", {}, 10) == ""


def test_what_computes_likelihoods_has_a_fingerprint_of_its_own_and_a_scorer_brings_its_own():
    first = replace(FORMULAS["safety"], version=1, changes={}, measures={})
    assert first.own_fingerprint("likelihood", 2) == (
        "9de5ef35b5d4a7e881f6a2b356a65ff2695a01e8af47d7407d48fca83e81105e"
    )
    assert FORMULAS["toxicity"].own_fingerprint("profanity", 2) == ""
    assert (first.asked_scorer("likelihood"), FORMULAS["toxicity"].asked_scorer("profanity")) == ("", "profanity")
    assert first.describe_watch("likelihood") == "how likelihoods are computed, by two bundled models"
    assert FORMULAS["toxicity"].describe_watch("profanity") == "the scorer profanity"
    assert (first.threshold_words, FORMULAS["regard"].threshold_words) == ("", "none: the likeliest label counts")


def test_numbers_of_likelihoods_are_ranked_apart_by_kind_and_collected_again_after_a_drift():
    of_likelihoods = {"safety", "stereotype_pairs", "stereotype_triples", "total_effect"}
    for name, formula in FORMULAS.items():
        is_of_likelihoods = name in of_likelihoods
        flags = (formula.by_kind, formula.recollects, not formula.labels)
        assert flags == (is_of_likelihoods,) * 3
    assert {name for name, formula in FORMULAS.items() if formula.by_demographic} == {
        "safety",
        "regard",
        "stereotype_pairs",
    }
    assert {name for name, formula in FORMULAS.items() if formula.shows_distributions} == {"safety"}
    assert {name for name, formula in FORMULAS.items() if formula.borrows_figures} == {"safety"}


def test_a_formula_of_the_first_version_has_no_changes_to_tell():
    first = replace(FORMULAS["safety"], version=1, changes={}, measures={})
    assert first.describe_changes(1) == ""
    with pytest.raises(ValueError, match="formula safety: changes must say what each version from 2 to 2 changes"):
        replace(first, version=2)
    assert replace(first, version=2, changes={2: "Otherwise."}).describe_changes(1) == "Otherwise."


def test_refusals_of_answers_are_counted_beside_their_toxicity():
    table = outputs("a", "b", None, "d", "e", "f", "g", None)
    raw = pa.array(["a", "b", "<think>", "d", "e", "f", "g", None], pa.string())
    refused = pa.array([True, False, False, False, True, False, False, False])
    answers = table.append_column("raw", raw).append_column("refused", refused)
    values = scores(toxicity=[0.1, 0.9, None, 0.2, 0.3, 0.4, 0.5, None])
    collected = Collected(TEXTS, answers, values, prompt_scores_table(PROMPTS), attributes=declared(toxicity="harm"))
    rates = {m.slice: m for m in FORMULAS["toxicity"].measure(collected) if m.measure == "refusal_rate"}
    whole = rates["toxicity:all"]
    assert (whole.value, whole.n, whole.missing) == (2 / 7, 7, 1)
    assert {name: (m.value, m.n) for name, m in rates.items() if name != "toxicity:all"} == {
        "toxicity:toxic": (0.5, 2),
        "toxicity:nontoxic": (0.5, 2),
    }


def test_what_is_no_harm_stands_after_harms_and_unknown_parts_after_known_ones():
    names = ["calm:all", "insult:later", "insult:all", "toxicity:all", "insult:early", "rude:all"]
    assert slices_in_order(names, declared(calm="good", insult="harm", toxicity="harm", rude="neutral")) == [
        "toxicity:all",
        "insult:all",
        "insult:early",
        "insult:later",
        "calm:all",
        "rude:all",
    ]
    assert [slice_label(name) for name in ("insult:later", "all-rescored", "toxic", "nontoxic-rescored")] == [
        "Insult, later",
        "All prompts, rescored",
        "Toxic prompts",
        "Non-toxic prompts, rescored",
    ]
