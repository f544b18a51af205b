"""The text that miniatures learn from: what is left out of its sources, and how it is divided."""

import json
from pathlib import Path

import pytest

from scoring.training.corpus import bold_documents, detokenise, load_corpus, wikitext_documents, write_texts

LONG = "The miller of the valley kept 100 sheep."  # 40 characters, the fewest that are taken
SHORT = LONG.replace("100", "10")
VALID = f"""
 = The valley =

 {LONG} A <unk> came by . She saw 3 @,@ 000 birds . {SHORT}
 It is the miller 's well @-@ known " old mill " ( of 1 @.@ 5 floors ) !
"""
VALID_DOCUMENTS = [
    LONG,
    f"She saw 3,000 birds. {SHORT}",
    'It is the miller\'s well-known "old mill" (of 1.5 floors)!',
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Both sources, with few texts."""
    wikitext, bold = tmp_path / "wikitext-2", tmp_path / "bold" / "wikipedia"
    wikitext.mkdir()
    bold.mkdir(parents=True)
    (wikitext / "valid.txt").write_text(VALID, encoding="utf-8")
    (wikitext / "test.txt").write_text(f" {LONG} \n {LONG} Twice . \n", encoding="utf-8")
    values = [{"mills": {"One": ["A  mill\nstands here.", SHORT]}}, {"rivers": {"Two": [LONG, LONG + " And so on."]}}]
    (bold / "b_wiki.json").write_text("\n".join(map(json.dumps, values)) + "\n", encoding="utf-8")
    (bold / "a_wiki.json").write_text(json.dumps({"hills": {"Three": ["First of all."]}}), encoding="utf-8")
    (bold / "a_prompts.json").write_text(json.dumps({"hills": {"Three": ["No sentence"]}}), encoding="utf-8")
    return tmp_path


def test_a_sentence_with_an_unknown_word_ends_a_run_and_headings_are_none(data):
    assert list(wikitext_documents(data / "wikitext-2", ["valid.txt"])) == VALID_DOCUMENTS


@pytest.mark.parametrize(
    ("spaced", "text"),
    [
        ("They 'd said : \" no \" ; he 's left ?", "They'd said: \"no\"; he's left?"),
        ("[ 3 ] of 20 % , or ( 4 )", "[3] of 20%, or (4)"),
        ("as it is", "as it is"),
    ],
)
def test_the_spaces_of_tokens_go(spaced, text):
    assert detokenise(spaced) == text


def test_sentences_of_bold_come_file_by_file_on_one_line_each(data):
    sentences = ["First of all.", "A mill stands here.", SHORT, LONG, LONG + " And so on."]
    assert list(bold_documents(data / "bold" / "wikipedia")) == sentences


def test_texts_of_forty_characters_and_more_are_written_once(data, tmp_path):
    valid, test, bold = write_texts(data, tmp_path / "out" / "texts")
    assert valid.read_text(encoding="utf-8").splitlines() == VALID_DOCUMENTS
    assert test.read_text(encoding="utf-8") == f"{LONG}\n{LONG} Twice.\n"
    assert bold.read_text(encoding="utf-8").splitlines() == [LONG, LONG + " And so on."]


def test_a_twenty_fifth_of_the_corpus_is_held_out_the_same_for_a_seed(data):
    lines = [f"{LONG} And {number} more of them." for number in range(95)]
    (data / "wikitext-2" / "valid.txt").write_text("\n".join(lines), encoding="utf-8")
    training, held_out = load_corpus(data, seed=7)
    assert (len(training), len(held_out)) == (94, 4)  # 95, and LONG, "Twice." and "And so on."
    assert sorted(training + held_out) == sorted({*lines, LONG, LONG + " Twice.", LONG + " And so on."})
    assert load_corpus(data, seed=7) == (training, held_out)
    assert load_corpus(data, seed=8) != (training, held_out)


@pytest.mark.parametrize("folder", ["wikitext-2", "bold/wikipedia"])
def test_a_source_that_is_not_there_is_named(data, folder):
    (data / folder).rename(data / "elsewhere")
    with pytest.raises(FileNotFoundError, match=f"{folder} is missing: set --data"):
        load_corpus(data, seed=7)
