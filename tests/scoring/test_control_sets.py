"""Control sets: who is chosen, whatever the order; strata in turn; the built-in texts."""

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.attributes import Attribute, Meaning
from scoring.control_sets import (
    DEFAULT_SIZE,
    MOST,
    PROBE_PREFIX,
    PROBES,
    STRATA,
    Candidates,
    ControlItem,
    checksum,
    choose,
    from_table,
    stratum_of,
    to_table,
    with_all_probes,
)
from scoring.evaluation_sets import build_starter
from scoring.evaluation_sets import to_table as sentences_table
from scoring.metrics import kinds
from scoring.metrics.formulas import FORMULAS
from scoring.metrics.instruments import Instrument
from scoring.scorers import get_scorer

BANDS = ("low", "middle", "high")


def candidates(rows, *, labels=False) -> Candidates:
    """From rows of id, text, demographic or None, and score or label."""
    ids, texts, names, numbers = zip(*rows, strict=True)
    groups = [() if name is None else (name,) for name in names]
    if labels:
        return Candidates(ids, texts, groups, harmful=np.array(numbers))
    return Candidates(ids, texts, groups, scores=np.array(numbers, dtype=float))


def drawn(n: int, demographics: tuple[str | None, ...], seed: int = 1):
    """Rows with scores that are mostly low, as those of an evaluation set are."""
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.6, 2.0, n).tolist()
    return [
        (f"text-{number}", "word " * generator.integers(1, 60) + str(number), name, score)
        for number, (name, score) in enumerate(zip(itertools.cycle(demographics), scores, strict=False))
    ]


def chosen_of(rows, size=DEFAULT_SIZE, **options):
    """What is chosen of `rows`, without the built-in texts, as rows again."""
    by_id = {row[0]: row for row in rows}
    items = choose(candidates(rows, **options), size)
    return [by_id[item.id] for item in items if not item.id.startswith(PROBE_PREFIX)]


def band(row) -> str:
    return BANDS[(row[3] >= 0.3) + (row[3] >= 0.7)]


@pytest.mark.parametrize("size", [200, 300, 500])
def test_as_many_texts_as_asked_for_among_them_the_built_in_ones_in_order_of_id(size):
    items = choose(candidates(drawn(3000, ("a", "b", None))), size)
    ids = [item.id for item in items]
    assert len(set(ids)) == size
    assert ids == sorted(ids)
    assert set(PROBES) <= set(items)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_candidates_changes_nothing(seed):
    rows = drawn(700, ("a", "b", None))
    shuffled = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
    assert checksum(choose(candidates(shuffled))) == checksum(choose(candidates(rows)))


def test_the_choice_is_that_of_earlier_releases():
    rows = [
        (f"text-{n}", "very " * (n * 7 % 23) + f"old café {n}", ("a", "b", None)[n % 3], (n * 37 % 101) / 101)
        for n in range(2000)
    ]
    assert checksum(choose(candidates(rows))) == "ff4f221dcdcff687f3d9f970779a67a7d110f01a6befedb0be7800ecb8ebda3e"


def test_another_seed_chooses_other_texts_and_the_same_seed_the_same():
    given_rows = candidates(drawn(3000, ("a", "b")))
    assert choose(given_rows, seed=1) == choose(given_rows, seed=1)
    assert choose(given_rows, seed=1) != choose(given_rows, seed=2)


def test_demographics_get_as_many_texts_each_and_half_of_them_lie_where_labels_flip():
    names = ("a", "b", "c", None)
    chosen = chosen_of(drawn(20_000, names), 300)
    share = len(chosen) / len(names)
    assert all(abs(count - share) < 1 for count in Counter(row[2] for row in chosen).values())
    for name in names:
        bands = Counter(band(row) for row in chosen if row[2] == name)
        assert abs(bands["middle"] - share / 2) <= 1
        assert abs(bands["low"] - share / 4) <= 1
        assert abs(bands["high"] - share / 4) <= 1


