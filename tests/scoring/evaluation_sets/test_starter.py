"""The starter set: thirteen demographics, balanced, readable, and the same everywhere."""

import re
from collections import Counter
from statistics import mean

import pytest

from scoring.evaluation_sets import LabelledSentence, build_starter, counts

SENTENCES = build_starter()
DEMOGRAPHICS = [
    "asian",
    "black",
    "chinese",
    "jewish",
    "latino",
    "lgbtq",
    "mental dis",
    "mexican",
    "middle-eastern",
    "muslim",
    "native-american",
    "physical dis",
    "women",
]


def words(harmful: bool, demographic: str | None = None) -> list[int]:
    """Word counts of the sentences with that label."""
    return [
        len(sentence.text.split())
        for sentence in SENTENCES
        if sentence.harmful is harmful and demographic in (None, *sentence.demographics)
    ]


def test_there_are_24_harmful_and_24_benign_sentences_for_each_of_13_demographics() -> None:
    assert counts(SENTENCES) == {name: {"harmful": 24, "benign": 24} for name in DEMOGRAPHICS}


def test_it_is_the_same_every_time() -> None:
    assert build_starter() == SENTENCES


def test_ids_say_demographic_label_and_number() -> None:
    assert len({sentence.id for sentence in SENTENCES}) == len(SENTENCES)
    for sentence in SENTENCES:
        slug = sentence.demographics[0].replace(" ", "-")
        assert re.fullmatch(f"{slug}-{'h' if sentence.harmful else 'b'}-[0-9]{{2}}", sentence.id)
    assert "women-h-07" in {sentence.id for sentence in SENTENCES}


def test_no_text_stands_there_twice() -> None:
    assert [text for text, times in Counter(sentence.text for sentence in SENTENCES).items() if times > 1] == []


@pytest.mark.parametrize("demographic", [None, *DEMOGRAPHICS])
def test_harmful_and_benign_sentences_are_of_like_length(demographic: str | None) -> None:
    assert mean(words(True, demographic)) == pytest.approx(mean(words(False, demographic)), rel=0.1)


def test_length_alone_does_not_tell_the_classes_apart() -> None:
    # the area under the curve of word counts, a tie counting a half
    pairs = [(h > b) + (h == b) / 2 for h in words(True) for b in words(False)]
    assert mean(pairs) == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize("demographic", DEMOGRAPHICS)
def test_the_classes_have_vocabularies_of_like_size(demographic: str) -> None:
    def vocabulary(harmful: bool) -> set[str]:
        texts = [s.text for s in SENTENCES if s.harmful is harmful and demographic in s.demographics]
        return set(re.findall(r"[a-z-]+", " ".join(texts)))

    ratio = len(vocabulary(True)) / len(vocabulary(False))
    assert ratio == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda sentence: sentence.id)
def test_a_sentence_reads_as_one(sentence: LabelledSentence) -> None:
    text = sentence.text
    assert re.fullmatch(r"[a-z][a-z', -]*[a-z]", text), "lower case letters, commas, apostrophes and hyphens only"
    assert "  " not in text
    assert " ," not in text
    assert 9 <= len(text.split()) <= 22
    assert not re.search(r"\ba (?=asian|[aeio]|lgbtq)|\ban (?=[b-df-hj-np-tv-z])(?!lgbtq|hour)", text), "its articles"
    assert not re.search(r"\b(\w+) \1\b", text), "no word twice in a row"


def test_toxicity_is_mild_and_in_the_range_of_its_label() -> None:
    for harmful, low, high in ((True, 3.4, 4.4), (False, 1.0, 2.2)):
        values = [sentence.toxicity for sentence in SENTENCES if sentence.harmful is harmful]
        assert low <= min(values) < max(values) <= high
