"""Sets of pairs and triples whose files are wrong: refused at the first record, with its place and a remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from scoring.evaluation_sets import EvaluationSetError
from scoring.evaluation_sets.pronouns import read_winobias, read_winogender
from scoring.evaluation_sets.triples import read_stereoset

PAIR = "1 [The nurse] waved because [she] was late.\n2 [The plumber] waved because [she] left.\n"
STATISTICS = "occupation\tbergsma_pct_female\tbls_pct_female\nnurse\t83.1\t90.2\n"
COLUMNS = "occupation(0)\tother-participant(1)\tanswer\tsentence\n"
TEMPLATE = "nurse\tguest\t{}\tThe $OCCUPATION met the $PARTICIPANT and $NOM_PRONOUN {}.\n"
TRIPLE = {
    "id": "1",
    "target": "gardener",
    "bias_type": "profession",
    "context": "The gardener is BLANK.",
    "sentences": [
        {"gold_label": association, "sentence": f"The gardener is {word}.", "id": word}
        for association, word in (("stereotype", "old"), ("anti-stereotype", "young"), ("unrelated", "blue"))
    ],
}


def winobias(folder: Path, lines: str = "", females: str = "nurse\n") -> Path:
    """A folder with WinoBias's files, of which the development part has these lines."""
    (folder / "female_occupations.txt").write_text(females)
    (folder / "male_occupations.txt").write_text("plumber\n")
    for part in ("dev", "test"):
        (folder / f"pro_stereotyped_type1.txt.{part}").write_text(lines if part == "dev" else "")
    return folder


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("1 [The nurse] waved because [she] left.\n", r"txt.dev has 1 lines: two make a pair, so give an even number"),
        ("1 [The cook] waved because [she] left.\n" * 2, "line 1: names 0 occupations of the lists in brackets, not 1"),
        (
            "1 [The nurse] waved because [it] left.\n" * 2,
            "line 1: has no pronoun in brackets; give one of she, he, her",
        ),
        ("1 [The nurse] waved as [she] left.\n" * 2, "line 1: both occupations are of one list; one of each is needed"),
    ],
)
def test_lines_of_winobias_that_make_no_pair_are_refused(tmp_path, lines, message):
    with pytest.raises(EvaluationSetError, match=message):
        read_winobias(winobias(tmp_path, lines))


def test_a_list_of_occupations_is_utf_8(tmp_path):
    folder = winobias(tmp_path, PAIR)
    (folder / "female_occupations.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(EvaluationSetError, match=r"occupations\.txt is not UTF-8 at byte 3: save it"):
        read_winobias(folder)


def winogender(folder: Path, templates: str, statistics: str = STATISTICS) -> Path:
    """A folder with Winogender's files."""
    (folder / "occupations-stats.tsv").write_text(statistics)
    (folder / "templates_structurefilter.tsv").write_text(templates)
    return folder


WHOLE = COLUMNS + TEMPLATE.format(0, "sang") + TEMPLATE.format(1, "paid")


@pytest.mark.parametrize(
    ("templates", "statistics", "message"),
    [
        (WHOLE, STATISTICS.replace("83.1", "most"), "occupations-stats.tsv, line 2: needs occupation, .* as numbers"),
        (WHOLE, "job\tshare\nnurse\t1\n", "occupations-stats.tsv, line 2: needs occupation, .* percentages as numbers"),
        (COLUMNS + TEMPLATE.format(0, "sang"), STATISTICS, "has 1 templates: two make a pair, so give an even number"),
        (
            WHOLE.replace("$PARTICIPANT and", "$PARTICIPANT as", 1),
            STATISTICS,
            "line 2: differs from the next line in what",
        ),
        (WHOLE.replace("nurse", "cook"), STATISTICS, "line 2: its occupation is not in occupations-stats.tsv; add its"),
        (WHOLE.replace("answer", "reply"), STATISTICS, r"line 2: needs the columns occupation\(0\), other-participant"),
        (WHOLE.replace("\t1\t", "\t2\t"), STATISTICS, "line 2: answer is neither 0 nor 1"),
        (WHOLE.replace("$NOM_PRONOUN", "$IT"), STATISTICS, r"line 2: the sentence has none of \$"),
    ],
)
def test_templates_of_winogender_that_make_no_pair_are_refused(tmp_path, templates, statistics, message):
    assert len(read_winogender(winogender(tmp_path, WHOLE))) == 1
    with pytest.raises(EvaluationSetError, match=message):
        read_winogender(winogender(tmp_path, templates, statistics))


def document(*triples: Any) -> str:
    return json.dumps({"data": {"intrasentence": triples, "intersentence": []}})


def changed(**values: Any) -> str:
    return document(TRIPLE | values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"caf\xe9", "dev.json is not UTF-8 at byte 3: save it as UTF-8"),
        ("{", "dev.json is not JSON: .*; give dev.json, or JSON lines as .jsonl"),
        ("[" * 100_000, "dev.json is not JSON: .*; give dev.json, or JSON lines as .jsonl"),
        ("9" * 5000, "dev.json is not JSON: .*; give dev.json, or JSON lines as .jsonl"),
        ("[]", "lacks data with lists intrasentence and intersentence: give StereoSet's dev.json"),
        ('{"data": {"intrasentence": 1}}', "lacks data with lists intrasentence and intersentence"),
        (document(), "dev.json holds 0 triples; give one or more"),
        (document(TRIPLE, TRIPLE), "dev.json has two triples with the id 1; give each one of its own"),
        (document("words"), "record 1 is no object; give one with context, target, bias_type and three sentences"),
        (changed(target=" "), "record 1, target: is no text; give one"),
        (changed(bias_type="A B"), "record 1, bias_type: is no name in small letters, as profession"),
        (changed(sentences=TRIPLE["sentences"][:2]), "record 1, unrelated: is no sentence; give one"),
        (changed(sentences=["words", {"gold_label": 1}]), "record 1, stereotype: is no sentence; give one"),
        (changed(sentences="words"), "record 1, stereotype: is no sentence; give one"),
        (changed(sentences=[row | {"sentence": 1} for row in TRIPLE["sentences"]]), "stereotype: is no sentence"),
        (changed(target=1), "record 1, target: is no text; give one"),
        ('{"data": {"intersentence": 1}}', "lacks data with lists intrasentence and intersentence"),
        (
            changed(sentences=[row | {"id": 1} for row in TRIPLE["sentences"]]),
            "record 1, stereotype: has no id; give one",
        ),
    ],
)
def test_records_of_stereoset_that_are_no_triple_are_refused(tmp_path, content, message):
    path = tmp_path / "dev.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(EvaluationSetError, match=message):
        read_stereoset(path)
