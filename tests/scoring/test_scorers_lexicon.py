"""Lexicons: words, whole-word matches, files that are wrong."""

import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.scorers import Lexicon, LexiconError, get_scorer, read_lexicon
from scoring.scorers.lexicon import LEXICONS, LexiconScorer, words

# Few letters, so that terms often match; every kind of separator, and letters that change as they are folded.
ALPHABET = "abAB ßéÉΣς\u0301İ'-_.,$😀\n\u00a0\u2019"
PHRASES = st.text(ALPHABET, max_size=12)


def naive_words(text: str) -> list[str]:
    """Character by character, as the definition says."""
    found = [""]
    for character in unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()):
        if character.isspace() or punctuation(character):
            found.append("")
        else:
            found[-1] += character
    return [word for word in found if word]


def punctuation(characters: str) -> bool:
    return any(unicodedata.category(character)[0] in "PS" for character in characters)


def naive_match(term: list[str], text: list[str]) -> bool:
    return any(text[start : start + len(term)] == term for start in range(len(text) - len(term) + 1))


def lexicon(folder: Path, **categories: str) -> Lexicon:
    for name, content in categories.items():
        (folder / f"{name}.txt").write_text(content, encoding="utf-8")
    return read_lexicon(folder)


def one_category(*terms: str) -> LexiconScorer:
    return LexiconScorer(Lexicon({"category": tuple(sorted({words(term) for term in terms}))}))


def matches(term: str, text: str) -> bool:
    return one_category(term).score([text]).values[0].tolist() == [1.0, 1.0]


@given(text=st.text())
def test_words_are_those_of_the_definition(text):
    assert words(text.encode(errors="replace").decode()).split() == naive_words(text.encode(errors="replace").decode())


@pytest.mark.slow
@given(
    terms=st.dictionaries(st.sampled_from("xyz"), st.lists(PHRASES.filter(naive_words), min_size=1), min_size=1),
    texts=st.lists(PHRASES, min_size=1),
)
def test_a_category_is_1_exactly_where_a_naive_search_finds_one_of_its_terms(terms, texts):
    categories = sorted(terms)
    scorer = LexiconScorer(Lexicon({name: tuple(sorted({words(t) for t in terms[name]})) for name in categories}))
    expected = [
        [any(naive_match(naive_words(term), naive_words(text)) for term in terms[name]) for name in categories]
        for text in texts
    ]
    found = scorer.score(texts)
    assert found.values.tolist() == [[*map(float, row), float(any(row))] for row in expected]
    assert found.reasons == (None,) * len(texts)
    assert found.values.dtype == np.float32


@pytest.mark.slow
def test_every_character_folds_to_punctuation_only_if_it_is_punctuation():
    # Else it would matter whether texts are split before or after they are casefolded.
    for code in range(sys.maxunicode + 1):
        character = unicodedata.normalize("NFC", chr(code))
        folded = unicodedata.normalize("NFC", character.casefold())
        assert punctuation(folded) == punctuation(character), hex(code)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("fool", "FOOL!"),
        ("fool", "you,fool"),
        ("fool", "'fool'"),
        ("fool", "fool"),
        ("half wit", "a half-wit"),
        ("half-wit", "a half   wit\n"),
        ("mama's boy", "mama’s boy"),
        ("straße", "STRASSE"),
        ("caf\u00e9", "cafe\u0301"),
        ("go go", "go go go"),
        ("snake", "snake_case"),
    ],
)
def test_a_term_matches_its_words_in_any_case_and_with_any_punctuation_between(term, text):
    assert matches(term, text)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("fool", "foolish"),
        ("fool", "tomfool"),
        ("half wit", "half a wit"),
        ("half wit", "wit half"),
        ("half wit", "behalf wit"),
        ("fool", ""),
        ("fool", "!?"),
        ("cafe", "café"),
        ("fool", "ｆｏｏｌ"),
    ],
)
def test_nothing_but_the_whole_words_of_a_term_matches(term, text):
    assert not matches(term, text)