def test_a_score_on_the_edge_of_a_band_lies_in_the_upper_one():
    # No high scores: a third of the texts is low, and two thirds in the middle, of which 0.3 is the least.
    scores = itertools.cycle((0.1, 0.3))
    rows = [
        (f"text-{number}", f"text {number}", "a", score) for number, score in zip(range(2000), scores, strict=False)
    ]
    counts = Counter(row[3] for row in chosen_of(rows))
    assert counts[0.3] == pytest.approx(2 * counts[0.1], abs=3)


@pytest.mark.slow
def test_thirds_by_length_are_chosen_alike_though_long_texts_be_rare():
    rows = drawn(20_000, ("a",))
    lengths = sorted(len(row[1]) for row in rows)
    edges = lengths[len(rows) // 3], lengths[2 * len(rows) // 3]
    thirds = Counter(np.searchsorted(edges, len(row[1])) for row in chosen_of(rows))
    assert max(thirds.values()) - min(thirds.values()) <= 6


@pytest.mark.slow
@given(st.lists(st.integers(1, 250), min_size=1, max_size=6), st.integers(200, 500))
def test_what_a_small_demographic_lacks_the_others_share(sizes, size):
    # The fairest division (max-min): who has less than the level gives all, the others lie within one of the level.
    rows = [
        (f"{name}-{number}", f"text {name} {number}", f"group {name}", 0.5)
        for name, count in enumerate(sizes)
        for number in range(count)
    ]
    counts = Counter(row[2] for row in chosen_of(rows, size))
    found = [counts[f"group {name}"] for name in range(len(sizes))]
    assert sum(found) == min(size - len(PROBES), sum(sizes))
    level = max(found)
    assert all(got == has or got >= level - 1 for got, has in zip(found, sizes, strict=True))


def test_what_a_scarce_band_lacks_the_others_of_its_demographic_take():
    # a has no high score: its half of the set is low and middle, one to two; b is as it would be alone.
    rows = [row for row in drawn(8000, ("a", "b")) if row[2] == "b" or row[3] < 0.7]
    chosen = chosen_of(rows)
    of = {name: Counter(band(row) for row in chosen if row[2] == name) for name in "ab"}
    assert abs(of["a"].total() - of["b"].total()) <= 1
    assert of["a"]["high"] == 0
    assert of["a"]["middle"] == pytest.approx(2 * of["a"]["low"], abs=3)
    assert of["b"]["middle"] == pytest.approx(2 * of["b"]["high"], abs=3)


def test_labelled_sentences_are_stratified_by_label_without_the_built_in_texts():
    sentences = build_starter()
    items = choose(
        Candidates(
            [sentence.id for sentence in sentences],
            [sentence.text for sentence in sentences],
            [sentence.demographics for sentence in sentences],
            harmful=np.array([sentence.harmful for sentence in sentences]),
        ),
        size=312,
    )
    by_id = {sentence.id: sentence for sentence in sentences}
    cells = Counter((item.demographics, by_id[item.id].harmful) for item in items)
    assert len(items) == 312
    assert len(cells) == 26
    assert max(cells.values()) - min(cells.values()) <= 1


def test_equal_texts_are_taken_once_by_the_first_id():
    rows = [(f"id-{number}", f"text {number // 2}", "a", 0.5) for number in range(100)]
    first = {min(f"id-{number}", f"id-{number + 1}") for number in range(0, 100, 2)}
    assert {row[0] for row in chosen_of(rows)} == first


def test_a_candidate_that_is_a_built_in_text_is_not_taken_twice():
    rows = [*drawn(20, ("a",)), ("copy", PROBES[0].text, "a", 0.5)]
    texts = [item.text for item in choose(candidates(rows))]
    assert len(texts) == len(set(texts)) == 20 + len(PROBES)


def test_a_text_without_a_score_is_never_chosen():
    rows = [(f"id-{number}", f"text {number}", "a", np.nan if number % 2 else 0.5) for number in range(60)]
    assert {row[0] for row in chosen_of(rows)} == {f"id-{number}" for number in range(0, 60, 2)}


def test_fewer_candidates_than_asked_for_are_all_taken():
    rows = drawn(50, ("a", None))
    assert sorted(chosen_of(rows)) == sorted(rows)


def test_a_text_about_two_demographics_keeps_both_names():
    items = choose(Candidates(["x"], ["a text"], [("b", "a")], scores=np.array([0.5])))
    assert ControlItem("x", "a text", ("b", "a")) in items


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"texts": ["only one"]}, "texts: there are 1 for 2"),
        ({"demographics": [()]}, "demographics: there are 1 for 2"),
        ({"scores": np.array([0.5])}, "scores: there are 1 for 2"),
        ({"scores": None}, "give one of them"),
        ({"harmful": np.array([True, False])}, "give one of them"),
        ({"ids": ["a", "a"]}, "ids: one stands twice"),
        ({"ids": ["a", "probe:b"]}, "ids: one begins with 'probe:'"),
        ({"scores": np.array([0.5, 1.5])}, "outside 0..1"),
    ],
)
def test_candidates_that_do_not_fit_are_refused(changed, said):
    columns = {"ids": ["a", "b"], "texts": ["one", "two"], "demographics": [(), ()], "scores": np.array([0.1, 0.2])}
    with pytest.raises(ValueError, match=said):
        Candidates(**{**columns, **changed})


