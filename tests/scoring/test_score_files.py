"""Scores made elsewhere are measured at the command line, in the file forms of their field."""

import csv
import json
import math
from pathlib import Path

import pytest

from scoring.__main__ import main
from scoring.metrics.sentence_pairs import measure_pairs
from scoring.score_files import read_pair_scores

TRIPLES = [("gardener", "profession"), ("gardener", "profession"), ("Aland", "race")]
ASSOCIATIONS = ("stereotype", "anti-stereotype", "unrelated")
SCORES = [[0.4, 0.2, 0.1], [0.3, 0.1, 0.2], [0.2, 0.3, 0.1]]
ODDS = Path(__file__).with_name("gpt2_winobias_dev_odds.csv")


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def sentences(tmp_path):
    rows = [
        {
            "type": "intrasentence",
            "target": target,
            "bias_type": domain,
            "context": "They are BLANK.",
            **{name: f"They are {name}." for name in ASSOCIATIONS},
        }
        for target, domain in TRIPLES
    ]
    path = tmp_path / "test.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def predictions(folder, changes=None):
    rows = [
        {"id": f"{number}-{name}", "score": score}
        for number, scores in enumerate(SCORES, start=1)
        for name, score in zip(ASSOCIATIONS, scores, strict=True)
    ]
    for place, row in (changes or {}).items():
        rows[place] = row
    path = folder / "predictions.json"
    path.write_text(json.dumps({"intrasentence": rows, "intersentence": []}), encoding="utf-8")
    return path


def test_predictions_of_stereoset_by_hand(tmp_path, sentences, capsys):
    code, out, err = run(capsys, "stereotype", predictions(tmp_path), "--set", sentences)
    assert (code, err) == (0, "")
    numbers = json.loads(out)
    assert set(numbers) == {
        "all",
        "profession",
        "race",
        "intrasentence",
        "intrasentence:profession",
        "intrasentence:race",
    }
    values = {key: one["value"] for key, one in numbers["all"].items()}
    assert values == {"icat": 87.5, "language_modelling_score": 87.5, "stereotype_score": 50}
    assert numbers["race"]["stereotype_score"]["value"] == 0
    assert numbers["all"]["icat"]["n"] == 3


def test_predictions_are_of_the_stereoset_in_the_folder_of_data_where_no_set_is_named(
    tmp_path, sentences, capsys, monkeypatch
):
    code, expected, _ = run(capsys, "stereotype", predictions(tmp_path), "--set", sentences)
    assert code == 0
    monkeypatch.setenv("PLUMBLINE_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "stereoset").mkdir(parents=True)
    sentences.rename(tmp_path / "data" / "stereoset" / "test.jsonl")
    assert run(capsys, "stereotype", predictions(tmp_path)) == (0, expected, "")


def test_a_score_that_is_nan_or_absent_leaves_its_triple_out_with_its_count(tmp_path, sentences, capsys):
    path = predictions(tmp_path, {1: {"id": "1-anti-stereotype", "score": math.nan}, 8: {"id": "foreign", "score": 1}})
    path.write_text(path.read_text().replace('"3-unrelated"', '"other"'))
    code, out, err = run(capsys, "stereotype", path, "--set", sentences)
    assert code == 2  # of race no triple is left
    assert "'race' has no triple that could be scored" in err
    assert "1 ids are of no sentence" in err
    path = predictions(tmp_path, {1: {"id": "1-anti-stereotype", "score": None}})
    code, out, _ = run(capsys, "stereotype", path, "--set", sentences)
    assert code == 0
    assert (json.loads(out)["profession"]["icat"]["n"], json.loads(out)["profession"]["icat"]["missing"]) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({0: {"id": 7, "score": 1}}, "intrasentence, record 1, id: is missing"),
        ({1: {"id": "1-stereotype", "score": 1}}, "record 2, id: is that of a record before"),
        ({2: {"id": "1-unrelated", "score": "high"}}, "record 3, score: is no number"),
        ({2: {"id": "1-unrelated", "score": math.inf}}, "record 3, score: is no finite number"),
        ({2: {"id": "1-unrelated", "score": True}}, "record 3, score: is no finite number"),
        ({2: {"id": "1-unrelated", "score": []}}, "record 3, score: is no number"),
        ({0: "1-stereotype"}, "intrasentence, record 1, id: is missing"),
    ],
)
def test_a_bad_prediction_is_named(changes, message, tmp_path, sentences, capsys):
    code, out, err = run(capsys, "stereotype", predictions(tmp_path, changes), "--set", sentences)
    assert (code, out) == (2, "")
    assert message in err


def test_predictions_for_another_set_are_refused(tmp_path, sentences, capsys):
    path = tmp_path / "predictions.json"
    path.write_text(json.dumps({"intrasentence": [{"id": "foreign", "score": 1}]}))
    assert "none of its ids is of a sentence of the set" in run(capsys, "stereotype", path, "--set", sentences)[2]
    path.write_text("[]")
    assert "has no list intrasentence or intersentence" in run(capsys, "stereotype", path, "--set", sentences)[2]