def test_terms_inside_each_other_and_in_several_categories_all_count(tmp_path):
    found = LexiconScorer(lexicon(tmp_path, one="b\n", two="a b c\n", three="b c d\nb\n", four="x\n")).score(["a b c"])
    assert dict(zip(("four", "one", "three", "two", "any"), found.values[0].tolist(), strict=True)) == {
        "one": 1,
        "two": 1,
        "three": 1,
        "four": 0,
        "any": 1,
    }


def test_categories_are_the_files_by_name_and_any(tmp_path):
    (tmp_path / "README.md").write_text("# not terms", encoding="utf-8")
    (tmp_path / ".hidden").write_text("neither", encoding="utf-8")
    scorer = LexiconScorer(lexicon(tmp_path, zeta="a\n", alpha="b\n"))
    assert scorer.attribute_names == ("alpha", "zeta", "any")


def test_the_fingerprint_is_that_of_the_normalised_terms(tmp_path):
    folders = [tmp_path / str(number) for number in range(5)]
    for folder in folders:
        folder.mkdir()
    first = lexicon(folders[0], one="fool\nhalf wit\n").fingerprint
    same = lexicon(folders[1], one="\ufeffHalf-Wit\r\n\r\n  FOOL \r\nfool")
    assert same.fingerprint == first
    assert LexiconScorer(same).fingerprint() == first
    assert lexicon(folders[2], one="fool\n").fingerprint != first
    assert lexicon(folders[3], two="fool\nhalf wit\n").fingerprint != first
    assert lexicon(folders[4], one="fool\n", two="half wit\n").fingerprint != first


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no category"),
        ({"README.md": b"about"}, "holds no category"),
        ({"one.txt": b"", "two.txt": b"a"}, "one.txt holds no term"),
        ({"one.txt": b"\n \n"}, "one.txt holds no term"),
        ({"one.txt": b"a\nb\ncaf\xe9\n"}, "one.txt, line 3, is not UTF-8"),
        ({"one.txt": b"a\n\n?!\n"}, "one.txt, line 3, has no letter or digit"),
        ({"one.txt": b"a\n\xcc\x81\n"}, "one.txt, line 2, has no letter or digit"),
        ({"one.txt": b"a", "one.lst": b"b"}, "one.lst and one.txt name the same category"),
        ({"One.txt": b"a", "one.txt": b"b"}, "One.txt and one.txt name the same category"),
        ({"any.txt": b"a"}, "any.txt: any stands for all categories"),
        ({"a b.txt": b"a"}, "a b.txt cannot name a category"),
        ({"more/one.txt": b"a"}, "more is not a file"),
    ],
)
def test_a_folder_that_is_no_lexicon_is_refused_with_the_file_and_the_line(tmp_path, files, message):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(LexiconError) as caught:
        read_lexicon(tmp_path)
    assert message in str(caught.value)


def test_what_is_not_a_folder_is_no_lexicon(tmp_path):
    with pytest.raises(LexiconError, match="is not a folder"):
        read_lexicon(tmp_path / "missing")


def test_the_starter_lexicon_is_labelled_and_finds_terms_of_each_category():
    scorer = get_scorer("lexicon:starter")
    assert scorer.attribute_names == ("belittling", "hostility", "stereotype", "any")
    assert "not for" in (LEXICONS / "starter" / "README.md").read_text(encoding="utf-8")
    found = scorer.score(["What a useless idea", "Oh, SHUT UP!", "boys don’t cry", "A pleasant day in the harbour"])
    assert found.values.tolist() == [[1, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0]]


def test_a_lexicon_of_the_operator_is_found_by_its_name_and_a_missing_one_lists_them(tmp_path):
    (tmp_path / "mine").mkdir()
    lexicon(tmp_path / "mine", one="fool\n")
    assert get_scorer("lexicon:mine", folder=tmp_path).attribute_names == ("one", "any")
    with pytest.raises(LexiconError, match="no lexicon 'yours': import it, or use one of mine, starter"):
        get_scorer("lexicon:yours", folder=tmp_path)
    with pytest.raises(LexiconError, match="no lexicon"):
        get_scorer("lexicon:../mine", folder=tmp_path)