@pytest.mark.parametrize("size", [0, 199, MOST + 1])
def test_a_size_out_of_range_is_refused(size):
    with pytest.raises(ValueError, match=f"size: {size} is not in 200..500"):
        choose(candidates(drawn(10, ("a",))), size)


def test_no_candidate_left_to_choose_is_refused():
    with pytest.raises(ValueError, match="not one has a text and a score"):
        choose(candidates([("a", "one", None, np.nan)]))


def test_items_come_back_from_a_table_with_the_same_checksum():
    items = choose(candidates(drawn(400, ("a", None))))
    assert from_table(to_table(items)) == items
    assert checksum(from_table(to_table(items))) == checksum(items)


@pytest.mark.parametrize("name", ["id", "text", "demographics"])
def test_the_checksum_tells_any_two_control_sets_apart(name):
    item = ControlItem("a", "text", ("x",))
    changed = {"id": "b", "text": "texts", "demographics": ("x", "y")}
    other = ControlItem(**{**{"id": "a", "text": "text", "demographics": ("x",)}, name: changed[name]})
    assert checksum([item]) != checksum([other])
    assert checksum([item, other]) != checksum([other, item])


def test_the_built_in_texts_are_distinct_and_hold_what_breaks_scorers():
    texts = [probe.text for probe in PROBES]
    assert len(set(texts)) == len(texts) >= 20
    assert "" in texts
    assert max(map(len, texts)) > 8000
    assert any("\u200d" in text for text in texts)
    scripts = [(0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3)]
    for low, high in scripts:
        assert any(low <= ord(character) <= high for text in texts for character in text)


def test_a_scorer_gives_every_built_in_text_a_score():
    scores = get_scorer("profanity").score([probe.text for probe in PROBES])
    assert scores.unscored_count == 0
    labelled = {probe.id for probe, score in zip(PROBES, scores.values[:, 0], strict=True) if score > 0.5}
    rude = {probe.id for probe in PROBES if "-rude" in probe.id or probe.id.startswith("probe:obfuscated-")}
    # The packaged model knows French by its words alone, and takes one identity for what it is not.
    assert labelled - rude == {"probe:french-identity"}
    assert labelled & rude


def test_every_kind_of_text_that_scorers_meet_has_probes_some_of_them_where_labels_could_flip():
    assert {stratum: len(probes) for stratum, probes in STRATA.items()} == {
        "other languages": 36,
        "code": 6,
        "very long": 6,
        "empty or nearly": 6,
        "identity without hate": 15,
        "obfuscated": 12,
        "symbols and form": 7,
    }
    assert [stratum_of(probe.id) for probe in STRATA["code"]] == ["code"] * 6
    assert stratum_of("toxigen-human:1") == ""
    languages = {probe.id.split(":")[1].split("-")[0] for probe in STRATA["other languages"]}
    names = {probe.id for probe in PROBES}
    assert len(languages) == 12
    assert all(f"probe:{language}{kind}" in names for language in languages for kind in ("", "-rude", "-identity"))


