"""The catalogue: every set declared once, complete, and true of the files at hand."""

import re
from collections import Counter
from pathlib import Path

import pytest

from scoring.artefacts import sha256
from scoring.evaluation_sets import CatalogueFile, UnknownEvaluationSetError, get, load_catalogue
from scoring.evaluation_sets.catalogue import CatalogueError

NAMES = [
    "toxigen-human",
    "implicit-hate",
    "crows-pairs",
    "stereoset",
    "winogender",
    "winobias",
    "bold",
    "real-toxicity-prompts-sample",
    "real-toxicity-prompts",
    "real-toxicity-prompts-nontoxic",
    "wikitext-2",
    "starter",
    "regard-openings",
    "hatecheck",
    "multilingual-hatecheck",
    "rtp-lx",
    "civil-comments",
    "identity-mentions",
    "paraphrases",
]
BUILT = ("starter", "regard-openings", "identity-mentions", "paraphrases")
FILES = [file for entry in load_catalogue().values() for file in entry.files]
PINNED = re.compile(r"https://raw\.githubusercontent\.com/[\w.-]+/[\w.-]+/([0-9a-f]{7,40}|2\.7\.0)/\S+")

GOOD = """\
[one]
title = "One"
kind = "text"
format = ""
licence = "MIT"
citation = "Somebody 2020"
citation_key = "somebody-2020"
paper = ""
notice = "None."

[[one.files]]
path = "one/a.txt"
url = ""
bytes = 3
sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
"""


def test_every_set_is_declared_under_its_name() -> None:
    assert list(load_catalogue()) == NAMES
    assert [entry.name for entry in load_catalogue().values()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_set_says_where_it_comes_from_on_one_line(name: str) -> None:
    entry = get(name)
    assert "\n" not in entry.citation
    assert "  " not in entry.citation + entry.notice
    assert re.fullmatch(r"[a-z0-9-]+", entry.citation_key)
    assert entry.paper.startswith("https://arxiv.org/abs/") or name in BUILT
    assert len(entry.licence) <= 200
    assert len(entry.title) <= 200


def test_the_importable_sets_begin_with_the_file_to_import() -> None:
    importable = {
        entry.name: entry.files[0].path for entry in load_catalogue().values() if entry.format and entry.files
    }
    assert importable == {
        "toxigen-human": "safenlp/toxiGen.json",
        "implicit-hate": "safenlp/implicitHate.json",
        "crows-pairs": "crows_pairs/crows_pairs_anonymized.csv",
        "stereoset": "stereoset/test.jsonl",
        "hatecheck": "hatecheck/test_suite_cases.csv",
        "multilingual-hatecheck": "multilingual_hatecheck/hatecheck_cases_final_arabic.csv",
        "winogender": "winogender/templates_structurefilter.tsv",
        "winobias": "winobias/pro_stereotyped_type1.txt.dev",
        "bold": "bold/prompts/gender_prompt.json",  # of a folder
        "real-toxicity-prompts-sample": "real_toxicity_prompts/sample_993.jsonl",
    }


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path)
def test_an_address_is_pinned_to_a_commit_or_a_release(file: CatalogueFile) -> None:
    assert PINNED.fullmatch(file.url)


def test_a_path_means_the_same_bytes_in_every_set() -> None:
    assert max(Counter(path for path, _ in {(file.path, file.sha256) for file in FILES}).values()) == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.path)
def test_size_and_checksum_are_those_of_the_file(file: CatalogueFile, real_data: Path) -> None:
    path = real_data / file.path
    if not path.exists():
        pytest.skip(f"{path} is not there")
    assert path.stat().st_size == file.bytes
    assert sha256(path) == file.sha256


def test_an_unknown_name_is_answered_with_the_closest_and_all_names() -> None:
    with pytest.raises(UnknownEvaluationSetError, match="Did you mean 'toxigen-human'") as caught:
        get("toxigen_human")
    assert all(name in str(caught.value) for name in NAMES)


def test_a_name_like_no_other_gets_no_suggestion() -> None:
    with pytest.raises(UnknownEvaluationSetError) as caught:
        get("qqqqq")
    assert "Did you mean" not in str(caught.value)


def test_what_a_caller_does_to_the_dictionary_changes_no_other() -> None:
    load_catalogue().clear()
    assert list(load_catalogue()) == NAMES


def test_a_good_catalogue_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(GOOD)
    assert load_catalogue(path)["one"].files[0].bytes == 3
    shortest = tmp_path / "shortest.toml"
    shortest.write_text(GOOD.replace("bytes = 3", "bytes = 1"))
    assert load_catalogue(shortest)["one"].files[0].bytes == 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[one]", "[one", "not a TOML file"),
        ("[one]", "two = 2\n[one]", r"\[two\]: expected a table"),
        ('title = "One"', "", "missing title"),
        ('title = "One"', 'titel = "One"\ntitle = "One"', "unknown titel"),
        ('title = "One"', "title = 1", "title is not a string"),
        ('licence = "MIT"', 'licence = ""', "licence is empty"),
        ('kind = "text"', 'kind = "txt"', "kind 'txt' is none of"),
        ('format = ""', 'format = "csv"', "format 'csv' is none of safenlp, prompts"),
        ("bytes = 3", "", "file 1: missing bytes"),
        ("bytes = 3", "bytes = 0", "bytes is not a positive whole number"),
        ("bytes = 3", "bytes = true", "bytes is not a positive whole number"),
        ('path = "one', 'path = "..', "leaves the data folder"),
        ("bytes = 3", "bytes = -1", "bytes is not a positive whole number"),
        ("bytes = 3", 'bytes = "3"', "bytes is not a positive whole number"),
        ('path = "one', 'path = "one\\\\b', "leaves the data folder"),
        ('path = "one', 'path = "/one', "leaves the data folder"),
        ('sha256 = "ba', 'sha256 = "BA', "sha256 is not 64 hex digits"),
    ],
)
def test_a_wrong_declaration_is_refused_by_set_and_key(old: str, new: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "catalogue.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(CatalogueError, match=says):
        load_catalogue(path)