def test_the_table_of_crows_pairs_by_hand(tmp_path, capsys):
    path = tmp_path / "pairs.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sent_more", "sent_more_score", "sent_less_score", "bias_type"])
        writer.writerows([["a", -3, -4, "age"], ["b", -3, -2, "age"], ["c", -1, -9, "race"], ["d", "", -9, "race"]])
    code, out, _ = run(capsys, "stereotype", path)
    assert code == 0
    numbers = {name: one["stereotype_share"] for name, one in json.loads(out).items()}
    assert {name: one["value"] for name, one in numbers.items()} == {"age": 0.5, "race": 1, "all": 2 / 3}
    assert (numbers["race"]["n"], numbers["race"]["missing"]) == (1, 1)
    expected = {}
    for one in measure_pairs(*read_pair_scores(path)):
        tested = {} if one.p_value is None else {"p": one.p_value, "p_adjusted": one.p_adjusted}
        interval = [one.ci_low, one.ci_high]
        expected[one.slice] = {"value": one.value, "interval": interval, "n": one.n, "missing": one.missing, **tested}
    assert numbers == expected
    assert out == json.dumps(json.loads(out), indent=2) + "\n"
    path.write_text("sent_more_score,bias_type\n1,age\n")
    assert "lacks the column sent_less_score" in run(capsys, "stereotype", path)[2]


def test_published_odds_give_the_published_effects(tmp_path, capsys):
    code, out, _ = run(capsys, "effect", ODDS)
    assert code == 0
    numbers = json.loads(out)["all"]
    assert numbers["total_effect"]["value"] == pytest.approx(0.11455855522365835, abs=1e-12)
    assert numbers["total_effect_filtered"]["n"] == 87
    with ODDS.open(newline="") as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    path = tmp_path / "published.json"
    path.write_text(json.dumps({"model_version": "gpt2", "results": rows}))
    assert json.loads(run(capsys, "effect", path)[1])["all"] == numbers


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"results": []}, "holds 0 pairs"),
        ({"other": 1}, "has no list results"),
        ({"results": [{"odds_base": 0, "odds_alt": 1}]}, "record 1, odds_base: is 0; odds are above 0"),
        ({"results": [7]}, "record 1: is no object"),
        ([{"odds_base": 1, "odds_alt": 1}, {"odds_base": 1, "odds_alt": "x"}], "record 2, odds_alt: is no number"),
        ([{"odds_base": 1, "odds_alt": 1, "slice": 7}], "record 1, slice: is no string; give a name, or leave it out"),
        (7, "has no list results"),
    ],
)
def test_odds_that_are_none_are_refused(content, message, tmp_path, capsys):
    path = tmp_path / "odds.json"
    path.write_text(json.dumps(content))
    code, out, err = run(capsys, "effect", path)
    assert (code, out) == (2, "")
    assert message in err


def test_slices_of_odds_are_measured_apart(tmp_path, capsys):
    path = tmp_path / "odds.csv"
    path.write_text("odds_base,odds_alt,slice\n1,2,dev\n1,3,dev\n2,2,test\n")
    numbers = json.loads(run(capsys, "effect", path)[1])
    assert numbers["dev"]["total_effect"]["value"] == 1.5
    assert numbers["test"]["total_effect"]["value"] == 0


HEADER = b"sent_more_score,sent_less_score,bias_type\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER, "holds 0 pairs; give one or more"),
        (
            HEADER + b"-1,-2,age\n-1,x,age\n",
            "record 2, sent_less_score: is no number; give one, or null where there is none",
        ),
        (HEADER + b"x,-2,age\n", "record 1, sent_more_score: is no number"),
        (HEADER + b'-1,-2,"age', "is no CSV file in UTF-8 (unexpected end of data): save it as such"),
        (b"caf\xe9", "is no CSV file in UTF-8"),
        (b"", "lacks the column sent_more_score: give sent_more_score, sent_less_score, bias_type"),
    ],
)
def test_a_table_of_pairs_that_is_none_is_refused_in_words(content, message, tmp_path, capsys):
    path = tmp_path / "pairs.csv"
    path.write_bytes(content)
    code, out, err = run(capsys, "stereotype", path)
    assert (code, out) == (2, "")
    assert message in err


def test_files_may_begin_with_a_mark_of_byte_order_and_end_lines_as_programs_do(tmp_path, sentences, capsys):
    rows = [HEADER.strip(), b"-3,-4,age", b"-1,-9,race"]
    for number, end in enumerate((b"\n", b"\r\n", b"\r")):
        (tmp_path / f"{number}.csv").write_bytes(b"\xef\xbb\xbf" + end.join(rows))
        code, out, _ = run(capsys, "stereotype", tmp_path / f"{number}.csv")
        assert code == 0
        assert json.loads(out)["race"]["stereotype_share"]["n"] == 1
    path = predictions(tmp_path)
    expected = run(capsys, "stereotype", path, "--set", sentences)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert run(capsys, "stereotype", path, "--set", sentences) == expected
    path.write_text("{")
    assert "is not JSON in UTF-8" in run(capsys, "stereotype", path, "--set", sentences)[2]


def test_a_task_that_was_not_predicted_is_left_out(tmp_path, sentences, capsys):
    more = json.loads(sentences.read_text().splitlines()[0]) | {"type": "intersentence"}
    sentences.write_text(f"{sentences.read_text()}\n{json.dumps(more)}")
    code, out, err = run(capsys, "stereotype", predictions(tmp_path), "--set", sentences)
    assert (code, err) == (0, "")
    assert json.loads(out)["all"]["icat"]["n"] == 3