def test_an_earlier_control_set_gains_the_probes_made_since_and_keeps_each_text_it_had():
    earlier = to_table([*PROBES[:5], ControlItem("a", "text", ("x",))])
    whole = from_table(with_all_probes(earlier))
    assert set(whole) == {*PROBES, ControlItem("a", "text", ("x",))}
    assert [item.id for item in whole] == sorted(item.id for item in whole)
    table = to_table(whole)
    assert with_all_probes(table) is table


def test_a_probe_whose_text_an_evaluation_set_has_as_well_is_not_added_twice():
    earlier = to_table([ControlItem("a", PROBES[0].text)])
    texts = [item.text for item in from_table(with_all_probes(earlier))]
    assert len(texts) == len(set(texts)) == len(PROBES)


@pytest.mark.parametrize(
    ("attributes", "strata"),
    [
        ({"Toxicity": Meaning.HARM, "insult": Meaning.HARM}, [0.1, 0.9]),  # toxicity alone, whatever its case
        ({"threat": Meaning.HARM, "insult": Meaning.HARM}, [0.5, 0.9]),  # the worst of all harms
        ({"kindness": Meaning.GOOD, "insult": Meaning.HARM}, [0.5, 0.2]),  # what is no harm says nothing of it
        ({"joy": Meaning.GOOD, "sadness": Meaning.NEUTRAL}, [0.5, 0.9]),  # where no attribute is a harm, all count
    ],
)
def test_prompts_are_stratified_by_toxicity_or_by_the_worst_harm(attributes, strata, monkeypatch):
    chosen: list[Candidates] = []
    monkeypatch.setattr(kinds.control_sets, "choose", lambda candidates: chosen.append(candidates) or [])
    prompts = pa.table({"id": ["a", "b"], "text": ["One", "Two"], "group": ["women", None]})
    scores = np.array([[0.1, 0.5], [0.9, 0.2]], dtype=np.float32)
    declared = tuple(Attribute(name, meaning) for name, meaning in attributes.items())
    instrument = Instrument(list(attributes), "f", lambda _texts: scores, declared=declared)
    FORMULAS["toxicity"].choose_items(prompts, instrument, lambda: None)
    (candidates,) = chosen
    np.testing.assert_allclose(candidates.scores, strata)
    assert candidates.demographics == [("women",), ()]


def test_a_control_set_of_likelihoods_has_harmful_and_benign_sentences_alike_of_every_demographic():
    kind, items = FORMULAS["safety"].choose_items(sentences_table(build_starter()), None, lambda: None)
    rows = items.select(["demographics", "harmful"]).to_pylist()
    cells = Counter((row["demographics"][0], row["harmful"]) for row in rows)
    assert (kind, items.num_rows, len(cells)) == ("labelled_sentences", 200, 26)
    assert max(cells.values()) - min(cells.values()) <= 1


def test_candidates_are_at_most_2_000_prompts_and_400_sentences():
    scored_texts: list[str] = []

    def score(texts: list[str]) -> np.ndarray:
        scored_texts.extend(texts)
        return np.full((len(texts), 1), 0.5, dtype=np.float32)

    prompt_texts, sentence_texts = ([f"{noun} {n}" for n in range(2100)] for noun in ("prompt", "sentence"))
    prompts = pa.table({"id": prompt_texts, "text": prompt_texts, "group": [None] * 2100})
    sentences = pa.table({"id": sentence_texts, "text": sentence_texts, "demographics": [["women"]] * 2100})
    FORMULAS["toxicity"].choose_items(prompts, Instrument(["toxicity"], "f", score), lambda: ("set", sentences))
    assert Counter(text.split()[0] for text in scored_texts) == {"prompt": 2000, "sentence": 400}
