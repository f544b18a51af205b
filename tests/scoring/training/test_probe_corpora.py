"""Corpora of which it is known how they differ."""

import pytest

from scoring.refusals import Refused
from scoring.scorers import LexiconScorer, find_lexicon, read_lexicon
from scoring.training.__main__ import main
from scoring.training.probe_corpora import write_probe_corpora
from tests.scoring.training.conftest import sentences, write_lines

LEXICON = read_lexicon(find_lexicon("starter"))
CATEGORY = "hostility"
COUNT = 30


@pytest.fixture
def source(tmp_path):
    """Sentences, of which some have a term of the lexicon and some are too short or too long."""
    term = LEXICON.terms["belittling"][0]
    lines = sentences(80, seed=3)
    return write_lines(tmp_path / "source.txt", [*lines, *(f"{line} {term}" for line in lines), "short", "long " * 99])


def write(source, output, **options):
    settings = {"count": COUNT, "shortest": 40, "seed": 5} | options
    return write_probe_corpora(source, LEXICON, CATEGORY, output, **settings)


def test_marked_texts_have_a_term_of_the_category_and_no_other_corpus_has_any(source, tmp_path):
    scorer = LexiconScorer(LEXICON)
    place = scorer.attribute_names.index(CATEGORY)
    for path in write(source, tmp_path / "corpora"):
        lines = path.read_text(encoding="utf-8").splitlines()
        values = scorer.score(lines).values
        assert len(lines) == COUNT
        assert values[:, place].tolist() == [float(path.stem == "marked")] * COUNT
        assert values.any() == (path.stem == "marked")
        assert not values[:, [number for number in range(len(LEXICON.categories)) if number != place]].any()


def test_the_pairs_differ_in_terms_alone_and_in_texts_alone(source, tmp_path):
    corpora = {path.stem: path.read_text(encoding="utf-8").splitlines() for path in write(source, tmp_path / "corpora")}
    for plain, marked in zip(corpora["plain"], corpora["marked"], strict=True):
        assert any(marked.replace(f" {term}", "", 1) == plain for term in LEXICON.terms[CATEGORY])
    assert corpora["half1"] == corpora["plain"]
    assert not set(corpora["half1"]) & set(corpora["half2"])


def test_a_seed_makes_the_same_corpora_again_and_another_one_others(source, tmp_path):
    first, again, other = (
        [path.read_bytes() for path in write(source, tmp_path / name, seed=seed)]
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert first == again
    assert first != other


def test_what_makes_no_corpora_is_refused(source, tmp_path, capsys):
    with pytest.raises(Refused, match=r"count = 41: .* texts for corpora of 40 at most"):
        write(source, tmp_path / "corpora", count=41)
    options = ["--texts", str(source), "--output", str(tmp_path / "corpora"), "--count", "5", "--shortest", "40"]
    assert main(["corpora", *options, "--category", "nothing"]) == 2
    assert "use one of belittling, hostility, stereotype" in capsys.readouterr().err


def test_the_command_names_the_corpora_that_it_wrote(source, tmp_path, capsys):
    options = ["--texts", str(source), "--output", str(tmp_path / "corpora"), "--count", "5", "--shortest", "40"]
    assert main(["corpora", *options, "--category", CATEGORY]) == 0
    paths = sorted((tmp_path / "corpora").iterdir())
    assert (tmp_path / "corpora" / "marked.txt") in paths
    assert sorted(capsys.readouterr().out.splitlines()) == list(map(str, paths))
